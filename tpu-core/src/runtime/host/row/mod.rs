//! Row programs: fused groups of elementwise operations and reductions, interpreted tile by tile.
//!
//! A program covers `rows` × `cols` elements in *phases*. A phase runs its instructions over cache-sized tiles and may end in
//! reductions of each row, whose results the next phase reads. Softmax has three phases, a layer norm three. Reductions
//! over columns accumulate beside them.
//!
//! An instruction is plain data: a compiled loop and places. Operands in memory are read where they are and the last
//! instruction writes to the result, so there are no loads and stores.

mod assemble;
pub(super) mod functions;
pub(super) mod isa;
pub(super) mod loops;
pub(super) mod math;
pub(super) mod pairs;
pub(super) mod program;
pub(super) mod run;
