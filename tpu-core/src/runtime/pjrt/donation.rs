//! Which arguments a plugin may overwrite.
//!
//! A program without checks gives away every argument that has the type of a result. One with checks must leave what was
//! donated as it was when a check fails, and a plugin cannot be asked to look at the checks first. So an argument is tied
//! to one result, which is computed as `select(all checks pass, result, argument)`: after a failure the result holds the
//! old value, and the run gives it back in the argument's place. Which result an argument is tied to decides on speed
//! alone: the nearest, which is its update.
//!
//! The result itself is then not there, which is nothing to anybody if it depends on what a failed check guards: in a step of
//! training, all new weights and moments depend on the indices of the batch. If one does not, it must be right all the
//! same, and the program is run once more as it was recorded, with nothing given away. Devices that run a program together
//! fail one by one, so there only results are tied that are lost with every check.

use crate::ir::text::Donor;
use crate::ir::{BinaryOp, Comparison, Graph, NodeId, Op, Type, Value};
use crate::{DType, Literal, Result, Shape};
use std::borrow::Cow;

/// A program as a plugin gets it.
pub struct Donation<'a> {
    pub graph: Cow<'a, Graph>,
    /// Of each parameter.
    pub donors: Vec<Donor>,
    pub restores: Vec<Restore>,
}

/// Where a donated argument's value is after a failed check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restore {
    pub parameter: usize,
    pub result: usize,
    /// A bit for each check with which the result is lost.
    pub lost_with: u64,
}

/// Nothing is given away.
pub fn keep(graph: &Graph) -> Donation<'_> {
    let donors = vec![Donor::No; graph[graph.main()].parameters.len()];
    Donation { graph: Cow::Borrowed(graph), donors, restores: Vec::new() }
}

/// Decides for a program that `verify` accepts and so many devices run together.
pub fn donate(graph: &Graph, replicas: usize) -> Result<Donation<'_>> {
    if !graph.checks.is_empty() {
        return donate_checked(graph, replicas);
    }
    let results: Vec<&Type> = graph.result_types(graph.main()).collect();
    let donor = |ty: &Type| match ty.shape.rank() > 0 && results.contains(&ty) {
        true => Donor::ToAny,
        false => Donor::No,
    };
    let donors = graph.parameter_types(graph.main()).map(donor).collect();
    Ok(Donation { donors, ..keep(graph) })
}

fn donate_checked(graph: &Graph, replicas: usize) -> Result<Donation<'_>> {
    let mut donation = keep(graph);
    let Some(all) = all_checks(graph) else { return Ok(donation) };
    let lost = lost_with(graph);
    for (result, &value) in graph[graph.main()].results.iter().enumerate() {
        let lost_with = lost[value.node.0 as usize];
        let may = if replicas == 1 { lost_with != 0 } else { lost_with == all };
        if may && let Some(parameter) = nearest(graph, value, &donation.donors) {
            donation.donors[parameter] = Donor::To(result);
            donation.restores.push(Restore { parameter, result, lost_with });
        }
    }
    if !donation.restores.is_empty() {
        donation.graph = Cow::Owned(guarded(graph, &donation.restores)?);
    }
    Ok(donation)
}

/// A bit for each check; `None` if there are too many to follow.
pub fn all_checks(graph: &Graph) -> Option<u64> {
    u64::MAX.checked_shr(u64::BITS.checked_sub(u32::try_from(graph.checks.len()).ok()?)?)
}

/// For each node a bit for each check with which it is lost. There are as many checks as bits at most.
fn lost_with(graph: &Graph) -> Vec<u64> {
    let mut lost = vec![0u64; graph.nodes.len()];
    for (number, check) in graph.checks.iter().enumerate() {
        lost[check.guards.0 as usize] |= 1 << number;
    }
    for &id in &graph[graph.main()].nodes {
        let with = graph[id].operands.iter().fold(0, |with, value| with | lost[value.node.0 as usize]);
        lost[id.0 as usize] |= with;
    }
    lost
}

/// Nodes that are looked at for a parameter from which a result is computed.
const REACH: usize = 256;

/// The nearest parameter of a result's type on the way up from it that is not tied to another result.
fn nearest(graph: &Graph, result: Value, donors: &[Donor]) -> Option<usize> {
    let ty = graph.ty(result);
    if ty.shape.rank() == 0 {
        return None;
    }
    let mut nodes: Vec<NodeId> = vec![result.node];
    let mut at = 0;
    while let Some(&id) = nodes.get(at).filter(|_| at < REACH) {
        let node = &graph[id];
        match &node.op {
            Op::Parameter { index, ty: own } if own == ty && donors[*index] == Donor::No => return Some(*index),
            _ => {}
        }
        for operand in &node.operands {
            if nodes.len() < REACH && !nodes.contains(&operand.node) {
                nodes.push(operand.node);
            }
        }
        at += 1;
    }
    None
}

/// The program with the results of `restores` guarded.
fn guarded(graph: &Graph, restores: &[Restore]) -> Result<Graph> {
    let mut graph = graph.clone();
    let main = graph.main();
    let none = graph.constant(main, Literal::splat(DType::I32, Shape::scalar(), -1));
    let mut passed: Option<Value> = None;
    for check in graph.checks.clone() {
        let passes: Value = graph.push(main, Op::Compare(Comparison::Eq), &[check.value, none])?.into();
        passed = Some(match passed {
            Some(others) => graph.push(main, Op::Binary(BinaryOp::And), &[others, passes])?.into(),
            None => passes,
        });
    }
    let Some(passed) = passed else { return Ok(graph) };
    let mut results = graph[main].results.clone();
    for &Restore { parameter, result, .. } in restores {
        let (new, old) = (results[result], graph[main].parameters[parameter].into());
        let shape = graph.ty(new).shape.clone();
        let spread = Op::BroadcastInDim { shape, axes: Default::default() };
        let passed = graph.push(main, spread, &[passed])?.into();
        results[result] = graph.push(main, Op::Select, &[passed, new, old])?.into();
    }
    graph.set_results(main, results);
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Check;
    use crate::ir::verify::verify;

    /// `w`, `m` and an index: two results that are new values of `w` and `m` and depend on what the index guards, and one
    /// that does not.
    fn step() -> Graph {
        let mut graph = Graph::new();
        let main = graph.main();
        let ty = Type::new(DType::F32, [4]);
        let (w, m) = (graph.parameter(main, ty.clone()), graph.parameter(main, ty));
        let bad = graph.parameter(main, Type::new(DType::I32, ()));
        let mut binary = |op, a: Value, b: Value| graph.push(main, Op::Binary(op), &[a, b]).unwrap().into();
        let guarded: Value = binary(BinaryOp::Multiply, w, w);
        let new_m: Value = binary(BinaryOp::Add, m, guarded);
        let new_w: Value = binary(BinaryOp::Subtract, w, new_m);
        let other: Value = binary(BinaryOp::Add, w, w);
        graph.set_results(main, vec![other, new_m, new_w]);
        graph.checks.push(Check { value: bad, guards: guarded.node });
        graph
    }

    #[test]
    fn each_value_goes_to_its_update() {
        let graph = step();
        let donation = donate(&graph, 1).unwrap();
        assert_eq!(donation.donors, [Donor::To(2), Donor::To(1), Donor::No]);
        let restore = |parameter, result| Restore { parameter, result, lost_with: 1 };
        assert_eq!(donation.restores, [restore(1, 1), restore(0, 2)]);
        verify(&donation.graph).unwrap();
        let main = donation.graph.main();
        let results = &donation.graph[main].results;
        let op = |value: Value| donation.graph[value.node].op.name();
        assert_eq!(results.iter().map(|&value| op(value)).collect::<Vec<_>>(), ["add", "select", "select"]);
        // The old value is the argument whose memory the result takes.
        assert_eq!(donation.graph[results[2].node].operands[2], donation.graph[main].parameters[0].into());
        assert_eq!(donation.graph[results[1].node].operands[2], donation.graph[main].parameters[1].into());
    }

    #[test]
    fn on_several_devices_an_argument_stays_if_a_check_may_fail_and_leave_its_result_right() {
        // A second check, of what only the new `w` depends on.
        let mut graph = step();
        let main = graph.main();
        let (bad, new_w) = (graph.checks[0].value, graph[main].results[2]);
        graph.checks.push(Check { value: bad, guards: new_w.node });
        assert_eq!(donate(&graph, 2).unwrap().donors, [Donor::To(2), Donor::No, Donor::No]);
        let alone = donate(&graph, 1).unwrap();
        assert_eq!(alone.donors, [Donor::To(2), Donor::To(1), Donor::No]);
        assert_eq!(alone.restores.iter().map(|restore| restore.lost_with).collect::<Vec<_>>(), [0b01, 0b11]);
        // More checks than are followed: nothing is given away.
        for (count, donated) in [(64, true), (65, false)] {
            graph.checks = vec![graph.checks[0]; count];
            assert_eq!(!donate(&graph, 1).unwrap().restores.is_empty(), donated, "{count}");
        }
    }

    #[test]
    fn without_checks_any_argument_of_a_results_type_is_given_away() {
        let mut graph = step();
        graph.checks.clear();
        let donation = donate(&graph, 1).unwrap();
        assert_eq!(donation.donors, [Donor::ToAny, Donor::ToAny, Donor::No]);
        assert!(matches!(donation.graph, Cow::Borrowed(_)));
    }
}
