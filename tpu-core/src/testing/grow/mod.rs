//! One more node of a random program, by family.

mod blocks;
mod collectives;
mod contractions;
mod elementwise;
mod indexing;
mod linalg;
mod reductions;
mod shapes;

use super::choices::Choices;
use super::graphs::{DEEPEST, Grower};
use crate::ir::Value;

/// Adds a node of a family, or gives nothing when what the bytes ask for is not possible.
type Grow = fn(&mut Grower<'_>, &mut Choices<'_>) -> Option<Value>;

/// What every configuration has, the most frequent more than once.
const COMMON: &[Grow] = &[
    elementwise::binary,
    elementwise::unary,
    elementwise::binary,
    elementwise::unary,
    elementwise::binary,
    elementwise::compare,
    elementwise::select,
    elementwise::clamp,
    elementwise::convert,
    elementwise::convert,
    elementwise::complex,
    elementwise::bitcast,
    elementwise::reduce_precision,
    shapes::iota,
    shapes::constant,
    shapes::broadcast,
    shapes::broadcast,
    shapes::reshape,
    shapes::transpose,
    shapes::slice,
    shapes::pad,
    shapes::concatenate,
    shapes::reverse,
    shapes::barrier,
    reductions::reduce,
    reductions::reduce,
    reductions::arg_reduce,
    reductions::cumulative,
    indexing::dynamic_slice,
    indexing::dynamic_update_slice,
    indexing::gather,
    indexing::scatter,
    indexing::sort,
    indexing::top_k,
    indexing::rng_bits,
];

/// Adds a node if the next bytes ask for one that is possible.
pub fn node(grower: &mut Grower<'_>, choices: &mut Choices<'_>) {
    let mut families: Vec<Grow> = COMMON.to_vec();
    if grower.config.contractions {
        families.extend([
            contractions::dot as Grow,
            contractions::convolution,
            reductions::reduce_window,
            reductions::select_and_scatter,
        ]);
    }
    if grower.config.solvers {
        families.extend([linalg::cholesky as Grow, linalg::triangular_solve]);
    }
    if grower.config.decompositions {
        families.extend([linalg::fft as Grow, linalg::decompose]);
    }
    if grower.config.composites && grower.depth < DEEPEST {
        families.push(blocks::composite);
    }
    if grower.config.control_flow && grower.depth < DEEPEST {
        families.extend([blocks::repeat as Grow, blocks::case]);
    }
    if grower.replicas() > 1 {
        families.extend([
            collectives::all_reduce as Grow,
            collectives::all_reduce,
            collectives::reduce_scatter,
            collectives::all_gather,
            collectives::all_to_all,
            collectives::permute,
            collectives::number,
        ]);
    }
    let family = *choices.pick(&families);
    family(grower, choices);
}
