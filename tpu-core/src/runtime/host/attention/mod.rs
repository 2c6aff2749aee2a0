//! Attention and its derivative by blocks of queries and keys, without the matrix of all scores.
//!
//! The algorithm is that of FlashAttention (Dao, 2023): a block of queries goes over the keys with the largest score and the sum
//! of exponentials so far, and rescales what it has when a larger score comes. The derivative computes the weights again from
//! the scores and the logarithms of the sums. Keys that no query of a block may see are not visited.
//!
//! Scores lie with sixteen queries side by side, so that a softmax is a loop over keys without sums across lanes, and keys and
//! values are read where they are; only queries, and the gradients of results, are transposed, once per block.
//!
//! Blocks have fixed sizes and their order is fixed, so the bits depend neither on the number of threads nor on how the work
//! is cut. 16-bit floats are widened when a block is read; everything is computed in f32.

mod backward;
mod forward;
mod rows;
mod weights;

use super::row::isa::Isa;
use super::tile::{self, COLUMNS};
use crate::DType;
use rayon::prelude::*;
use smallvec::SmallVec;
use weights::{Lanes, Loops};

/// Queries of a block.
const QUERIES: usize = 128;
/// Keys of a block.
const KEYS: usize = 128;
/// Queries that lie side by side.
const LANES: usize = COLUMNS;
/// The widest heads that a block of fits the cache.
pub(crate) const WIDEST: usize = 256;

/// Sizes or steps, one per axis.
pub(crate) type Axes = SmallVec<[usize; 4]>;

/// Matrices in memory, one for each point of the leading axes: `[lead …, rows, columns]`, steps in elements.
#[derive(Clone, Debug)]
pub(crate) struct Matrices {
    pub base: u32,
    /// Bytes.
    pub offset: usize,
    pub dtype: DType,
    pub lead: Axes,
    pub row: usize,
    pub column: usize,
}

/// A dense result: base, and bytes from there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dense {
    pub base: u32,
    pub offset: usize,
}

/// What is computed.
#[derive(Clone, Debug)]
pub(crate) enum Pass {
    /// The result in the operands' dtype, and the logarithms of the sums of exponentials as f32.
    Forward { out: Dense, log_sum: Dense },
    /// From the gradient of the result, the logarithms, and what each query's gradients of weights have in common: the gradients
    /// of query, key and value as f32.
    Backward { gradient: Box<Matrices>, log_sum: Dense, common: Dense, results: [Dense; 3] },
}

/// Attention of `[lead …, queries, width]` over keys `[lead …, keys, width]` and values `[lead …, keys, out]`. The last leading
/// axis is that of heads: `group` of them share keys and values.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub lead: Axes,
    pub group: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub out: usize,
    pub scale: f32,
    pub causal: bool,
    pub query: Matrices,
    pub key: Matrices,
    pub value: Matrices,
    /// Bools, or what is added to the scores, stretched to `[lead …, queries, keys]`.
    pub mask: Option<Matrices>,
    pub pass: Pass,
    pub isa: Isa,
}

impl Attention {
    /// Multiplications and additions, those with hidden keys left out.
    pub fn flops(&self) -> f64 {
        let heads = self.lead.iter().product::<usize>() as f64;
        let pairs = if self.causal {
            let seen = self.queries.min(self.keys);
            (seen * (seen + 1)) as f64 / 2.0 + ((self.queries - seen) * self.keys) as f64
        } else {
            (self.queries * self.keys) as f64
        };
        let products = match self.pass {
            Pass::Forward { .. } => self.width + self.out,
            Pass::Backward { .. } => 3 * self.width + 2 * self.out,
        };
        2.0 * heads * pairs * products as f64
    }

    /// The number of keys that some query before `end` may see.
    fn visible(&self, end: usize) -> usize {
        if self.causal { self.keys.min(end) } else { self.keys }
    }

    /// The same of `count` keys from `key` on.
    fn visible_from(&self, key: usize, count: usize, end: usize) -> usize {
        self.visible(end).saturating_sub(key).min(count)
    }

    /// How many keys from `key` on each query from `query` on may see.
    fn seen(&self, query: usize, key: usize, keys: usize) -> [i32; LANES] {
        std::array::from_fn(|lane| match self.causal {
            true => (query + lane + 1).saturating_sub(key).min(keys) as i32,
            false => keys as i32,
        })
    }

    /// The point of the leading axes that a head is.
    fn point(&self, mut head: usize) -> Axes {
        let mut point: Axes = self.lead.clone();
        for (at, &size) in point.iter_mut().zip(&self.lead).rev() {
            (*at, head) = (head % size, head / size);
        }
        point
    }

    /// The point of the keys and values that the head at `point` reads.
    fn shared(&self, point: &[usize]) -> Axes {
        let mut shared = Axes::from_slice(point);
        shared.iter_mut().last().into_iter().for_each(|head| *head /= self.group);
        shared
    }
}

/// An attention being run.
struct Run<'a> {
    of: &'a Attention,
    bases: Bases<'a>,
    product: tile::Kernel,
    loops: Loops,
}

#[derive(Clone, Copy)]
struct Bases<'a>(&'a [*mut u8]);
// SAFETY: tasks write disjoint parts of the results, and operands are only read.
unsafe impl Sync for Bases<'_> {}

impl Run<'_> {
    fn dense<T>(&self, at: Dense) -> *mut T {
        self.bases.0[at.base as usize].wrapping_add(at.offset).cast()
    }
}

/// Runs an attention. With `parallel`, in the current thread pool.
///
/// # Safety
///
/// The bases are good for what steps and sizes reach; the results overlap neither each other nor an operand. The machine has
/// the instruction set.
pub(crate) unsafe fn run(of: &Attention, bases: &[*mut u8], parallel: bool) {
    let run = Run { of, bases: Bases(bases), product: tile::kernel(of.isa), loops: Loops::of(of.isa) };
    let threads = if parallel { rayon::current_num_threads() } else { 1 };
    // SAFETY: passed on to the caller.
    unsafe {
        match &of.pass {
            Pass::Forward { out, log_sum } => forward::run(&run, *out, *log_sum, threads),
            Pass::Backward { gradient, log_sum, common, results } => {
                backward::run(&run, gradient, [*log_sum, *common], *results, threads);
            }
        }
    }
}

/// Runs tasks in order, or in parallel on more than one thread.
fn each(tasks: usize, threads: usize, task: impl Fn(usize) + Sync) {
    match threads {
        0 | 1 => (0..tasks).for_each(task),
        _ => (0..tasks).into_par_iter().for_each(&task),
    }
}
