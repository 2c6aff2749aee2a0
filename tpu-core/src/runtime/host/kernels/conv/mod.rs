//! Convolutions of any layout.
//!
//! All are sums over input features and kernel elements, in three ways. Where the kernel has many output features, patches of
//! the input are packed as the loops want them, a block that stays in the cache at a time, and multiplied by the packed kernel
//! (`patches`). Where the kernel is as large as an image, which is how weight gradients are written, the input is read in place
//! (`weights`). Where a group has an output feature or two, as in depthwise convolutions, whole lines are multiplied by one kernel
//! element after the other (`planes`). A dilated input, which is how input gradients of strided convolutions are written, has
//! output positions that meet different elements of the kernel: each kind is a convolution of its own, without the holes.
//!
//! Every sum has an order that follows from the sizes alone: the bits of a result do not depend on the number of threads.

mod geometry;
mod lanes;
mod patches;
mod planes;
mod tile;
mod weights;

use self::geometry::Geometry;
pub(super) use self::tile::{Kernels, of_f32, of_f64, portable};
use super::super::row::isa::Isa;
use super::super::scratch::Memory;
use super::accumulate::{Accumulator, known, with_accumulator};
use super::elementwise::refused;
use super::phase::phases;
use super::strided;
use super::{Operand, Target};
use crate::Result;
use crate::ir::ConvDims;

/// Output features of a group up to which whole lines are multiplied.
const FEW: usize = 2;

/// A convolution (cross-correlation).
pub(super) fn convolution(
    dims: &ConvDims,
    x: &Operand<'_>,
    kernel: &Operand<'_>,
    [y]: &mut [Target<'_>; 1],
    memory: Memory<'_>,
) -> Result<()> {
    convolution_on(Isa::of_process(), dims, x, kernel, y, memory)
}

/// The same with the loops of one instruction set.
pub(super) fn convolution_on(
    isa: Isa,
    dims: &ConvDims,
    x: &Operand<'_>,
    kernel: &Operand<'_>,
    y: &mut Target<'_>,
    memory: Memory<'_>,
) -> Result<()> {
    for operand in [x, kernel] {
        if !known(operand.ty.dtype, dims.result) {
            return Err(refused("convolution", operand.ty.dtype));
        }
    }
    let geometry = Geometry::new(dims, x.sizes(), kernel.sizes(), y.ty.shape.sizes());
    with_accumulator!(x.ty.dtype, dims.result, A => {
        let (x, kernel) = (A::read(x, memory)?, A::read(kernel, memory)?);
        A::write(y, memory, |y| run(&geometry, &A::kernels(isa), &x, &kernel, y, memory))
    })
}

fn run<A: Accumulator>(
    geometry: &Geometry,
    kernels: &Kernels<A>,
    x: &[A],
    kernel: &[A],
    y: &mut [A],
    memory: Memory<'_>,
) -> Result<()> {
    if y.is_empty() {
        return Ok(());
    }
    if geometry.depth() == 0 {
        y.fill(A::default());
        return Ok(());
    }
    // Computed as [batch, feature, positions …], and brought to another layout where there is one.
    match geometry.is_ordered() {
        true => arranged(geometry, kernels, x, kernel, y, memory),
        false => {
            let mut result = memory.filled(y.len(), A::default())?;
            arranged(geometry, kernels, x, kernel, &mut result, memory)?;
            strided::gather(y, &result, &geometry.inverse());
            Ok(())
        }
    }
}

fn arranged<A: Accumulator>(
    geometry: &Geometry,
    kernels: &Kernels<A>,
    x: &[A],
    kernel: &[A],
    y: &mut [A],
    memory: Memory<'_>,
) -> Result<()> {
    let few = geometry.outputs <= FEW;
    if geometry.kernel_is_large() {
        return match few {
            true => planes::weights(geometry, kernels, x, kernel, y, memory),
            false => weights::run(geometry, kernels, x, kernel, y, memory),
        };
    }
    // The zeros between the elements of a dilated input are multiplied like all others, which only matters where a product is not
    // zero.
    let dilated = geometry.axes.iter().any(|axis| axis.input_dilation > 1);
    let phases = phases(&geometry.axes, dilated && !kernel.iter().all(|element| element.is_finite()));
    // Positions that meet nothing but holes.
    if phases.iter().any(|phase| phase.taps().is_empty()) {
        y.fill(A::default());
    }
    if few {
        return planes::lines(geometry, &phases, kernels, x, kernel, y, memory);
    }
    let mut phases = phases.iter().filter(|phase| !phase.taps().is_empty());
    phases.try_for_each(|phase| patches::run(geometry, phase, kernels, x, kernel, y, memory))
}
