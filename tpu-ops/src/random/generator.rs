//! Where ops get their counters from.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock};
use tpu_core::random::random_group;

/// A seed and the offset of the next unused Philox counter. Clones share their state; threads may share one.
///
/// ```
/// use tpu_core::DType;
/// use tpu_ops::{Generator, uniform};
/// let (a, b) = (Generator::new(7), Generator::new(7));
/// let first = uniform([4], 0.0, 1.0, DType::F32, Some(&a))?.to_vec::<f32>()?;
/// assert_eq!(uniform([4], 0.0, 1.0, DType::F32, Some(&b))?.to_vec::<f32>()?, first);
/// assert_ne!(uniform([4], 0.0, 1.0, DType::F32, Some(&b))?.to_vec::<f32>()?, first);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug)]
struct State {
    seed: u64,
    offset: u64,
}

/// The generator of the process; its seed is 0 until [`manual_seed`].
static GLOBAL: OnceLock<Generator> = OnceLock::new();

thread_local! {
    static SCOPED: RefCell<Option<Generator>> = const { RefCell::new(None) };
}

impl Generator {
    /// A generator at offset 0.
    pub fn new(seed: u64) -> Self {
        Self::at(seed, 0)
    }

    /// A generator that goes on from what [`state`](Self::state) gave.
    pub fn at(seed: u64, offset: u64) -> Self {
        Self(Arc::new(Mutex::new(State { seed, offset })))
    }

    /// The generator that ops use when they are given none: that of the innermost [`scope`](Self::scope) on this thread, else
    /// that of the process.
    pub fn current() -> Self {
        SCOPED.with(|scoped| scoped.borrow().clone()).unwrap_or_else(|| GLOBAL.get_or_init(|| Self::new(0)).clone())
    }

    /// Runs `f` with this generator as the [current](Self::current) one of this thread.
    pub fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Generator>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SCOPED.with(|scoped| *scoped.borrow_mut() = self.0.take());
            }
        }
        let _restore = Restore(SCOPED.with(|scoped| scoped.borrow_mut().replace(self.clone())));
        f()
    }

    /// Seed and offset, for a checkpoint.
    pub fn state(&self) -> (u64, u64) {
        let state = *self.lock();
        (state.seed, state.offset)
    }

    /// Goes on from another seed and offset.
    pub fn set_state(&self, seed: u64, offset: u64) {
        *self.lock() = State { seed, offset };
    }

    /// Takes the ⌈words / 4⌉ counters that a tensor of that many random words uses: gives its seed and offset.
    pub fn reserve(&self, words: usize) -> (u64, u64) {
        let mut state = self.lock();
        let offset = state.offset;
        state.offset = offset.wrapping_add(words.div_ceil(4) as u64);
        (state.seed, offset)
    }

    /// A generator with a seed drawn from this one. What runs under it does not move this one further, and runs again alike
    /// under [`Generator::new`] of its seed: recomputation needs this.
    pub fn fork(&self) -> Self {
        let (seed, offset) = self.reserve(1);
        let [a, b, ..] = random_group(seed, offset, 0);
        Self::new(u64::from(a) << 32 | u64::from(b))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Sets the seed of the [current](Generator::current) generator, and its offset to 0. PyTorch's `manual_seed`.
pub fn manual_seed(seed: u64) {
    Generator::current().set_state(seed, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_words_take_one_counter_and_none_takes_none() {
        let generator = Generator::new(3);
        for (words, offset) in [(0, 0), (1, 0), (4, 1), (5, 2), (0, 4), (1, 4)] {
            assert_eq!(generator.reserve(words), (3, offset), "{words} words");
        }
    }

    #[test]
    fn threads_never_get_the_same_counters() {
        let generator = Generator::new(0);
        let mut offsets: Vec<u64> = std::thread::scope(|scope| {
            let draw = || (0..1000).map(|_| generator.reserve(4).1).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        offsets.sort_unstable();
        assert_eq!(offsets, (0..4000).collect::<Vec<_>>());
    }

    #[test]
    fn a_scope_ends_also_by_a_panic() {
        let scoped = Generator::new(9);
        let result = std::panic::catch_unwind(|| scoped.scope(|| panic!("inside")));
        assert!(result.is_err());
        assert_ne!(Generator::current().state().0, 9);
        scoped.scope(|| manual_seed(10));
        assert_eq!(scoped.state(), (10, 0));
    }

    #[test]
    fn a_fork_moves_its_parent_by_one_counter_whatever_it_draws() {
        let parent = Generator::new(1);
        let fork = parent.fork();
        fork.reserve(1000);
        assert_eq!(parent.state(), (1, 1));
        assert_ne!(fork.state().0, parent.fork().state().0);
    }
}
