//! Composites with a derivative of their own. All others are recorded operation by operation.

use super::{Context, Gradients, Saves};
use tpu_core::Result;
use tpu_core::ir::Attributes;

/// Whether there is a rule for the composite of this name.
pub(crate) fn is_known(_name: &str) -> bool {
    false
}

pub(super) fn saves(_name: &str, _needs: &[bool]) -> Saves {
    Saves::NOTHING
}

pub(super) fn gradients(cx: &Context<'_>, _name: &str, _attributes: &Attributes) -> Result<Gradients> {
    cx.no_derivative("")
}
