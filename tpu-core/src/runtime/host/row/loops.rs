//! The loops of a row program's instructions: one generic source, instantiated per function and instruction set.
//!
//! A loop works on a tile of `rows` × `cols` elements. Sources and destination each have a distance between rows; within
//! a row elements are adjacent (`V`), or one element serves the whole row (`S`).
//!
//! # What callers guarantee (`# Safety` below refers to this)
//!
//! 1. Every pointer is good for `rows` rows at its distance: `cols` elements for `V`, one for `S`; the destination may
//!    be written.
//! 2. A source is either disjoint from the destination, or the very same elements at the same distances.
//! 3. The instruction set of the instance is available.
//!
//! Loops read a chunk before they write it, so that rule 2 suffices.

use super::isa::Isa;
use std::mem::MaybeUninit;

/// Where one instruction reads and writes for one tile.
pub(crate) struct Call {
    pub dst: *mut u8,
    pub src: [*const u8; 3],
    /// Bytes between rows of the destination.
    pub dst_stride: usize,
    /// Bytes between rows of the sources.
    pub src_stride: [usize; 3],
    pub rows: usize,
    pub cols: usize,
}

/// A compiled loop.
pub(crate) type Kernel = unsafe fn(&Call);

/// Elements that a light loop holds in registers.
const LIGHT: usize = 32;
/// Elements that a heavy loop stages.
const HEAVY: usize = 64;
/// Partial sums of a reduction. Fixed on all instruction sets: it is part of what a sum means here.
pub(crate) const LANES: usize = 64;

/// A function of one element.
pub(crate) trait Map1<T, U> {
    /// Long enough to be worth staging elements for: the compiler then vectorises over the staged chunk.
    const HEAVY: bool = false;
    fn map(x: T) -> U;
    /// Whether an element needs `map_rare`.
    #[inline(always)]
    fn is_rare(_x: T) -> bool {
        false
    }
    /// The function for the elements that `map` is not good for.
    #[inline(always)]
    fn map_rare(x: T) -> U {
        Self::map(x)
    }
    /// Whether there are rare elements.
    const RARE: bool = false;
}

/// A function of two elements.
pub(crate) trait Map2<T, U> {
    fn map(x: T, y: T) -> U;
}

/// A function of three elements.
pub(crate) trait Map3<T> {
    fn map(x: T, y: T, z: T) -> T;
}

/// An associative function with its identity.
pub(crate) trait Fold<T>: Map2<T, T> {
    const IDENTITY: T;
}

/// The columns, read anew for each row and chunk. Were they known not to change, the compiler would unroll a chunk and
/// vectorise the loop over chunks, or over rows, with gathers and scatters: much more code, and slower.
#[inline(always)]
fn cols(call: &Call) -> usize {
    // SAFETY: a field of a reference.
    unsafe { (&raw const call.cols).read_volatile() }
}

#[inline(always)]
unsafe fn load<T: Copy, const N: usize>(p: *const T) -> [T; N] {
    // SAFETY: N elements can be read, by the callers' rule 1.
    unsafe { p.cast::<[T; N]>().read_unaligned() }
}

/// Goes along a row: `$body` with `$i` where a chunk starts and `$N` its elements. What is left at the end goes in ever
/// smaller powers of two: a loop over single elements would be vectorised again, at a greater cost than the main loop.
macro_rules! chunks {
    ($call:ident, |$i:ident, $N:ident| $body:block) => {{
        let mut $i = 0;
        while $i + LIGHT <= cols($call) {
            const $N: usize = LIGHT;
            $body
            $i += $N;
        }
        chunks!(@rest $call, $i, $N, $body, 16, 8, 4, 2, 1);
    }};
    (@rest $call:ident, $i:ident, $N:ident, $body:block, $($n:literal),*) => {$(
        if $call.cols & $n != 0 {
            const $N: usize = $n;
            $body
            $i += $N;
        }
    )*};
}

#[inline(always)]
unsafe fn map1<T: Copy, U: Copy, F: Map1<T, U>>(call: &Call) {
    for row in 0..call.rows {
        // SAFETY: rule 1.
        let (a, d) = unsafe {
            (call.src[0].add(row * call.src_stride[0]).cast::<T>(), call.dst.add(row * call.dst_stride).cast::<U>())
        };
        if F::HEAVY {
            // SAFETY: rule 1.
            unsafe { heavy_row::<T, U, F>(a, d, cols(call)) };
        } else {
            chunks!(call, |i, N| {
                let mut out = [MaybeUninit::<U>::uninit(); N];
                // SAFETY: rule 1, the chunk is within the row.
                let x: [T; N] = unsafe { load(a.add(i)) };
                for l in 0..N {
                    out[l].write(F::map(x[l]));
                }
                // SAFETY: rule 1, the chunk is within the row.
                unsafe { d.add(i).cast::<[MaybeUninit<U>; N]>().write_unaligned(out) };
            });
        }
    }
}

#[inline(always)]
unsafe fn heavy_row<T: Copy, U: Copy, F: Map1<T, U>>(a: *const T, d: *mut U, cols: usize) {
    let mut i = 0;
    while i + HEAVY <= cols {
        // SAFETY: the chunk is within the row.
        let x: [T; HEAVY] = unsafe { load(a.add(i)) };
        let out = heavy_chunk::<T, U, F>(&x);
        // SAFETY: the chunk is within the row.
        unsafe { d.add(i).cast::<[MaybeUninit<U>; HEAVY]>().write_unaligned(out) };
        i += HEAVY;
    }
    if i < cols {
        let n = cols - i;
        // SAFETY: at least one element is left; unused places are filled with a copy of it.
        let first = unsafe { a.add(i).read_unaligned() };
        let mut x = [first; HEAVY];
        // SAFETY: n elements are left.
        unsafe { std::ptr::copy_nonoverlapping(a.add(i).cast::<u8>(), x.as_mut_ptr().cast(), n * size_of::<T>()) };
        let out = heavy_chunk::<T, U, F>(&x);
        // SAFETY: n elements are left, all of `out` is initialised.
        unsafe { std::ptr::copy_nonoverlapping(out.as_ptr().cast::<u8>(), d.add(i).cast(), n * size_of::<U>()) };
    }
}

#[inline(always)]
fn heavy_chunk<T: Copy, U: Copy, F: Map1<T, U>>(x: &[T; HEAVY]) -> [MaybeUninit<U>; HEAVY] {
    let mut out = [MaybeUninit::<U>::uninit(); HEAVY];
    for l in 0..HEAVY {
        out[l].write(F::map(x[l]));
    }
    if F::RARE {
        let mut any = false;
        for &x in x {
            any |= F::is_rare(x);
        }
        if any {
            for l in 0..HEAVY {
                if F::is_rare(x[l]) {
                    out[l].write(F::map_rare(x[l]));
                }
            }
        }
    }
    out
}

/// `S0`, `S1`: whether a source is one element per row.
#[inline(always)]
unsafe fn map2<T: Copy, U: Copy, F: Map2<T, U>, const S0: bool, const S1: bool>(call: &Call) {
    for row in 0..call.rows {
        // SAFETY: rule 1.
        let (a, b, d) = unsafe {
            (
                call.src[0].add(row * call.src_stride[0]).cast::<T>(),
                call.src[1].add(row * call.src_stride[1]).cast::<T>(),
                call.dst.add(row * call.dst_stride).cast::<U>(),
            )
        };
        if cols(call) == 0 {
            continue;
        }
        // SAFETY: the row has an element.
        let (first_a, first_b) = unsafe { (a.read_unaligned(), b.read_unaligned()) };
        chunks!(call, |i, N| {
            let mut out = [MaybeUninit::<U>::uninit(); N];
            // SAFETY: rule 1, the chunk is within the row.
            let x: [T; N] = if S0 { [first_a; N] } else { unsafe { load(a.add(i)) } };
            // SAFETY: as above.
            let y: [T; N] = if S1 { [first_b; N] } else { unsafe { load(b.add(i)) } };
            for l in 0..N {
                out[l].write(F::map(x[l], y[l]));
            }
            // SAFETY: as above.
            unsafe { d.add(i).cast::<[MaybeUninit<U>; N]>().write_unaligned(out) };
        });
    }
}

/// `S0`, `S1`, `S2`: whether a source is one element per row.
#[inline(always)]
unsafe fn map3<T: Copy, F: Map3<T>, const S0: bool, const S1: bool, const S2: bool>(call: &Call) {
    for row in 0..call.rows {
        // SAFETY: rule 1.
        let ([a, b, c], d) = unsafe {
            (
                [0, 1, 2].map(|i| call.src[i].add(row * call.src_stride[i]).cast::<T>()),
                call.dst.add(row * call.dst_stride).cast::<T>(),
            )
        };
        if cols(call) == 0 {
            continue;
        }
        // SAFETY: the row has an element.
        let first = [a, b, c].map(|source| unsafe { source.read_unaligned() });
        chunks!(call, |i, N| {
            let mut out = [MaybeUninit::<T>::uninit(); N];
            // SAFETY: rule 1, the chunk is within the row.
            let x: [T; N] = if S0 { [first[0]; N] } else { unsafe { load(a.add(i)) } };
            // SAFETY: as above.
            let y: [T; N] = if S1 { [first[1]; N] } else { unsafe { load(b.add(i)) } };
            // SAFETY: as above.
            let z: [T; N] = if S2 { [first[2]; N] } else { unsafe { load(c.add(i)) } };
            for l in 0..N {
                out[l].write(F::map(x[l], y[l], z[l]));
            }
            // SAFETY: as above.
            unsafe { d.add(i).cast::<[MaybeUninit<T>; N]>().write_unaligned(out) };
        });
    }
}

/// Sources: predicate bytes, then two values.
#[inline(always)]
unsafe fn select<T: Copy, const S1: bool, const S2: bool>(call: &Call) {
    for row in 0..call.rows {
        // SAFETY: rule 1.
        let (p, a, b, d) = unsafe {
            (
                call.src[0].add(row * call.src_stride[0]),
                call.src[1].add(row * call.src_stride[1]).cast::<T>(),
                call.src[2].add(row * call.src_stride[2]).cast::<T>(),
                call.dst.add(row * call.dst_stride).cast::<T>(),
            )
        };
        if cols(call) == 0 {
            continue;
        }
        // SAFETY: the row has an element.
        let (first_a, first_b) = unsafe { (a.read_unaligned(), b.read_unaligned()) };
        chunks!(call, |i, N| {
            // SAFETY: rule 1, the chunk is within the row.
            let m: [u8; N] = unsafe { load(p.add(i)) };
            // SAFETY: as above.
            let x: [T; N] = if S1 { [first_a; N] } else { unsafe { load(a.add(i)) } };
            // SAFETY: as above.
            let y: [T; N] = if S2 { [first_b; N] } else { unsafe { load(b.add(i)) } };
            let mut out = x;
            for l in 0..N {
                out[l] = if m[l] != 0 { x[l] } else { y[l] };
            }
            // SAFETY: as above.
            unsafe { d.add(i).cast::<[T; N]>().write_unaligned(out) };
        });
    }
}

/// One element per row, repeated along the row.
#[inline(always)]
unsafe fn splat<T: Copy>(call: &Call) {
    for row in 0..call.rows {
        // SAFETY: rule 1.
        unsafe {
            let x = call.src[0].add(row * call.src_stride[0]).cast::<T>().read_unaligned();
            let d = call.dst.add(row * call.dst_stride).cast::<T>();
            for i in 0..cols(call) {
                d.add(i).write_unaligned(x);
            }
        }
    }
}

/// The fold of each row into one element of the destination, in a fixed order: element `i` goes to partial `i mod LANES`,
/// partials are folded in halves. Rows longer than a tile are folded tile by tile and the tiles' results by
/// [`fold_blocks`].
#[inline(always)]
unsafe fn reduce<T: Copy, F: Fold<T>>(call: &Call) {
    for row in 0..call.rows {
        // SAFETY: rule 1.
        let a = unsafe { call.src[0].add(row * call.src_stride[0]).cast::<T>() };
        let n = cols(call);
        let mut acc = [F::IDENTITY; LANES];
        let mut i = 0;
        while i + LANES <= n {
            // SAFETY: rule 1, the chunk is within the row.
            let x: [T; LANES] = unsafe { load(a.add(i)) };
            for l in 0..LANES {
                acc[l] = F::map(acc[l], x[l]);
            }
            i += LANES;
        }
        for (l, acc) in acc[..n - i].iter_mut().enumerate() {
            // SAFETY: i + l < n.
            *acc = F::map(*acc, unsafe { a.add(i + l).read_unaligned() });
        }
        // Halves that hold only the identity change nothing: start where there is something.
        let mut half = match n {
            0..=8 => 4,
            9..=16 => 8,
            17..=32 => 16,
            _ => 32,
        };
        while half > 0 {
            for l in 0..half {
                acc[l] = F::map(acc[l], acc[l + half]);
            }
            half /= 2;
        }
        // SAFETY: rule 1.
        unsafe { call.dst.add(row * call.dst_stride).cast::<T>().write_unaligned(acc[0]) };
    }
}

/// Folds `cols` columns over the rows, top down, into the destination row, which holds what came before.
#[inline(always)]
unsafe fn column<T: Copy, F: Fold<T>>(call: &Call) {
    let d = call.dst.cast::<T>();
    let mut i = 0;
    while i + LIGHT <= call.cols {
        // SAFETY: rule 1, the chunk is within the row.
        let mut acc: [T; LIGHT] = unsafe { load(d.add(i)) };
        for row in 0..call.rows {
            // SAFETY: as above.
            let x: [T; LIGHT] = unsafe { load(call.src[0].add(row * call.src_stride[0]).cast::<T>().add(i)) };
            for l in 0..LIGHT {
                acc[l] = F::map(acc[l], x[l]);
            }
        }
        // SAFETY: as above.
        unsafe { d.add(i).cast::<[T; LIGHT]>().write_unaligned(acc) };
        i += LIGHT;
    }
    while i < call.cols {
        // SAFETY: rule 1, i < cols.
        unsafe {
            let mut acc = d.add(i).read_unaligned();
            for row in 0..call.rows {
                acc = F::map(acc, call.src[0].add(row * call.src_stride[0]).cast::<T>().add(i).read_unaligned());
            }
            d.add(i).write_unaligned(acc);
        }
        i += 1;
    }
}

/// Writes the identity of a fold to every element.
#[inline(always)]
unsafe fn identity<T: Copy, F: Fold<T>>(call: &Call) {
    for row in 0..call.rows {
        // SAFETY: rule 1.
        unsafe {
            let d = call.dst.add(row * call.dst_stride).cast::<T>();
            for i in 0..cols(call) {
                d.add(i).write_unaligned(F::IDENTITY);
            }
        }
    }
}

/// A function too long to be vectorised, element by element.
unsafe fn slow1<T: Copy, F: Map1<T, T>>(call: &Call) {
    for row in 0..call.rows {
        for i in 0..cols(call) {
            // SAFETY: rule 1.
            unsafe {
                let x = call.src[0].add(row * call.src_stride[0]).cast::<T>().add(i).read_unaligned();
                call.dst.add(row * call.dst_stride).cast::<T>().add(i).write_unaligned(F::map(x));
            }
        }
    }
}

/// A function too long to be vectorised, element by element; `S0`, `S1` as for [`map2`].
unsafe fn slow2<T: Copy, F: Map2<T, T>, const S0: bool, const S1: bool>(call: &Call) {
    for row in 0..call.rows {
        for i in 0..cols(call) {
            // SAFETY: rule 1. A source that is one element is not the destination when the row has more, by rule 2.
            unsafe {
                let a = call.src[0].add(row * call.src_stride[0]).cast::<T>();
                let b = call.src[1].add(row * call.src_stride[1]).cast::<T>();
                let x = if S0 { a } else { a.add(i) }.read_unaligned();
                let y = if S1 { b } else { b.add(i) }.read_unaligned();
                call.dst.add(row * call.dst_stride).cast::<T>().add(i).write_unaligned(F::map(x, y));
            }
        }
    }
}

macro_rules! instances {
    ($($isa:ident: $features:literal;)*) => {$(
        /// Instances for one instruction set.
        #[cfg(target_arch = "x86_64")]
        mod $isa {
            use super::*;
            instances!(@functions #[target_feature(enable = $features)]);
        }
    )*};
    (@functions $(#[$attribute:meta])*) => {
        $(#[$attribute])*
        pub(super) unsafe fn map1<T: Copy, U: Copy, F: Map1<T, U>>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::map1::<T, U, F>(call) }
        }
        $(#[$attribute])*
        pub(super) unsafe fn map2<T: Copy, U: Copy, F: Map2<T, U>, const S0: bool, const S1: bool>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::map2::<T, U, F, S0, S1>(call) }
        }
        $(#[$attribute])*
        pub(super) unsafe fn map3<T: Copy, F: Map3<T>, const S0: bool, const S1: bool, const S2: bool>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::map3::<T, F, S0, S1, S2>(call) }
        }
        $(#[$attribute])*
        pub(super) unsafe fn select<T: Copy, const S1: bool, const S2: bool>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::select::<T, S1, S2>(call) }
        }
        $(#[$attribute])*
        pub(super) unsafe fn splat<T: Copy>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::splat::<T>(call) }
        }
        $(#[$attribute])*
        pub(super) unsafe fn reduce<T: Copy, F: Fold<T>>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::reduce::<T, F>(call) }
        }
        $(#[$attribute])*
        pub(super) unsafe fn column<T: Copy, F: Fold<T>>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::column::<T, F>(call) }
        }
        $(#[$attribute])*
        pub(super) unsafe fn identity<T: Copy, F: Fold<T>>(call: &Call) {
            // SAFETY: passed on to the caller.
            unsafe { super::identity::<T, F>(call) }
        }
    };
}
instances! {
    avx2: "avx2,fma,f16c";
    avx512: "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
}
mod portable {
    use super::*;
    instances!(@functions);
}

macro_rules! pick {
    ($isa:expr, $function:ident :: <$($arg:tt),*>) => {
        match $isa {
            Isa::Portable => portable::$function::<$($arg),*>,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::$function::<$($arg),*>,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::$function::<$($arg),*>,
            #[cfg(not(target_arch = "x86_64"))]
            _ => portable::$function::<$($arg),*>,
        }
    };
}

/// The loop of a function of one element.
pub(super) fn map1_kernel<T: Copy, U: Copy, F: Map1<T, U>>(isa: Isa) -> Kernel {
    pick!(isa, map1::<T, U, F>)
}

/// The loop of a slow function of one element, the same on all instruction sets.
pub(super) fn map1_scalar_kernel<T: Copy, F: Map1<T, T>>() -> Kernel {
    slow1::<T, F>
}

/// The loop of a function of two elements.
pub(super) fn map2_kernel<T: Copy, U: Copy, F: Map2<T, U>>(isa: Isa) -> Kernel {
    pick!(isa, map2::<T, U, F, false, false>)
}

/// The loop of a function of two elements; `modes` says which of them is one element per row, at most one.
pub(super) fn map2_kernel_modes<T: Copy, U: Copy, F: Map2<T, U>>(isa: Isa, modes: [bool; 2]) -> Kernel {
    match modes {
        [false, false] => pick!(isa, map2::<T, U, F, false, false>),
        [true, _] => pick!(isa, map2::<T, U, F, true, false>),
        [_, true] => pick!(isa, map2::<T, U, F, false, true>),
    }
}

/// The loop of a function of three elements; `S0`, `S1`, `S2`: whether a source is one element per row.
pub(super) fn map3_kernel<T: Copy, F: Map3<T>, const S0: bool, const S1: bool, const S2: bool>(isa: Isa) -> Kernel {
    pick!(isa, map3::<T, F, S0, S1, S2>)
}

/// The loop of a slow function of two elements, the same on all instruction sets.
pub(super) fn map2_scalar_kernel<T: Copy, F: Map2<T, T>>(modes: [bool; 2]) -> Kernel {
    match modes {
        [false, false] => slow2::<T, F, false, false>,
        [true, _] => slow2::<T, F, true, false>,
        [_, true] => slow2::<T, F, false, true>,
    }
}

/// The loop of a selection between elements of the width of `T`.
pub(super) fn select_kernel<T: Copy>(isa: Isa) -> Kernel {
    pick!(isa, select::<T, false, false>)
}

/// The loop of a selection; `modes` says which of the two is one element per row.
pub(super) fn select_kernel_modes<T: Copy>(isa: Isa, modes: [bool; 2]) -> Kernel {
    match modes {
        [false, false] => pick!(isa, select::<T, false, false>),
        [false, true] => pick!(isa, select::<T, false, true>),
        [true, false] => pick!(isa, select::<T, true, false>),
        [true, true] => pick!(isa, select::<T, true, true>),
    }
}

/// The loop that repeats one element of the width of `T` per row.
pub(super) fn splat_kernel<T: Copy>(isa: Isa) -> Kernel {
    pick!(isa, splat::<T>)
}

/// The loops of a fold.
#[derive(Clone, Copy)]
pub(crate) struct FoldKernels {
    /// Rows to one element each.
    pub reduce: Kernel,
    /// Columns over rows into a row that holds what came before.
    pub column: Kernel,
    /// Fills with the identity.
    pub identity: Kernel,
    /// Two rows of elements into one: `map2` of the fold.
    pub pair: Kernel,
}

/// The loops of one fold.
pub(super) fn fold_kernels<T: Copy, F: Fold<T>>(isa: Isa) -> FoldKernels {
    FoldKernels {
        reduce: pick!(isa, reduce::<T, F>),
        column: pick!(isa, column::<T, F>),
        identity: pick!(isa, identity::<T, F>),
        pair: map2_kernel::<T, T, F>(isa),
    }
}
