//! Constants of a program, in one aligned piece of memory.

use crate::Literal;
use crate::runtime::host::pool::ALIGN;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of all constants.
#[derive(Default)]
pub(super) struct Constants {
    bytes: Vec<u8>,
    known: HashMap<*const Literal, usize>,
    /// Keeps the addresses in `known` from being used again.
    literals: Vec<Arc<Literal>>,
}

impl Constants {
    /// Where a literal's stored bytes start.
    pub fn place(&mut self, literal: &Arc<Literal>) -> usize {
        let key = Arc::as_ptr(literal);
        if let Some(&at) = self.known.get(&key) {
            return at;
        }
        // Single elements are packed, so that many scalars share cache lines.
        let align = if literal.bytes().len() <= 8 { 8 } else { ALIGN };
        let at = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(literal.bytes());
        self.known.insert(key, at);
        self.literals.push(literal.clone());
        at
    }

    /// Where a literal that was placed starts.
    pub fn known(&self, literal: &Arc<Literal>) -> Option<usize> {
        self.known.get(&Arc::as_ptr(literal)).copied()
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
