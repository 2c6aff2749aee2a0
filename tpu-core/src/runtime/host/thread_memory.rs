//! Memory of a thread for the blocks that it works on.

use std::cell::Cell;

/// Calls `body` with memory of this thread for so many numbers, on a cache line. What is in it is left from before.
///
/// It grows with the blocks, not with the operands, and is kept: a fresh piece for each task would cost page faults.
pub(crate) fn with_memory<R>(numbers: usize, body: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local!(static MEMORY: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
    const LINE: usize = 64 / size_of::<f32>();
    let mut memory = MEMORY.take();
    if memory.len() < numbers + LINE {
        memory = vec![0.0; numbers + LINE];
    }
    let start = memory.as_ptr().align_offset(64).min(LINE);
    let result = body(&mut memory[start..][..numbers]);
    MEMORY.set(memory);
    result
}

/// Memory cut into pieces of these sizes.
pub(crate) fn pieces<const N: usize>(mut memory: &mut [f32], sizes: [usize; N]) -> [&mut [f32]; N] {
    sizes.map(|size| {
        let (piece, rest) = std::mem::take(&mut memory).split_at_mut(size);
        memory = rest;
        piece
    })
}
