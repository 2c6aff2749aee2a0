//! Programs and their cache.

use super::stats::{self, Made};
use crate::ir::key::{Extra, Key, Sizes};
use crate::ir::{Graph, Op, Type};
use crate::runtime::{Backend, CompileOptions, Executable};
use crate::{Location, Result};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// A program, and its executable once the executor has compiled it.
pub(crate) struct Program {
    pub graph: Graph,
    /// Where each node was recorded, for a backend that keeps that, else nothing.
    locations: Vec<Location>,
    options: CompileOptions,
    /// A program of the same structure and other sizes, for backends that are generic in sizes.
    model: Option<Arc<Program>>,
    executable: OnceLock<Arc<dyn Executable>>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program of {} nodes", self.graph.nodes.len())
    }
}

impl Program {
    /// A program outside of any cache.
    pub fn new(graph: Graph, options: CompileOptions) -> Self {
        Self { graph, locations: Vec::new(), options, model: None, executable: OnceLock::new() }
    }

    pub fn options(&self) -> CompileOptions {
        self.options
    }

    /// The executable if it is compiled already.
    pub fn compiled(&self) -> Option<&Arc<dyn Executable>> {
        self.executable.get()
    }

    /// The executable, compiled now if need be. An error is not kept: the next run tries again, as a compiler may have
    /// lacked memory only for the moment.
    pub fn executable(&self, backend: &dyn Backend) -> Result<&Arc<dyn Executable>> {
        if let Some(executable) = self.executable.get() {
            return Ok(executable);
        }
        let start = Instant::now();
        let model = self.model.as_ref().and_then(|model| model.compiled());
        let mut fact = None;
        let executable = match model {
            Some(model) => model.resize(&self.graph).map(|resized| {
                fact = resized.compiled;
                resized.executable
            }),
            None if self.locations.is_empty() => backend.compile(&self.graph, self.options),
            None => backend.compile_located(&self.graph, &self.locations, self.options),
        };
        let how = match &executable {
            _ if model.is_some() && fact.is_none() => Made::Resized,
            Ok(executable) if executable.is_from_cache() => Made::Loaded,
            _ => Made::Compiled,
        };
        if let Some(fact) = fact {
            stats::cause(Cause::Sizes { fact });
        }
        stats::made(how, start.elapsed());
        tracing::debug!(nodes = self.graph.nodes.len(), ?how, "an executable is there");
        let executable = executable?;
        Ok(self.executable.get_or_init(|| executable))
    }
}

/// The programs of one backend, the least recently used ones dropped beyond a bound.
pub(crate) struct Programs {
    backend: Arc<dyn Backend>,
    cache: Mutex<Cache>,
}

struct Cache {
    /// By hash of the structure.
    structures: FxHashMap<u64, Vec<Structure>>,
    programs: usize,
    bound: usize,
    clock: u64,
}

struct Structure {
    structure: Vec<u32>,
    extras: Vec<Extra>,
    /// Ops only, for saying what changed.
    skeleton: u64,
    variants: FxHashMap<Sizes, Variant>,
}

struct Variant {
    program: Arc<Program>,
    used: u64,
}

impl Programs {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let cache = Cache { structures: FxHashMap::default(), programs: 0, bound: 1024, clock: 0 };
        Self { backend, cache: Mutex::new(cache) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sets the most programs to keep.
    pub fn set_bound(&self, bound: usize) {
        let mut cache = self.lock();
        cache.bound = bound.max(1);
        cache.evict();
    }

    /// How many programs are kept.
    pub fn len(&self) -> usize {
        self.lock().programs
    }

    /// Drops all programs.
    pub fn clear(&self) {
        let mut cache = self.lock();
        cache.structures.clear();
        cache.programs = 0;
    }

    /// The program of this key. If the cache does not have it the key is taken, and the program is from `assemble`, with the
    /// place of each node if that is told that the backend keeps them. `first`: where its first operation was recorded.
    pub fn get(
        &self,
        key: &mut Key,
        options: CompileOptions,
        first: &Location,
        assemble: impl FnOnce(bool) -> (Graph, Vec<Location>),
    ) -> Arc<Program> {
        let mut cache = self.lock();
        cache.clock += 1;
        let clock = cache.clock;
        let hash = key.hash();
        let bucket = cache.structures.entry(hash).or_default();
        let same = |known: &Structure| known.structure == key.structure && known.extras == key.extras;
        let at = bucket.iter().position(same);
        if let Some(variant) = at.and_then(|at| bucket[at].variants.get_mut(&key.sizes)) {
            variant.used = clock;
            stats::cache_hit();
            return variant.program.clone();
        }
        let (graph, locations) = assemble(self.backend.keeps_locations());
        #[cfg(debug_assertions)]
        if let Err(error) = crate::ir::verify::verify(&graph) {
            panic!("a cut made an invalid program: {error}");
        }
        let skeleton = skeleton(&graph);
        let model = at.and_then(|at| latest(&bucket[at]));
        let cause = match &model {
            Some(model) => changed(&model.graph, &graph),
            None => {
                let kin = cache.structures.values().flatten().filter(|known| known.skeleton == skeleton);
                match kin.filter_map(latest).next() {
                    Some(kin) => changed(&kin.graph, &graph),
                    None => Cause::New { nodes: graph.nodes.len(), first: first.clone() },
                }
            }
        };
        stats::cache_miss(cause);
        let model = model.filter(|_| self.backend.generic_in_sizes());
        let program = Arc::new(Program { graph, locations, options, model, executable: OnceLock::new() });
        let variant = Variant { program: program.clone(), used: clock };
        let bucket = cache.structures.entry(hash).or_default();
        let key = std::mem::take(key);
        match at {
            Some(at) => bucket[at].variants.insert(key.sizes, variant),
            None => {
                let variants = FxHashMap::from_iter([(key.sizes, variant)]);
                bucket.push(Structure { structure: key.structure, extras: key.extras, skeleton, variants });
                None
            }
        };
        cache.programs += 1;
        cache.evict();
        program
    }
}

impl Cache {
    /// Drops the least recently used programs beyond the bound.
    fn evict(&mut self) {
        while self.programs > self.bound {
            let ages = self.structures.values().flatten().flat_map(|known| known.variants.values());
            let Some(oldest) = ages.map(|variant| variant.used).min() else { return };
            for bucket in self.structures.values_mut() {
                for known in bucket.iter_mut() {
                    known.variants.retain(|_, variant| variant.used != oldest);
                }
                bucket.retain(|known| !known.variants.is_empty());
            }
            self.structures.retain(|_, bucket| !bucket.is_empty());
            self.programs -= 1;
            stats::evicted();
        }
    }
}

/// The most recently used program of a structure.
fn latest(structure: &Structure) -> Option<Arc<Program>> {
    structure.variants.values().max_by_key(|variant| variant.used).map(|variant| variant.program.clone())
}

fn skeleton(graph: &Graph) -> u64 {
    graph.nodes.iter().fold(graph.nodes.len() as u64, |hash, node| {
        (hash.rotate_left(5) ^ node.op.code() as u64).wrapping_mul(0x517c_c1b7_2722_0a95)
    })
}

/// Why a program was not in the cache, or was compiled though one of its structure was there.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Nothing like it has run before.
    New {
        /// Its size.
        nodes: usize,
        /// Where its first operation was recorded.
        first: Location,
    },
    /// A program of the same operations has run, with another type of this input.
    Input {
        /// The input's number.
        number: usize,
        /// Its type then.
        from: Type,
        /// Its type now.
        to: Type,
    },
    /// The executable of a program of the same structure does not serve these sizes, so this one was compiled from nothing.
    Sizes {
        /// The fact about sizes that it rests on, then and now.
        fact: String,
    },
    /// A program of the same operations and inputs has run; this operation's attribute or result differs.
    Attribute {
        /// The operation, by its StableHLO name.
        op: &'static str,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New { nodes, first } => write!(f, "new program of {nodes} operations, from {first} on"),
            Self::Input { number, from, to } if from.dtype != to.dtype => {
                write!(f, "dtype of input {number} changed from {} to {}", from.dtype, to.dtype)
            }
            Self::Input { number, from, to } => {
                write!(f, "shape of input {number} changed from {} to {}", from.shape, to.shape)
            }
            Self::Sizes { fact } => write!(f, "the executable for other sizes does not serve these: {fact}"),
            Self::Attribute { op } => write!(f, "an attribute of {op} changed"),
        }
    }
}

/// The first difference between two programs of the same ops.
fn changed(old: &Graph, new: &Graph) -> Cause {
    let types = old.parameter_types(old.main()).zip(new.parameter_types(new.main()));
    for (number, (from, to)) in types.enumerate() {
        if from != to {
            return Cause::Input { number, from: from.clone(), to: to.clone() };
        }
    }
    let differs = |(a, b): &(&crate::ir::Node, &crate::ir::Node)| a.op != b.op || a.operands != b.operands;
    let node = old.nodes.iter().zip(&new.nodes).find(differs);
    let op = node.map(|(_, node)| &node.op).filter(|op| !matches!(op, Op::Parameter { .. }));
    Cause::Attribute { op: op.map_or("program", Op::name) }
}
