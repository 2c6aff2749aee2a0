//! From a fusion group to a row program: values, their levels and phases.
//!
//! Each value of a group is *full* (one element per element of the domain) or per *row*. A value that does not vary along a
//! row stays per row however wide its consumers are. The result of a reduction in phase `p` is there from the head
//! of phase `p + 1` on; everything else is computed as soon as its operands are, or in the phase of its first reader if
//! that is later.

use super::assemble::is_assembly;
use super::constants::Constants;
use super::domain::{Group, row_axes};
use super::fuse::Fusion;
use super::lowered::{Column, Cost, Fold, Local, Lowered, Memory, Spot, Step, Strided, What};
use super::place;
use super::rules::{Kind, needs_rounded};
use super::size::{self, Size};
use super::view::{Axes, Root, View, linear, refine, refine_strides, zeros};
use crate::ir::{BinaryOp, Comparison, Graph, NodeId, Op, UnaryOp, Value};
use crate::runtime::host::row::functions::{self, Cell};
use crate::runtime::host::row::isa::Isa;
use crate::runtime::host::row::loops::{FoldKernels, Kernel};
use crate::runtime::host::row::program::FIRST_BUFFER;
use crate::{DType, Literal};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::sync::Arc;

/// What lowering needs to know.
pub(super) struct Context<'a> {
    pub graph: &'a Graph,
    pub fusion: &'a Fusion,
    pub kinds: &'a [Kind],
    pub isa: Isa,
    pub strict_rounding: bool,
}

/// A group while it is lowered.
pub(super) struct Lowering<'a> {
    context: &'a Context<'a>,
    constants: &'a mut Constants,
    shape: Axes,
    split: usize,
    pub rows: Size,
    pub cols: Size,
    pub fold_rows: Size,
    pub locals: Vec<Local>,
    pub steps: Vec<Step>,
    pub folds: Vec<Fold>,
    pub columns: Vec<Column>,
    pub buffers: Vec<Memory>,
    /// Bases of outputs.
    pub outputs: Vec<(Value, u32)>,
    pub cost: Cost,
    /// Values that the group computes.
    values: HashMap<Value, usize>,
    /// Values that it reads, and whether from their own memory.
    leaves: HashMap<(Value, bool), usize>,
    splats: HashMap<(usize, bool), usize>,
}

/// Lowers a group. `needed` says which values something outside reads.
pub(super) fn lower(
    context: &Context<'_>,
    constants: &mut Constants,
    group: &Group,
    needed: &dyn Fn(Value) -> bool,
) -> Lowered {
    let (split, cols) = match group.cols {
        Some(cols) => (row_axes(&group.shape, cols).unwrap_or(0), cols),
        None => inner_axes(context, group),
    };
    let fold_rows = group.fold_rows.unwrap_or(group.elements() / cols);
    let mut lowering = Lowering::new(context, constants, group.shape.clone(), split, fold_rows);
    for &id in &group.nodes {
        lowering.node(id);
    }
    for &id in &group.nodes {
        let value = Value::from(id);
        if needed(value) && context.kinds[id.0 as usize] != Kind::ColumnFold {
            lowering.output(value);
        }
    }
    Lowered { nodes: group.nodes.clone(), ..place::finish(lowering) }
}

/// The program that makes a view of numbers along an axis real.
pub(super) fn lower_view(context: &Context<'_>, constants: &mut Constants, value: Value, view: &View) -> Lowered {
    let shape = refine(&view.sizes, &view.sizes).unwrap_or_default();
    let strides = refine_strides(view, &shape).unwrap_or_default();
    let split = (0..shape.len()).find(|&at| linear(&shape[at..], &strides[at..]).is_some()).unwrap_or(shape.len());
    let rows = shape[..split].iter().product();
    let mut lowering = Lowering::new(context, constants, shape, split, rows);
    let leaf = lowering.leaf(view, context.graph.ty(value).dtype);
    lowering.values.insert(value, leaf);
    lowering.output(value);
    Lowered { nodes: vec![value.node], ..place::finish(lowering) }
}

/// The inner axes that every view of an elementwise group reads with one stride: where they start, and their elements.
fn inner_axes(context: &Context<'_>, group: &Group) -> (usize, Size) {
    let mut split = 0;
    for &id in group.nodes.iter().filter(|&&id| !is_assembly(&context.graph[id].op)) {
        for view in context.fusion.reads(id) {
            if let Some(strides) = refine_strides(view, &group.shape) {
                while linear(&group.shape[split..], &strides[split..]).is_none() {
                    split += 1;
                }
            }
        }
    }
    (split, group.shape[split..].iter().product())
}

impl<'a> Lowering<'a> {
    fn new(context: &'a Context<'a>, constants: &'a mut Constants, shape: Axes, split: usize, fold_rows: Size) -> Self {
        let (rows, cols) = (shape[..split].iter().product(), shape[split..].iter().product());
        Self {
            context,
            constants,
            shape,
            split,
            rows,
            cols,
            fold_rows,
            locals: Vec::new(),
            steps: Vec::new(),
            folds: Vec::new(),
            columns: Vec::new(),
            buffers: Vec::new(),
            outputs: Vec::new(),
            cost: Cost::default(),
            values: HashMap::new(),
            leaves: HashMap::new(),
            splats: HashMap::new(),
        }
    }

    pub(super) fn isa(&self) -> Isa {
        self.context.isa
    }

    pub(super) fn context(&self) -> &'a Context<'a> {
        self.context
    }

    /// The base of a constant.
    pub(super) fn constant(&mut self, literal: &Arc<Literal>) -> u32 {
        let at = self.constants.place(literal);
        self.base(Memory::Constant(at))
    }

    pub(super) fn base(&mut self, memory: Memory) -> u32 {
        let at = self.buffers.iter().position(|&known| known == memory).unwrap_or_else(|| {
            self.buffers.push(memory);
            self.buffers.len() - 1
        });
        FIRST_BUFFER + at as u32
    }

    fn local(&mut self, cell: Cell, size: usize, full: bool, phase: usize) -> usize {
        self.locals.push(Local { size, cell, full, scalar: false, phase, spot: None, unrounded: None, computed: true });
        self.locals.len() - 1
    }

    /// Adds an instruction; its level is that of the operands.
    pub(super) fn step(&mut self, what: What, src: SmallVec<[usize; 3]>, cell: Cell, size: usize, cost: f64) -> usize {
        let full = src.iter().any(|&x| self.locals[x].full);
        self.step_at(what, src, cell, size, full, cost)
    }

    pub(super) fn step_at(
        &mut self,
        what: What,
        src: SmallVec<[usize; 3]>,
        cell: Cell,
        size: usize,
        full: bool,
        cost: f64,
    ) -> usize {
        let phase = src.iter().map(|&x| self.locals[x].phase).max().unwrap_or(0);
        let dst = self.local(cell, size, full, phase);
        *(if full { &mut self.cost.per_element } else { &mut self.cost.per_row }) += cost;
        self.steps.push(Step { what, src, dst, full, phase, arithmetic: None });
        dst
    }

    /// `x` with one element for each of its level: full, or per row.
    fn vector(&mut self, x: usize, full: bool) -> usize {
        let local = &self.locals[x];
        if local.full || (!full && !local.scalar) {
            return x;
        }
        if let Some(&known) = self.splats.get(&(x, full)) {
            return known;
        }
        let (cell, size, unrounded) = (local.cell, local.size, local.unrounded);
        let kernel = functions::splat(self.context.isa, cell);
        let y = self.step_at(What::Loop(kernel), smallvec![x], cell, size, full, LIGHT);
        self.locals[y].unrounded = unrounded;
        self.splats.insert((x, full), y);
        y
    }

    fn map1(&mut self, kernel: Kernel, x: usize, cell: Cell, cost: f64) -> usize {
        let x = self.vector(x, self.locals[x].full);
        self.step(What::Loop(kernel), smallvec![x], cell, cell.size(), cost)
    }

    /// Operands of an instruction of two: which of them are one per row. At least one is not.
    fn modes(&mut self, x: usize, y: usize) -> (usize, usize, [bool; 2]) {
        let full = self.locals[x].full || self.locals[y].full;
        let single = |local: &Local| if full { !local.full } else { local.scalar };
        let single_x = single(&self.locals[x]);
        let single_y = single(&self.locals[y]);
        if !functions::has_modes(self.locals[x].cell) {
            return (self.vector(x, full), self.vector(y, full), [false; 2]);
        }
        let x = if single_x && single_y { self.vector(x, full) } else { x };
        (x, y, [single_x && !single_y, single_y])
    }

    fn binary(&mut self, op: BinaryOp, x: usize, y: usize) -> usize {
        let (x, y, modes) = self.modes(x, y);
        let cell = self.locals[x].cell;
        let Some(kernel) = functions::binary(self.context.isa, op, cell, modes) else { return x };
        let cost = if matches!(op, BinaryOp::Power | BinaryOp::Atan2 | BinaryOp::Remainder) { SLOW } else { LIGHT };
        let z = self.step(What::Loop(kernel), smallvec![x, y], cell, cell.size(), cost);
        if let Some(step) = self.steps.last_mut().filter(|_| cell == Cell::F32) {
            step.arithmetic = Some((op, modes));
        }
        z
    }

    /// The elements of an operand of a node.
    fn operand(&mut self, value: Value, view: &View) -> usize {
        // A value of the group itself, where it is.
        if let Some(&known) = match view.root {
            Root::Value(root) => self.values.get(&root),
            _ => None,
        } {
            return known;
        }
        // A value may be read as a view by some nodes and from a copy by later ones.
        let key = (value, view.root == Root::Value(value));
        if let Some(&known) = self.leaves.get(&key) {
            return known;
        }
        let local = self.leaf(view, self.context.graph.ty(value).dtype);
        self.leaves.insert(key, local);
        local
    }

    /// An input of the group.
    fn leaf(&mut self, view: &View, dtype: DType) -> usize {
        let Some(cell) = Cell::loaded(dtype) else { return self.local(Cell::F32, 4, false, 0) };
        let elements: Size = view.sizes.iter().product();
        let whole = elements == self.rows * self.cols;
        let axes = if whole { self.shape.clone() } else { Axes::from_slice(&self.shape[..self.split]) };
        let strides = refine_strides(view, &axes).unwrap_or_else(|| zeros(axes.len()));
        let split = self.split;
        let (row_sizes, row_strides) = (&axes[..split], &strides[..split]);
        let (col_sizes, col_strides) = (&axes[split..], &strides[split..]);
        let full = col_strides.iter().any(|&s| s != 0);
        let load = functions::load(self.context.isa, dtype);
        let bytes = dtype.bits() as usize / 8;
        let base = match &view.root {
            Root::Value(root) => self.base(Memory::Value(*root)),
            Root::Constant(literal) => self.constant(literal),
            Root::Iota(_) => 0,
        };
        let iota = matches!(view.root, Root::Iota(_));
        // In place if one stride each way describes it.
        let steps = linear(row_sizes, row_strides).zip(linear(col_sizes, col_strides));
        let direct = steps.filter(|&(row, col)| {
            !iota && if full { col == 1 } else { row == 1 || (row == 0 && (load.is_none() || self.rows == 1)) }
        });
        let raw = match direct {
            Some((row, col)) => {
                let raw = self.local(cell, bytes, full, 0);
                self.locals[raw].scalar = !full && row == 0 && self.rows > 1;
                self.locals[raw].computed = false;
                let (offset, row_step, col_step) = (view.offset * bytes, row * bytes, col * bytes);
                self.locals[raw].spot = Some(Spot { base, offset, row_step, col_step });
                raw
            }
            None => {
                let pair = |sizes: &[Size], strides: &[Size]| [Axes::from_slice(sizes), Axes::from_slice(strides)];
                let (rows, cols) = match full {
                    true => (pair(row_sizes, row_strides), pair(col_sizes, col_strides)),
                    false => (pair(&[], &[]), pair(row_sizes, row_strides)),
                };
                let bytes = if iota { cell.size() } else { bytes };
                let iota = iota.then_some(dtype);
                let gather = Box::new(Strided { base, offset: view.offset, rows, cols, bytes, iota });
                let cost = if iota.is_some() { 1.0 } else { 3.0 * LIGHT };
                self.step_at(What::Gather(gather), SmallVec::new(), cell, bytes, full, cost)
            }
        };
        match load {
            Some(kernel) if !iota => self.step(What::Loop(kernel), smallvec![raw], cell, cell.size(), LIGHT),
            _ => raw,
        }
    }

    fn node(&mut self, id: NodeId) {
        let graph = self.context.graph;
        let isa = self.context.isa;
        let node = &graph[id];
        if is_assembly(&node.op) {
            if let Some(local) = self.assembly(id) {
                self.values.insert(id.into(), local);
            }
            return;
        }
        let mut x: SmallVec<[usize; 3]> =
            node.operands.iter().zip(self.context.fusion.reads(id)).map(|(&v, view)| self.operand(v, view)).collect();
        let from = graph.ty(node.operands[0]).dtype;
        let to = node.types[0].dtype;
        if needs_rounded(&node.op) {
            for x in &mut x {
                *x = self.rounded(*x);
            }
        }
        let cell = self.locals[x[0]].cell;
        let local = match &node.op {
            Op::Unary(op) => {
                let out = if *op == UnaryOp::IsFinite { Cell::Bool } else { cell };
                match functions::unary(isa, *op, cell) {
                    Some(kernel) => self.map1(kernel, x[0], out, cost(*op, cell)),
                    None => x[0],
                }
            }
            Op::Binary(op) => self.binary(*op, x[0], x[1]),
            Op::Compare(op) => self.compare(*op, x[0], x[1]),
            Op::Select => self.select(x[0], x[1], x[2]),
            Op::Clamp => {
                let low = self.binary(BinaryOp::Maximum, x[1], x[0]);
                self.binary(BinaryOp::Minimum, low, x[2])
            }
            Op::Convert(dtype) => self.convert(x[0], from, *dtype),
            Op::Reduce { kind, .. } => {
                if let Some(kernels) = functions::fold(isa, *kind, cell) {
                    self.reduce(id, x[0], cell, kernels);
                }
                return;
            }
            _ => x[0],
        };
        let half = matches!(to, DType::BF16 | DType::F16) && !matches!(node.op, Op::Convert(_));
        let local = if half && !matches!(node.op, Op::Select) {
            self.locals[local].unrounded = Some(to);
            if self.context.strict_rounding { self.rounded(local) } else { local }
        } else {
            local
        };
        self.values.insert(id.into(), local);
    }

    /// `x` rounded to its 16-bit float type, if it has yet to be.
    fn rounded(&mut self, x: usize) -> usize {
        match self.locals[x].unrounded {
            Some(dtype) => self.map1(functions::round_half(self.context.isa, dtype), x, Cell::F32, LIGHT),
            None => x,
        }
    }

    fn compare(&mut self, op: Comparison, x: usize, y: usize) -> usize {
        let (op, x, y) = match op {
            Comparison::Gt => (Comparison::Lt, y, x),
            Comparison::Ge => (Comparison::Le, y, x),
            op => (op, x, y),
        };
        let (x, y, modes) = self.modes(x, y);
        let Some(kernel) = functions::compare(self.context.isa, op, self.locals[x].cell, modes) else { return x };
        self.step(What::Loop(kernel), smallvec![x, y], Cell::Bool, 1, LIGHT)
    }

    fn select(&mut self, p: usize, x: usize, y: usize) -> usize {
        let full = [p, x, y].iter().any(|&v| self.locals[v].full);
        let p = self.vector(p, full);
        let cell = self.locals[x].cell;
        let (x, y) = if cell.size() == 4 { (x, y) } else { (self.vector(x, full), self.vector(y, full)) };
        let single = |local: &Local| if full { !local.full } else { local.scalar };
        let modes = [single(&self.locals[x]), single(&self.locals[y])];
        let kernel = functions::select(self.context.isa, cell, modes);
        let unrounded = self.locals[x].unrounded.or(self.locals[y].unrounded);
        let z = self.step(What::Loop(kernel), smallvec![p, x, y], cell, cell.size(), LIGHT);
        self.locals[z].unrounded = unrounded;
        z
    }

    fn convert(&mut self, x: usize, from: DType, to: DType) -> usize {
        let isa = self.context.isa;
        let (a, Some(b)) = (self.locals[x].cell, Cell::of(to)) else { return x };
        let half = |dtype| matches!(dtype, DType::BF16 | DType::F16);
        let y = match (a == b, functions::convert(isa, a, b)) {
            (false, Some(kernel)) => self.map1(kernel, x, b, LIGHT),
            _ => x,
        };
        // Widening is exact; what was not rounded stays so within the group.
        if half(to) && from != to { self.map1(functions::round_half(isa, to), y, Cell::F32, LIGHT) } else { y }
    }

    fn reduce(&mut self, id: NodeId, x: usize, cell: Cell, kernels: FoldKernels) {
        let src = self.vector(x, true);
        let phase = self.locals[src].phase;
        self.cost.per_element += LIGHT;
        if self.context.kinds[id.0 as usize] == Kind::ColumnFold {
            let base = self.base(Memory::Value(id.into()));
            self.outputs.push((id.into(), base));
            self.columns.push(Column { kernels, src, dst: base, phase });
            return;
        }
        let dst = self.local(cell, cell.size(), false, phase + 1);
        self.folds.push(Fold { kernels, src, dst, phase });
        self.values.insert(id.into(), dst);
    }

    /// Writes a value to memory.
    fn output(&mut self, value: Value) {
        let ty = self.context.graph.ty(value);
        let local = self.values[&value];
        let full = size::elements(ty) == self.rows * self.cols && self.cols > 1;
        let size = ty.dtype.bits() as usize / 8;
        let base = self.base(Memory::Value(value));
        self.outputs.push((value, base));
        let number = Size::number;
        let (row_step, col_step) = if full { (self.cols * size, number(size)) } else { (number(size), number(0)) };
        let spot = Spot { base, offset: number(0), row_step, col_step };
        let isa = self.context.isa;
        let half = matches!(ty.dtype, DType::BF16 | DType::F16);
        let source = &self.locals[local];
        let written = if half {
            let x = self.vector(local, full);
            self.step_at(What::Loop(functions::store_half(isa, ty.dtype)), smallvec![x], Cell::F32, 2, full, LIGHT)
        } else if source.full == full && source.computed && source.spot.is_none() {
            local
        } else if source.full == full && !source.scalar {
            let cell = source.cell;
            self.step_at(What::Loop(functions::copy(isa, size)), smallvec![local], cell, size, full, LIGHT)
        } else {
            let cell = source.cell;
            self.step_at(What::Loop(functions::splat(isa, cell)), smallvec![local], cell, size, full, LIGHT)
        };
        self.locals[written].spot = Some(spot);
    }
}

/// Estimated nanoseconds per element.
pub(super) const LIGHT: f64 = 0.1;
const HEAVY: f64 = 0.7;
const SLOW: f64 = 15.0;

fn cost(op: UnaryOp, cell: Cell) -> f64 {
    match op {
        UnaryOp::Exp
        | UnaryOp::Expm1
        | UnaryOp::Log
        | UnaryOp::Log1p
        | UnaryOp::Logistic
        | UnaryOp::Tanh
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Erf
        | UnaryOp::ErfInv => {
            if cell == Cell::F32 {
                HEAVY
            } else {
                SLOW
            }
        }
        UnaryOp::Tan | UnaryOp::Cbrt => SLOW,
        _ => LIGHT,
    }
}
