//! Whether operations are recorded for differentiation, a setting of the thread.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Whether this thread's operations extend the histories of their operands.
pub fn is_grad_enabled() -> bool {
    ENABLED.with(Cell::get)
}

/// Runs `f` without recording histories on this thread: results depend on nothing, and no values are kept for a
/// backward pass. PyTorch's `torch.no_grad`.
///
/// ```
/// use tpu_autograd::{no_grad, requires_grad};
/// use tpu_core::Tensor;
/// let x = requires_grad(&Tensor::from_slice(&[1.0f32])?)?;
/// assert!(x.add(1.0)?.history().is_some());
/// assert!(no_grad(|| x.add(1.0))?.history().is_none());
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    with_grad(false, f)
}

/// Runs `f` with histories recorded on this thread, also inside [`no_grad`].
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    with_grad(true, f)
}

pub(crate) fn with_grad<T>(enabled: bool, f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ENABLED.with(|flag| flag.set(self.0));
        }
    }
    let _restore = Restore(ENABLED.with(|flag| flag.replace(enabled)));
    f()
}
