//! Constants of a program, in one aligned piece of memory.

use super::size::Values;
use crate::Literal;
use crate::ir::key;
use crate::runtime::host::pool::{ALIGN, Aligned};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of all constants.
#[derive(Default)]
pub(super) struct Constants {
    bytes: Vec<u8>,
    /// Where those are of which one element is stored.
    single: Vec<(usize, u64)>,
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
        self.single.extend(key::single(literal).map(|bits| (at, bits)));
        self.known.insert(key, at);
        self.literals.push(literal.clone());
        at
    }

    /// The constants as they are when all have been placed.
    pub fn placed(self) -> Placed {
        Placed { single: self.single, bytes: Arc::new(Aligned::copy_of(&self.bytes)), len: self.bytes.len() }
    }
}

/// The constants of a program, and which of them may change with its sizes.
pub(super) struct Placed {
    single: Vec<(usize, u64)>,
    bytes: Arc<Aligned>,
    /// How many bytes they are.
    pub len: usize,
}

impl Placed {
    /// The constants for one vector of sizes.
    pub fn at(&self, values: &Values) -> Arc<Aligned> {
        let changed = self.single.iter().filter_map(|&(at, bits)| Some((at, values.constant(bits)?)));
        let mut changed = changed.peekable();
        if changed.peek().is_none() {
            return self.bytes.clone();
        }
        let mut bytes = self.bytes.to_vec();
        for (at, bits) in changed {
            // Room for the widest element: the next constant starts behind it.
            bytes[at..at + 8].copy_from_slice(&bits.to_le_bytes());
        }
        Arc::new(Aligned::copy_of(&bytes))
    }
}
