//! From a call to a recorded operation.

use super::{History, Link, Recorded, Tensor};
use crate::ir::infer::infer;
use crate::ir::{Attributes, BlockId, Graph, Op, Precision, Type};
use crate::lazy::cell::Origin;
use crate::lazy::few::Few;
use crate::lazy::mode::{at_caller, locate};
use crate::lazy::stream::{Guard, Operand as Recordable, Stream};
use crate::lazy::trace::{self, Trace, TraceOperand};
use crate::{DType, Device, Error, ErrorKind, Literal, Result, Scalar, Shape};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// An operand of an operation: a tensor, or a number that takes the dtype of the tensor beside it.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number with the dtype and shape of the tensor beside it. It is an input of the program: another value is no
    /// other program.
    Number(Scalar),
    /// A number that is a scalar of its own, where the operation wants one; an input of the program too.
    Scalar(DType, Scalar),
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}
impl<'a, N: Into<Scalar>> From<N> for Operand<'a> {
    fn from(number: N) -> Self {
        Self::Number(number.into())
    }
}

/// What says whether an operation has failed: a scalar i32, −1 or the first bad index.
#[derive(Clone, Copy)]
pub(crate) enum Check<'a> {
    /// It cannot fail.
    None,
    Tensor(&'a Tensor),
    /// Its own result of this number.
    Result(usize),
}

impl<'a> From<Option<&'a Tensor>> for Check<'a> {
    fn from(tensor: Option<&'a Tensor>) -> Self {
        tensor.map_or(Self::None, Self::Tensor)
    }
}

/// Results of one operation; nearly always one.
pub(crate) type Tensors = Few<Tensor>;

impl Tensor {
    /// Records an operation of the IR. Operands must have the shapes and dtypes that its shape rule requires: nothing is
    /// broadcast or promoted here, numbers aside, which are spread over the other operands' shape.
    ///
    /// ```
    /// use tpu_core::ir::{BinaryOp, Op};
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0])?;
    /// let y = Tensor::record(Op::Binary(BinaryOp::Power), &[(&x).into(), 3.0.into()])?;
    /// assert_eq!(y[0].to_vec::<f32>()?, [1.0, 8.0]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn record(op: Op, operands: &[Operand<'_>]) -> Result<SmallVec<[Self; 1]>> {
        Ok(several(record(op, operands, &[], Check::None)?))
    }

    /// [`record`](Self::record) for operations of one result.
    #[track_caller]
    #[inline]
    pub(crate) fn record_one(op: Op, operands: &[Operand<'_>]) -> Result<Self> {
        Self::record_checked(op, operands, None)
    }

    /// Records an operation of one result that is guarded by a check: a scalar i32, −1 or the first bad index.
    #[track_caller]
    #[inline]
    pub(crate) fn record_checked(op: Op, operands: &[Operand<'_>], check: Option<&Self>) -> Result<Self> {
        Ok(record(op, operands, &[], check.into())?.into_first().expect("every op has a result"))
    }

    /// Records a named composition of operations. `body` says what it means, in terms of its arguments and numbers only;
    /// it must depend on nothing but them, `name` and `attributes`, as it is traced once for each combination of these
    /// and the operands' types. Numbers in it are baked into programs.
    ///
    /// If an operand has a history that knows no derivative of `name`, the body is recorded op by op. Indices in a body are
    /// not checked: those out of range are clamped when read and dropped when written.
    ///
    /// ```
    /// use tpu_core::{Tensor, ir::Attributes};
    /// let x = Tensor::from_slice(&[1.0f32, -2.0])?;
    /// let square = Tensor::composite("example.square", Attributes::default(), &[&x], |x| Ok(vec![x[0].mul(&x[0])?]))?;
    /// assert_eq!(square[0].to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn composite(
        name: &str,
        attributes: Attributes,
        operands: &[&Self],
        body: impl FnOnce(&[Self]) -> Result<Vec<Self>>,
    ) -> Result<SmallVec<[Self; 1]>> {
        let foreign = |link: &Link| !link.history.differentiates(name);
        if operands.iter().any(|operand| operand.history().is_some_and(foreign)) {
            let arguments: Vec<Self> = operands.iter().map(|&operand| operand.clone()).collect();
            return body(&arguments).map(SmallVec::from_vec);
        }
        let location = locate(std::panic::Location::caller());
        let Some(first) = operands.first() else {
            return Err(Error::new(ErrorKind::Value, "composite", "requires at least one operand").at(&location));
        };
        let types: Vec<Type> = operands.iter().map(|operand| operand.ty().clone()).collect();
        let (name, attributes, region) =
            bodies::get(name, attributes, types, |types| trace::trace(first.device(), types, body))
                .map_err(|error| error.at(&location))?;
        let op = Op::Composite { name, attributes, body: BlockId(0) };
        let operands: SmallVec<[Operand<'_>; 4]> = operands.iter().map(|&operand| operand.into()).collect();
        Ok(several(record(op, &operands, &[region], Check::None)?))
    }
}

/// All results, as public functions give them.
pub(crate) fn several(results: Tensors) -> SmallVec<[Tensor; 1]> {
    match results {
        Few::One(one) => SmallVec::from_buf(one),
        more => SmallVec::from_vec(more.into_vec()),
    }
}

/// Records an operation whose block numbers stand for `regions`.
#[track_caller]
pub(crate) fn record(op: Op, operands: &[Operand<'_>], regions: &[Arc<Graph>], check: Check<'_>) -> Result<Tensors> {
    let caller = std::panic::Location::caller();
    try_record(op, operands, regions, check, caller).map_err(|error| error.at(&locate(caller)))
}

/// Records on a device an operation that has no operands.
#[track_caller]
pub(crate) fn record_on(device: &Device, op: Op) -> Result<Tensor> {
    // Not by another call of `try_record`, which is compiled into `record` as long as there is no other.
    let results = at_caller(|| device.scope(|| record(op, &[], &[], Check::None)));
    Ok(results?.into_first().expect("every op has a result"))
}

fn try_record<'a>(
    op: Op,
    operands: &[Operand<'a>],
    regions: &[Arc<Graph>],
    check: Check<'a>,
    caller: &'static std::panic::Location<'static>,
) -> Result<Tensors> {
    // The first tensor gives the device.
    let mut first: Option<&Tensor> = None;
    let mut history: Option<&Arc<dyn History>> = None;
    let mut traced = false;
    let mut numbers = false;
    for operand in operands {
        let Operand::Tensor(tensor) = operand else {
            numbers = true;
            continue;
        };
        match first {
            None => first = Some(tensor),
            Some(first) if first.device() == tensor.device() => {}
            Some(first) => first.device().ensure_same(tensor.device(), op.name())?,
        }
        traced |= matches!(tensor.cell.origin, Origin::Trace(..));
        if let (None, Some(link)) = (history, &tensor.history) {
            history = Some(&link.history);
        }
    }
    let like = if numbers { spread_like(&op, operands) } else { None };
    // On the stack: this is the hot path.
    let (mut few, mut many) = ([&SCALARS[0]; 4], Vec::new());
    let types = if operands.len() <= few.len() {
        &mut few[..operands.len()]
    } else {
        many.resize(operands.len(), &SCALARS[0]);
        &mut many[..]
    };
    for (ty, operand) in types.iter_mut().zip(operands) {
        *ty = match *operand {
            Operand::Tensor(tensor) => tensor.ty(),
            Operand::Number(_) => like.ok_or_else(|| numbers_only(&op))?,
            Operand::Scalar(dtype, _) => &SCALARS[dtype as usize],
        };
    }
    let results = infer(&op, types, regions)?;
    let trace = trace::current();
    if traced || trace.is_some() {
        let trace = trace.ok_or_else(trace::foreign_tensor)?;
        return record_in(&trace, op, operands, types, regions, first, check);
    }
    let current;
    let device = match first {
        Some(first) => first.device(),
        None => {
            current = Device::current()?;
            &current
        }
    };
    device.runtime().supports(&op, types)?;
    if numbers {
        for (operand, ty) in operands.iter().zip(&*types) {
            if let &(Operand::Number(number) | Operand::Scalar(_, number)) = operand {
                ensure_fits(number, ty, &op)?;
            }
        }
    }
    let own;
    let stream = match first {
        Some(first) if first.cell.stream.is_current() => &first.cell.stream,
        _ => {
            own = Stream::current(device);
            &own
        }
    };
    let lower = |operand: Operand<'a>| match operand {
        Operand::Tensor(tensor) => Recordable::Cell(&tensor.cell),
        Operand::Number(number) => {
            let dtype = like.map_or(DType::F32, |like| like.dtype);
            Recordable::Number { bytes: number.to_bytes(dtype), dtype, spread: true }
        }
        Operand::Scalar(dtype, number) => Recordable::Number { bytes: number.to_bytes(dtype), dtype, spread: false },
    };
    let kept = history.is_some().then(|| op.clone());
    let guard = match check {
        Check::None => Guard::None,
        Check::Tensor(tensor) => Guard::Cell(&tensor.cell),
        Check::Result(result) => Guard::Result(result as u32),
    };
    let cells = stream.record(op, operands, lower, results, regions, guard, locate(caller))?;
    let mut tensors = match cells {
        Few::One([cell]) => Few::One([Tensor::from_cell(cell)]),
        more => Few::Many(more.into_vec().into_iter().map(Tensor::from_cell).collect()),
    };
    if let (Some(history), Some(op)) = (history, kept) {
        let checked = matches!(check, Check::Tensor(_));
        let extended = history.extend(&Recorded { op: &op, operands, results: &tensors, regions, checked });
        if let Some(history) = extended {
            for (result, tensor) in tensors.iter_mut().enumerate() {
                if tensor.dtype().is_differentiable() {
                    tensor.history = Some(Link { history: history.clone(), result: result as u32 });
                }
            }
        }
    }
    Ok(tensors)
}

/// The tensor whose type numbers take. For a selection the predicate is none.
fn spread_like<'a>(op: &Op, operands: &[Operand<'a>]) -> Option<&'a Type> {
    let skip = matches!(op, Op::Select) as usize;
    operands.iter().skip(skip).find_map(|operand| match operand {
        Operand::Tensor(tensor) => Some(tensor.ty()),
        Operand::Number(_) | Operand::Scalar(..) => None,
    })
}

/// The type of a scalar of each dtype.
static SCALARS: [Type; DType::ALL.len()] = {
    let mut types = [const { Type { dtype: DType::Bool, shape: Shape::scalar() } }; DType::ALL.len()];
    let mut at = 0;
    while at < types.len() {
        types[at].dtype = DType::ALL[at];
        at += 1;
    }
    types
};

#[cold]
fn numbers_only(op: &Op) -> Error {
    Error::new(ErrorKind::Value, op.name(), "requires a tensor beside a number, got numbers only")
}

fn ensure_fits(number: Scalar, ty: &Type, op: &Op) -> Result<()> {
    if number.fits(ty.dtype) {
        return Ok(());
    }
    let message = format!("requires a number that {} can hold, got {number:?}", ty.dtype);
    Err(Error::new(ErrorKind::Value, op.name(), message))
}

fn record_in(
    trace: &Arc<Trace>,
    op: Op,
    operands: &[Operand<'_>],
    types: &[&Type],
    regions: &[Arc<Graph>],
    first: Option<&Tensor>,
    check: Check<'_>,
) -> Result<Tensors> {
    let mut inputs: SmallVec<[TraceOperand<'_>; 4]> = SmallVec::new();
    for (operand, ty) in operands.iter().zip(types) {
        inputs.push(match operand {
            Operand::Tensor(tensor) => TraceOperand::Value(tensor.value_in(trace).ok_or_else(trace::foreign_tensor)?),
            &(Operand::Number(number) | Operand::Scalar(_, number)) => {
                ensure_fits(number, ty, &op)?;
                let shape = matches!(operand, Operand::Number(_)).then_some(&ty.shape);
                TraceOperand::Number(Literal::splat(ty.dtype, Shape::scalar(), number), shape)
            }
        });
    }
    let device = match first {
        Some(first) => first.device().clone(),
        None => Device::current()?,
    };
    let results = trace.push(op, inputs.into_iter(), regions)?;
    match check {
        Check::None => {}
        Check::Tensor(tensor) => trace.check(tensor.value_in(trace).ok_or_else(trace::foreign_tensor)?),
        Check::Result(result) => trace.check(results[result].0),
    }
    Ok(Few::map(&results, |(value, ty)| Tensor::traced(&device, trace, *value, ty.clone())))
}

/// Bodies of composites that have been traced.
mod bodies {
    use super::*;

    type Parts = (Arc<str>, Arc<Attributes>, Arc<Graph>);
    struct Known {
        parts: Parts,
        types: Vec<Type>,
        /// What products in it were traced with.
        precision: Precision,
    }
    static BODIES: Mutex<Option<HashMap<String, Vec<Known>>>> = Mutex::new(None);
    /// Bodies of one name before they are dropped, for programs whose shapes never settle.
    const BOUND: usize = 512;

    pub fn get(
        name: &str,
        attributes: Attributes,
        types: Vec<Type>,
        trace: impl FnOnce(&[Type]) -> Result<Graph>,
    ) -> Result<Parts> {
        let precision = Precision::current();
        let find = |known: &Known| *known.parts.1 == attributes && known.types == types && known.precision == precision;
        let lock = || BODIES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = lock().as_ref().and_then(|bodies| bodies.get(name)?.iter().find(|known| find(known))) {
            return Ok(known.parts.clone());
        }
        // Traced outside the lock: bodies use composites.
        let graph = Arc::new(trace(&types)?);
        let mut bodies = lock();
        let list = bodies.get_or_insert_default().entry(name.to_owned()).or_default();
        if list.len() >= BOUND {
            list.clear();
        }
        let name = list.first().map_or_else(|| name.into(), |known| known.parts.0.clone());
        let parts: Parts = (name, Arc::new(attributes), graph);
        list.push(Known { parts: parts.clone(), types, precision });
        Ok(parts)
    }
}
