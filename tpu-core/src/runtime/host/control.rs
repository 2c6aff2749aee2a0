//! Loops and branches: programs inside a program.
//!
//! The devices that run a program together stay together: those whose condition holds enter the body at once, those of one
//! branch the branch, so that what they do among themselves there finds all of them.

use super::arguments::{Arguments, Held, Lent, State};
use super::pool::Block;
use super::program::{Call, Frame, Given, Located, Program};
use super::trace::Times;
use crate::Result;
use crate::ir::Type;
use smallvec::SmallVec;
use std::sync::Arc;

/// A loop or a branch.
pub(super) struct ControlStep {
    pub control: Control,
    pub operands: Located,
    pub results: Located,
}

/// The blocks, each a program of its own.
pub(super) enum Control {
    While { cond: Box<Program>, body: Box<Program> },
    Case { branches: Vec<Program> },
}

/// Rounds that a loop is taken to have: as many as make it too long for the recording thread to wait for.
const ROUNDS: f64 = 100.0;
/// Nanoseconds that it takes to enter a block.
const ENTERING: f64 = 1000.0;

impl Control {
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        let (pair, list): ([Option<&Program>; 2], &[Program]) = match self {
            Self::While { cond, body } => ([Some(cond), Some(body)], &[]),
            Self::Case { branches } => ([None; 2], branches),
        };
        pair.into_iter().flatten().chain(list)
    }

    /// Estimated nanoseconds on one thread.
    pub fn nanoseconds(&self) -> f64 {
        let each = self.programs().map(|program| ENTERING + program.nanoseconds());
        match self {
            Self::While { .. } => ROUNDS * each.sum::<f64>(),
            Self::Case { .. } => each.fold(0.0, f64::max),
        }
    }
}

impl ControlStep {
    /// Adds what the blocks take to `times`, which has them in the order of [`Control::programs`] or is empty.
    pub fn run(&self, frames: &[Frame<'_>], threads: bool, times: &[Times]) -> Result<()> {
        match &self.control {
            Control::While { cond, body } => self.repeat((cond, times.first()), (body, times.get(1)), frames, threads),
            Control::Case { branches } => self.choose(branches, frames, threads, times),
        }
    }

    /// The results of the branch that the first operand names, of the last one if there is none.
    fn choose(&self, branches: &[Program], frames: &[Frame<'_>], threads: bool, times: &[Times]) -> Result<()> {
        let chosen: SmallVec<[usize; 1]> = frames
            .iter()
            .map(|frame| {
                // SAFETY: the first operand is a scalar i32 in memory.
                let index = unsafe { frame.at(self.operands[0].1).cast::<i32>().read_unaligned() };
                usize::try_from(index).map_or(branches.len() - 1, |index| index.min(branches.len() - 1))
            })
            .collect();
        for (number, branch) in branches.iter().enumerate() {
            let inside = || frames.iter().zip(&chosen).filter(|(_, chosen)| **chosen == number).map(|(frame, _)| frame);
            let lent = |frame: &Frame<'_>| Lent(self.operands[1..].iter().map(|operand| frame.at(operand.1)).collect());
            let mut arguments: SmallVec<[Lent; 1]> = inside().map(lent).collect();
            if arguments.is_empty() {
                continue;
            }
            for (frame, given) in inside().zip(call(
                (branch, times.get(number)),
                inside().map(|frame| (frame, &[][..])),
                arguments.iter_mut(),
                threads,
            )?) {
                for (result, (ty, location)) in given.results.iter().zip(&self.results) {
                    copy(result.at(), frame.at(*location), ty);
                }
            }
        }
        Ok(())
    }

    /// While the condition holds for its values, a device takes the body's results as values.
    ///
    /// A value starts in the memory of the loop's result, its home. The body writes over what it reads for the last time, so what
    /// it changes in part stays where it is; what it computes anew comes in blocks of the pool.
    fn repeat(&self, cond: Timed<'_>, body: Timed<'_>, frames: &[Frame<'_>], threads: bool) -> Result<()> {
        let mut states: SmallVec<[State; 1]> = frames.iter().map(|frame| self.enter(frame)).collect();
        let mut going: SmallVec<[bool; 1]> = frames.iter().map(|_| true).collect();
        let lay = |(state, frame): (&State, &Frame<'_>)| body.0.lay(|index| state.at(index), frame.pool, threads);
        let laid: SmallVec<[SmallVec<[Block; 1]>; 1]> = states.iter().zip(frames).map(lay).collect();
        loop {
            let inside = || frames.iter().zip(&going).filter(|(_, going)| **going).map(|(frame, _)| (frame, &[][..]));
            let values = |state: &State| Lent((0..state.0.len()).map(|index| state.at(index)).collect());
            let mut lent: SmallVec<[Lent; 1]> = states.iter().map(values).collect();
            let mut answers = call(cond, inside(), chosen(&mut lent, &going), threads)?.into_iter();
            for going in going.iter_mut().filter(|going| **going) {
                // SAFETY: the result of a condition is a scalar bool in memory.
                *going = answers.next().is_some_and(|given| unsafe { given.results[0].at().read() } != 0);
            }
            if !going.contains(&true) {
                break;
            }
            let all = frames.iter().zip(&laid).zip(&going);
            let inside = all.filter(|(_, going)| **going).map(|((frame, laid), _)| (frame, &laid[..]));
            let given = call(body, inside, chosen(&mut states, &going), threads)?;
            for (state, given) in chosen(&mut states, &going).zip(given) {
                state.0 = given.results.into_iter().map(Some).collect();
            }
        }
        frames.iter().zip(states).try_for_each(|(frame, state)| self.leave(frame, state))
    }

    /// The operands, each in its home.
    fn enter(&self, frame: &Frame<'_>) -> State {
        let values = self.operands.iter().zip(&self.results).map(|((ty, from), (_, home))| {
            copy(frame.at(*from), frame.at(*home), ty);
            Some(Held::Place(frame.at(*home)))
        });
        State(values.collect())
    }

    /// Brings all values home.
    fn leave(&self, frame: &Frame<'_>, mut state: State) -> Result<()> {
        for (value, (ty, home)) in state.0.iter_mut().zip(&self.results) {
            // In the home of another value, whose own is to come there.
            if let Some(Held::Place(at)) = value
                && *at != frame.at(*home)
            {
                let block = frame.pool.allocate(ty.bytes().unwrap_or(0))?;
                copy(*at, block.at(), ty);
                *value = Some(Held::Block(Arc::new(block)));
            }
        }
        for (index, (ty, home)) in self.results.iter().enumerate() {
            copy(state.at(index), frame.at(*home), ty);
        }
        Ok(())
    }
}

/// A block, and where its times go.
type Timed<'a> = (&'a Program, Option<&'a Times>);

/// Those of the devices that go on.
fn chosen<'a, T>(all: &'a mut [T], going: &'a [bool]) -> impl Iterator<Item = &'a mut T> {
    all.iter_mut().zip(going).filter(|(_, going)| **going).map(|(one, _)| one)
}

/// Runs a program inside these frames together, with what was laid in panels for it.
fn call<'f, 'p: 'f, A: Arguments + 'f>(
    (program, times): Timed<'_>,
    frames: impl Iterator<Item = (&'f Frame<'p>, &'f [Block])>,
    arguments: impl Iterator<Item = &'f mut A>,
    threads: bool,
) -> Result<SmallVec<[Given; 1]>> {
    let call = |((frame, laid), arguments): ((&'f Frame<'p>, &'f [Block]), &'f mut A)| Call {
        replica: frame.replica,
        pool: frame.pool,
        arguments,
        laid,
    };
    program.run(&mut frames.zip(arguments).map(call).collect::<SmallVec<[Call<'f>; 1]>>(), threads, times)
}

/// Copies a value, unless it is there.
fn copy(from: *const u8, to: *mut u8, ty: &Type) {
    if from != to {
        // SAFETY: both are memory of a value of this type, planned or allocated; they are the same or do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, ty.bytes().unwrap_or(0)) };
    }
}
