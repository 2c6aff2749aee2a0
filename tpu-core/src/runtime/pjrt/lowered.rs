//! What a plugin is given to compile, and what is known of a program without asking the plugin.

use super::donation::{self, Donation, Restore, donate};
use super::{check_has, compile_options, cost};
use crate::ir::text::Donor;
use crate::ir::verify::verify;
use crate::ir::{Graph, Op, Type, text};
use crate::runtime::{CompileOptions, Cost, KernelInfo, check_replicas};
use crate::{Error, ErrorKind, Result, ensure};
use std::borrow::Cow;
use std::sync::Arc;

/// How one program is compiled for a plugin.
#[derive(Clone, PartialEq, Debug)]
pub struct ProgramOptions {
    /// What every backend knows.
    pub common: CompileOptions,
    /// On how many devices each run is, replica `i` on device `i`; 1: on the one that the run names.
    pub replicas: usize,
    /// Options of the plugin's compiler by name, as text, such as `("xla_dump_to", "folder")`; truth values are `True` and
    /// `False`. The plugin refuses names that it does not know.
    pub overrides: Vec<(String, String)>,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self { common: CompileOptions::default(), replicas: 1, overrides: Vec::new() }
    }
}

/// A program as it is given to a plugin. Two with equal [`text`](Self::text) and [`options`](Self::options) are the same
/// executable, of one plugin on one kind of device; both are deterministic, so they can be the key of a cache.
#[derive(Clone, Debug)]
pub struct Lowered {
    text: String,
    options: Vec<u8>,
    pub(super) signature: Arc<Signature>,
}

/// What a run must know of a program.
#[derive(Debug)]
pub(super) struct Signature {
    pub parameters: Vec<Type>,
    /// Types of the results, then of the checks.
    pub outputs: Vec<Type>,
    pub results: usize,
    /// Parameters that the program may overwrite when a run donates them.
    pub donors: Vec<bool>,
    /// Where the values of donated arguments are after a check has failed.
    pub restores: Vec<Restore>,
    /// The program as it was recorded, if a check may fail and leave a result right in whose place an argument was restored.
    pub plain: Option<(Graph, ProgramOptions)>,
    pub replicas: usize,
    pub cost: Cost,
    pub kernel: KernelInfo,
}

impl Lowered {
    /// Lowers a program for `platform`.
    pub(super) fn new(platform: &str, graph: &Graph, options: &ProgramOptions) -> Result<Self> {
        verify(graph)?;
        Self::with(platform, graph, options, donate(graph, options.replicas)?)
    }

    /// Lowers a program that gives nothing away.
    pub(super) fn plain(platform: &str, graph: &Graph, options: &ProgramOptions) -> Result<Self> {
        Self::with(platform, graph, options, donation::keep(graph))
    }

    fn with(platform: &str, graph: &Graph, options: &ProgramOptions, donation: Donation<'_>) -> Result<Self> {
        let program = verify(graph)?;
        for node in &graph.nodes {
            check_has(platform, &node.op, &graph.operand_types(node))?;
            check_groups(&node.op, options.replicas)?;
        }
        if let Some(ty) = graph.nodes.iter().flat_map(|node| &node.types).find(|ty| ty.bytes().is_none()) {
            // XLA does not tell this from a number of bytes that wraps around.
            let message = format!("of a value of {ty} is impossible: it has more bytes than there are addresses");
            return Err(Error::new(ErrorKind::OutOfMemory, "an allocation", message));
        }
        let text = match &donation.graph {
            Cow::Borrowed(_) => text::print_with_donors(program, &donation.donors),
            Cow::Owned(guarded) => text::print_with_donors(verify(guarded)?, &donation.donors),
        };
        let checks = graph.checks.iter().map(|check| graph.ty(check.value));
        let outputs: Vec<Type> = graph.result_types(graph.main()).chain(checks).cloned().collect();
        let parameters: Vec<Type> = graph.parameter_types(graph.main()).cloned().collect();
        let ops = graph.nodes.iter().map(|node| node.op.name().to_string()).collect();
        let kernel = KernelInfo {
            kind: "program".into(),
            ops,
            reads: parameters.len(),
            writes: outputs.len(),
            ..KernelInfo::default()
        };
        let all = donation::all_checks(graph);
        let partly_right = |restore: &Restore| Some(restore.lost_with) != all;
        let signature = Signature {
            results: outputs.len() - graph.checks.len(),
            parameters,
            outputs,
            donors: donation.donors.iter().map(|&donor| donor != Donor::No).collect(),
            plain: donation.restores.iter().any(partly_right).then(|| (graph.clone(), options.clone())),
            restores: donation.restores,
            replicas: options.replicas,
            cost: cost::estimate(graph),
            kernel,
        };
        Ok(Self { text, options: compile_options::encode(platform, options), signature: Arc::new(signature) })
    }

    /// The program as a module of StableHLO.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The options as XLA's `CompileOptionsProto`.
    pub fn options(&self) -> &[u8] {
        &self.options
    }
}

/// Errors if the groups of an op leave replicas out, or if it names one that there is not: a plugin may wait for it for
/// ever.
fn check_groups(op: &Op, replicas: usize) -> Result<()> {
    if let Op::AllReduce { groups, .. }
    | Op::AllGather { groups, .. }
    | Op::ReduceScatter { groups, .. }
    | Op::AllToAll { groups, .. } = op
    {
        let named: usize = groups.groups.iter().map(|group| group.len()).sum();
        // Verified before: none is named twice.
        ensure!(named == replicas, Value, op.name(), "requires groups of all {replicas} replicas, got {named} of them");
    }
    check_replicas(op, replicas)
}
