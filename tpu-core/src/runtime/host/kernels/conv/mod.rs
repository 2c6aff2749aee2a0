//! Convolutions of any layout.
//!
//! All are sums over input features and kernel elements, in three ways. Mostly the input is read in place and multiplied by the packed
//! kernel (`direct`). Where the kernel is as large as an image, which is how weight gradients are written, the sum is cut into parts
//! that threads share, and the kernel packed as it is needed (`weights`). Where a group has an output feature or two, as in depthwise
//! convolutions, whole lines are multiplied by one kernel element after the other (`planes`). A dilated input, which is how input gradients
//! of strided convolutions are written, has output positions that meet different elements of the kernel: each kind is a
//! convolution of its own, without the holes.
//!
//! Every sum has an order that follows from the sizes alone: the bits of a result do not depend on the number of threads.

mod direct;
mod geometry;
mod lanes;
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

/// What is convolved, and with what.
struct Job<'j, A> {
    geometry: &'j Geometry,
    kernels: &'j Kernels<A>,
    x: &'j [A],
    kernel: &'j [A],
    memory: Memory<'j>,
}

impl<A> Clone for Job<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Job<'_, A> {}

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
    let geometry = &Geometry::new(dims, x.sizes(), kernel.sizes(), y.ty.shape.sizes());
    with_accumulator!(x.ty.dtype, dims.result, A => {
        let (x, kernel) = (A::read(x, memory)?, A::read(kernel, memory)?);
        let job = Job { geometry, kernels: &A::kernels(isa), x: &x, kernel: &kernel, memory };
        A::write(y, memory, |y| run(job, y))
    })
}

fn run<A: Accumulator>(job: Job<'_, A>, y: &mut [A]) -> Result<()> {
    if y.is_empty() {
        return Ok(());
    }
    if job.geometry.depth() == 0 {
        y.fill(A::default());
        return Ok(());
    }
    // Computed as `Geometry::row` says, and brought to another layout where there is one.
    match job.geometry.is_ordered() {
        true => arranged(job, y),
        false => {
            let mut result = job.memory.filled(y.len(), A::default())?;
            arranged(job, &mut result)?;
            strided::gather(y, &result, &job.geometry.inverse());
            Ok(())
        }
    }
}

fn arranged<A: Accumulator>(job: Job<'_, A>, y: &mut [A]) -> Result<()> {
    let few = job.geometry.outputs <= FEW;
    if job.geometry.kernel_is_large() {
        return if few { planes::weights(job, y) } else { weights::run(job, y) };
    }
    // The zeros between the elements of a dilated input are multiplied like all others, which only matters where a product is not
    // zero.
    let dilated = job.geometry.axes.iter().any(|axis| axis.input_dilation > 1);
    let phases = phases(&job.geometry.axes, dilated && !job.kernel.iter().all(|element| element.is_finite()));
    // Positions that meet nothing but holes.
    if phases.iter().any(|phase| phase.taps().is_empty()) {
        y.fill(A::default());
    }
    if few {
        return planes::lines(job, &phases, y);
    }
    phases.iter().filter(|phase| !phase.taps().is_empty()).try_for_each(|phase| direct::run(job, phase, y))
}
