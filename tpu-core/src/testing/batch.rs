//! Many small programs on a backend as one: a compiler takes most of its time for starting.

use super::compare::{compile, execute};
use crate::Result;
use crate::ir::{Block, BlockId, Check, Graph, NodeId, Op, Value};
use crate::reference::Array;
use crate::runtime::{Backend, CompileOptions};

/// A program and what it is run on.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is called in messages.
    pub name: String,
    /// The program, without checks.
    pub graph: Graph,
    /// The arguments of each run on each device. Cases of one batch have equally many runs on equally many devices.
    pub runs: Vec<Vec<Vec<Array>>>,
}

impl Case {
    /// A case on one device.
    pub fn alone(name: impl Into<String>, graph: Graph, runs: Vec<Vec<Array>>) -> Self {
        Self { name: name.into(), graph, runs: runs.into_iter().map(|arguments| vec![arguments]).collect() }
    }
}

/// What a batch came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// For each case that does not compile, or gives what it must not, its number and what was found first.
    pub wrong: Vec<(usize, String)>,
    /// Programs compiled.
    pub programs: usize,
}

/// Says what is wrong with the results of a run of a case: given its arguments and its results on each device.
pub type Judge<'a> = &'a dyn Fn(&Case, &[Vec<Array>], &[Vec<Array>]) -> Option<String>;

/// Compiles and runs cases `size` at a time. Those that do not compile together are compiled in halves.
pub fn run(backend: &dyn Backend, cases: &[Case], size: usize, judge: Judge<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    for (number, batch) in cases.chunks(size.max(1)).enumerate() {
        judge_batch(backend, batch, number * size.max(1), judge, &mut outcome);
    }
    outcome
}

fn judge_batch(backend: &dyn Backend, cases: &[Case], first: usize, judge: Judge<'_>, outcome: &mut Outcome) {
    let graphs: Vec<&Graph> = cases.iter().map(|case| &case.graph).collect();
    outcome.programs += 1;
    match results(backend, &merged(&graphs), cases) {
        Ok(runs) => {
            for (number, case) in cases.iter().enumerate() {
                let mut each = case.runs.iter().zip(&runs).enumerate();
                let found = each.find_map(|(run, (inputs, results))| {
                    judge(case, inputs, &results[number]).map(|found| format!("run {run}: {found}"))
                });
                outcome.wrong.extend(found.map(|found| (first + number, found)));
            }
        }
        Err(error) if cases.len() <= 1 => outcome.wrong.push((first, error.to_string())),
        Err(_) => {
            let (left, right) = cases.split_at(cases.len() / 2);
            judge_batch(backend, left, first, judge, outcome);
            judge_batch(backend, right, first + left.len(), judge, outcome);
        }
    }
}

/// The results of each run, of each case, on each device.
fn results(backend: &dyn Backend, program: &Graph, cases: &[Case]) -> Result<Vec<Vec<Vec<Vec<Array>>>>> {
    let Some(Case { runs, .. }) = cases.first() else { return Ok(Vec::new()) };
    let devices = runs.first().map_or(1, Vec::len);
    let executable = compile(backend, program, CompileOptions { strict_rounding: true }, devices)?;
    let mut all = Vec::new();
    for run in 0..runs.len() {
        let row = |device: usize| cases.iter().flat_map(|case| &case.runs[run][device]).cloned().collect();
        let rows: Vec<Vec<Array>> = (0..devices).map(row).collect();
        let mut of_cases = vec![Vec::new(); cases.len()];
        for results in execute(backend, &*executable, &rows)? {
            let mut results = results.into_iter();
            for (case, of_case) in cases.iter().zip(&mut of_cases) {
                let count = case.graph[case.graph.main()].results.len();
                of_case.push(results.by_ref().take(count).collect());
            }
        }
        all.push(of_cases);
    }
    Ok(all)
}

/// A program whose parameters, results and checks are those of all of these in order.
pub fn merged(graphs: &[&Graph]) -> Graph {
    let mut all = Graph::new();
    let (main, mut results) = (all.main(), Vec::new());
    for graph in graphs {
        let (nodes, parameters) = (all.nodes.len() as u32, all[main].parameters.len());
        let blocks = all.blocks.len() as u32 - 1;
        let node = |id: NodeId| NodeId(id.0 + nodes);
        let value = |value: Value| Value { node: node(value.node), result: value.result };
        let of_main = &graph[graph.main()].parameters;
        for (number, old) in graph.nodes.iter().enumerate() {
            let mut new = old.clone();
            new.op.map_blocks(|block| BlockId(block.0 + blocks));
            new.operands.iter_mut().for_each(|operand| *operand = value(*operand));
            if let Op::Parameter { index, .. } = &mut new.op
                && of_main.contains(&NodeId(number as u32))
            {
                *index += parameters;
            }
            all.nodes.push(new);
        }
        for (number, old) in graph.blocks.iter().enumerate() {
            let ids = |list: &[NodeId]| list.iter().map(|&id| node(id)).collect::<Vec<_>>();
            if number > 0 {
                let results = old.results.iter().map(|&x| value(x)).collect();
                all.blocks.push(Block { parameters: ids(&old.parameters), nodes: ids(&old.nodes), results });
            } else {
                all.blocks[0].parameters.extend(ids(&old.parameters));
                all.blocks[0].nodes.extend(ids(&old.nodes));
                results.extend(old.results.iter().map(|&x| value(x)));
            }
        }
        let checks = graph.checks.iter();
        all.checks.extend(checks.map(|check| Check { value: value(check.value), guards: node(check.guards) }));
    }
    all.set_results(main, results);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples;
    use crate::reference::{ReferenceBackend, evaluate};
    use crate::testing::compare::tests::{Wrong, program};

    /// All samples, merged, are one valid program of as many results and checks.
    #[test]
    fn merged_programs_are_valid_and_keep_their_results() {
        let samples = samples::every_op();
        let graphs: Vec<&Graph> = samples.iter().map(|(_, graph)| graph).collect();
        let all = merged(&graphs);
        assert!(crate::ir::verify::verify(&all).is_ok());
        assert_eq!(all.checks.len(), graphs.iter().map(|graph| graph.checks.len()).sum::<usize>());
        let types = graphs.iter().flat_map(|graph| graph.result_types(graph.main()));
        assert!(types.eq(all.result_types(all.main())));
    }

    fn differs(case: &Case, rows: &[Vec<Array>], got: &[Vec<Array>]) -> Option<String> {
        (evaluate(&case.graph, &rows[0]).unwrap().results != got[0]).then(|| "differs".into())
    }

    #[test]
    fn each_case_gets_its_own_results() {
        let (graph, inputs) = program();
        let other = [inputs[0].clone()].into_iter().collect::<Vec<_>>();
        let case = |name: &str| Case::alone(name, graph.clone(), vec![inputs.clone(), other.clone()]);
        let cases: Vec<Case> = ["a", "b", "c"].map(case).into();
        let outcome = run(&ReferenceBackend, &cases, 2, &differs);
        assert!(outcome.wrong.is_empty() && outcome.programs == 2, "{outcome:?}");
    }

    /// A backend that exchanges the first two of several results.
    #[test]
    fn a_wrong_case_is_named() {
        let (graph, inputs) = program();
        let (x, y) = (inputs.clone(), vec![Array::new([2], &[3f32, 4.0]).unwrap()]);
        let cases: Vec<Case> =
            [x, y, inputs].into_iter().map(|inputs| Case::alone("sum", graph.clone(), vec![inputs])).collect();
        let wrong = Wrong(|graph| graph.blocks[0].results.swap(0, 1));
        let outcome = run(&wrong, &cases, 3, &differs);
        assert_eq!(outcome.wrong.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
    }
}
