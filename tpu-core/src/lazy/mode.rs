//! How much goes into one program, and other settings of the recording thread.

use crate::Location;
use crate::ir::Precision;
use crate::lazy::trace::Trace;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How much goes into one program. The names are those that users of TorchTPU know.
///
/// ```
/// use tpu_core::{Mode, Tensor};
/// let sum = Mode::DeferNever.scope(|| Tensor::from_slice(&[1.0f32, 2.0]).and_then(|x| x.sum_all()))?;
/// assert_eq!(sum.item::<f32>()?, 3.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Everything since the last cut is one program. The default.
    #[default]
    DeferAndFuse,
    /// Every operation is a program of its own, run while the recording thread goes on.
    DeferNever,
    /// Every operation is a program of its own, and is waited for: run-time errors surface at the call.
    DeferNeverAndLaunchBlocking,
}

static DEFAULT: AtomicU8 = AtomicU8::new(0);
static DEFAULT_PRECISION: AtomicU8 = AtomicU8::new(Precision::Highest as u8);

/// What a thread's recording depends on and every operation looks at. Without a destructor, so reading it tests nothing.
struct Recorder {
    mode: Cell<Option<Mode>>,
    precision: Cell<Option<Precision>>,
    unchecked: Cell<bool>,
    strict_rounding: Cell<bool>,
    /// How many [`Surroundings`] are set. While none is, nobody need look there.
    surroundings: Cell<u32>,
}

/// What is rarely set.
pub(crate) struct Surroundings {
    /// Set while a composite's body, or a loop's, is traced.
    pub trace: RefCell<Option<Arc<Trace>>>,
    scope: RefCell<Option<Arc<str>>>,
    /// A frame of another language that stands for the caller.
    foreign: RefCell<Option<Location>>,
}

thread_local! {
    static RECORDER: Recorder = const { Recorder {
        mode: Cell::new(None),
        precision: Cell::new(None),
        unchecked: Cell::new(false),
        strict_rounding: Cell::new(false),
        surroundings: Cell::new(0),
    } };
    static SURROUNDINGS: Surroundings = const { Surroundings {
        trace: RefCell::new(None),
        scope: RefCell::new(None),
        foreign: RefCell::new(None),
    } };
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::DeferAndFuse, Self::DeferNever, Self::DeferNeverAndLaunchBlocking];

    /// The mode of this thread: that of the innermost [`scope`](Self::scope), else the process's default.
    pub fn current() -> Self {
        RECORDER.with(|recorder| recorder.mode.get()).unwrap_or_else(|| match DEFAULT.load(Ordering::Relaxed) {
            1 => Self::DeferNever,
            2 => Self::DeferNeverAndLaunchBlocking,
            _ => Self::DeferAndFuse,
        })
    }

    /// Makes this the default of all threads.
    pub fn set_default(self) {
        DEFAULT.store(self as u8, Ordering::Relaxed);
    }

    /// Runs `f` with this mode on this thread.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        with(|recorder| &recorder.mode, Some(self), f)
    }
}

/// How exactly the products recorded by a thread are computed, where the target can choose; the default is
/// [`Highest`](Self::Highest): `float32` products are `float32`, as in PyTorch. The host always computes in full.
///
/// ```
/// use tpu_core::{DType, Precision, Tensor};
/// let x = Tensor::ones([2, 2], DType::F32)?;
/// let y = Precision::Default.scope(|| x.matmul(&x))?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0; 4]);
/// assert_eq!(Precision::current(), Precision::Highest);
/// # Ok::<(), tpu_core::Error>(())
/// ```
impl Precision {
    /// The precision of this thread: that of the innermost [`scope`](Self::scope), else the process's default.
    pub fn current() -> Self {
        RECORDER.with(|recorder| recorder.precision.get()).unwrap_or_else(|| {
            let default = DEFAULT_PRECISION.load(Ordering::Relaxed);
            Self::ALL.iter().copied().find(|&precision| precision as u8 == default).unwrap_or(Self::Highest)
        })
    }

    /// Makes this the default of all threads: PyTorch's `torch.set_float32_matmul_precision`.
    pub fn set_default(self) {
        DEFAULT_PRECISION.store(self as u8, Ordering::Relaxed);
    }

    /// Runs `f` with this precision on this thread. A derivative has the precision of what it is the derivative of,
    /// wherever it is taken.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        with(|recorder| &recorder.precision, Some(self), f)
    }
}

impl std::str::FromStr for Mode {
    type Err = crate::Error;
    /// Reads a mode's name, `DeferAndFuse` or `defer-and-fuse`.
    fn from_str(text: &str) -> crate::Result<Self> {
        let plain = text.replace(['-', '_'], "").to_lowercase();
        let found = Self::ALL.into_iter().find(|mode| format!("{mode:?}").to_lowercase() == plain);
        found.ok_or_else(|| {
            let message = format!("must be one of {:?}, got {text}", Self::ALL);
            crate::Error::new(crate::ErrorKind::Value, "mode", message)
        })
    }
}

/// Runs `f` with a recorder setting changed, and puts the old one back, also when `f` panics.
fn with<V: Copy, T>(setting: fn(&Recorder) -> &Cell<V>, value: V, f: impl FnOnce() -> T) -> T {
    struct Restore<V: Copy>(fn(&Recorder) -> &Cell<V>, V);
    impl<V: Copy> Drop for Restore<V> {
        fn drop(&mut self) {
            RECORDER.with(|recorder| self.0(recorder).set(self.1));
        }
    }
    let old = RECORDER.with(|recorder| setting(recorder).replace(value));
    let _restore = Restore(setting, old);
    f()
}

/// The same for what is rarely set.
pub(crate) fn surround<V, T>(setting: fn(&Surroundings) -> &RefCell<Option<V>>, value: V, f: impl FnOnce() -> T) -> T {
    struct Restore<V>(fn(&Surroundings) -> &RefCell<Option<V>>, Option<V>);
    impl<V> Drop for Restore<V> {
        fn drop(&mut self) {
            SURROUNDINGS.with(|surroundings| self.0(surroundings).replace(self.1.take()));
            RECORDER.with(|recorder| recorder.surroundings.update(|count| count - 1));
        }
    }
    let old = SURROUNDINGS.with(|surroundings| setting(surroundings).replace(Some(value)));
    RECORDER.with(|recorder| recorder.surroundings.update(|count| count + 1));
    let _restore = Restore(setting, old);
    f()
}

/// What `f` reads of what is rarely set; `None` if nothing is.
#[inline]
pub(crate) fn surroundings<T>(f: impl FnOnce(&Surroundings) -> T) -> Option<T> {
    RECORDER.with(|recorder| recorder.surroundings.get() > 0).then(|| SURROUNDINGS.with(f))
}

/// Runs `f` without run-time checks of indices on this thread. An index out of range is then clamped into range when
/// gathering and its update dropped when scattering.
pub fn unchecked_indices<T>(f: impl FnOnce() -> T) -> T {
    with(|recorder| &recorder.unchecked, true, f)
}

/// Whether index checks are recorded on this thread.
pub fn checks_indices() -> bool {
    RECORDER.with(|recorder| !recorder.unchecked.get())
}

/// Runs `f` so that bf16 and f16 values of programs cut on this thread are rounded after every operation, also inside
/// fused groups.
pub fn strict_rounding<T>(f: impl FnOnce() -> T) -> T {
    with(|recorder| &recorder.strict_rounding, true, f)
}

pub(crate) fn rounds_strictly() -> bool {
    RECORDER.with(|recorder| recorder.strict_rounding.get())
}

/// Runs `f` under a module scope: error messages and reports show `outer.inner` beside the source line.
pub fn scope<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let outer = surroundings(|surroundings| surroundings.scope.borrow().clone()).flatten();
    let full = outer.map_or_else(|| name.to_owned(), |outer| format!("{outer}.{name}"));
    surround(|surroundings| &surroundings.scope, full.into(), f)
}

/// Runs `f` with a frame of another language standing for the caller of every operation.
pub fn foreign_caller<T>(location: Location, f: impl FnOnce() -> T) -> T {
    surround(|surroundings| &surroundings.foreign, location, f)
}

/// Runs `f` with this function's caller standing for the caller of every operation. For libraries of operations: a closure is
/// its operations' caller, though `#[track_caller]` stands on the function around it.
///
/// ```
/// use tpu_core::{Tensor, lazy};
/// #[track_caller]
/// fn both(x: &Tensor) -> tpu_core::Result<Vec<Tensor>> {
///     lazy::at_caller(|| [1.0, 2.0].into_iter().map(|number| x.reshape(3)?.add(number)).collect())
/// }
/// let (line, error) = (line!(), both(&Tensor::from_slice(&[1.0f32])?).unwrap_err());
/// assert_eq!(error.location().line(), Some(line));
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn at_caller<T>(f: impl FnOnce() -> T) -> T {
    // Scopes that are set stay set, and are added again where an operation is recorded.
    foreign_caller(locate(std::panic::Location::caller()).with_scope(None), f)
}

/// The place that an operation recorded now by `caller` is attributed to.
#[inline]
pub(crate) fn locate(caller: &'static std::panic::Location<'static>) -> Location {
    let special = surroundings(|surroundings| {
        let location = match &*surroundings.foreign.borrow() {
            Some(foreign) => foreign.clone(),
            None => Location::rust(caller),
        };
        match &*surroundings.scope.borrow() {
            Some(scope) => location.with_scope(Some(scope.clone())),
            None => location,
        }
    });
    special.unwrap_or_else(|| Location::rust(caller))
}
