//! How often a loop runs its body, where the compiler does not say.

use crate::runtime::pjrt::hlo::{Computation, Instruction, Module};

/// The rounds of a loop that counts from a constant to a constant in constant steps, as JAX's `scan` and `fori_loop` do.
pub(super) fn rounds(module: &Module, around: &Computation, whole: &Instruction) -> Option<u64> {
    let called = whole.called.iter().map(|id| module.computations.get(id)).collect::<Option<Vec<_>>>()?;
    let [first, second] = called[..] else { return None };
    let is_condition = |computation: &Computation| root(computation).is_some_and(|root| root.opcode == "compare");
    let (condition, body) = if is_condition(first) { (first, second) } else { (second, first) };
    let compare = root(condition).filter(|root| root.opcode == "compare" && root.direction == "LT")?;
    let [counter, limit] = compare.operands[..] else { return None };
    let at = element(condition, counter)?;
    let limit = constant(condition, limit)?;
    // The loop's state before it and after a round.
    let [state] = whole.operands[..] else { return None };
    let start = constant(around, part(around.get(state)?, at)?)?;
    let next = source(body, part(root(body)?, at)?).filter(|next| next.opcode == "add")?;
    let [a, b] = next.operands[..] else { return None };
    let step = match (element(body, a), element(body, b)) {
        (Some(element), None) if element == at => constant(body, b)?,
        (None, Some(element)) if element == at => constant(body, a)?,
        _ => return None,
    };
    let (way, step) = (limit.checked_sub(start)?.max(0) as u64, u64::try_from(step).ok()?);
    (step > 0).then(|| way.div_ceil(step))
}

fn root(computation: &Computation) -> Option<&Instruction> {
    computation.get(computation.root)
}

/// The operand that is a part of a tuple.
fn part(tuple: &Instruction, at: usize) -> Option<i64> {
    if tuple.opcode == "tuple" { tuple.operands.get(at).copied() } else { None }
}

/// Where a value comes from, behind copies.
fn source(computation: &Computation, id: i64) -> Option<&Instruction> {
    const COPIES: usize = 8;
    let mut found = computation.get(id)?;
    for _ in 0..COPIES {
        match (&*found.opcode, &found.operands[..]) {
            ("copy" | "bitcast", &[id]) => found = computation.get(id)?,
            _ => break,
        }
    }
    Some(found)
}

/// Which part of the computation's parameter a value is.
fn element(computation: &Computation, id: i64) -> Option<usize> {
    let found = source(computation, id).filter(|found| found.opcode == "get-tuple-element")?;
    let [parameter] = found.operands[..] else { return None };
    (computation.get(parameter)?.opcode == "parameter").then_some(found.element)
}

fn constant(computation: &Computation, id: i64) -> Option<i64> {
    source(computation, id).filter(|found| found.opcode == "constant")?.integer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(id: i64, opcode: &str, operands: &[i64]) -> Instruction {
        Instruction { id, opcode: opcode.into(), operands: operands.into(), ..Instruction::default() }
    }

    fn constant(id: i64, value: i64) -> Instruction {
        Instruction { integer: Some(value), ..instruction(id, "constant", &[]) }
    }

    /// What libtpu makes of `lax.scan`: state (counter, other), `counter < limit`, `counter + step` behind a copy.
    fn counting(start: i64, limit: i64, step: i64, direction: &str) -> Option<u64> {
        let condition = vec![
            instruction(0, "parameter", &[]),
            Instruction { element: 1, ..instruction(1, "get-tuple-element", &[0]) },
            constant(2, limit),
            Instruction { direction: direction.into(), ..instruction(3, "compare", &[1, 2]) },
        ];
        let body = vec![
            instruction(0, "parameter", &[]),
            Instruction { element: 1, ..instruction(1, "get-tuple-element", &[0]) },
            instruction(2, "copy", &[1]),
            constant(3, step),
            instruction(4, "add", &[2, 3]),
            instruction(5, "tuple", &[0, 4]),
        ];
        let whole = Instruction { called: vec![2, 1], ..instruction(3, "while", &[2]) };
        let around =
            vec![constant(0, start), instruction(1, "copy", &[0]), instruction(2, "tuple", &[0, 1]), whole.clone()];
        let computations = [around, condition, body].map(Computation::new);
        let module = Module { entry: 0, computations: (0..).zip(computations).collect() };
        rounds(&module, &module.computations[&0], &whole)
    }

    #[test]
    fn a_loop_that_counts_has_as_many_rounds_as_it_counts_to() {
        assert_eq!(counting(0, 7, 1, "LT"), Some(7));
        assert_eq!(counting(3, 10, 2, "LT"), Some(4));
        assert_eq!(counting(5, 5, 1, "LT"), Some(0));
        assert_eq!(counting(5, 2, 1, "LT"), Some(0));
    }

    #[test]
    fn what_is_no_such_loop_is_not_known() {
        assert_eq!(counting(0, 7, 0, "LT"), None);
        assert_eq!(counting(0, 7, -1, "LT"), None);
        assert_eq!(counting(0, 7, 1, "GT"), None);
        assert_eq!(counting(i64::MIN, i64::MAX, 1, "LT"), None);
        let module = Module::default();
        assert_eq!(rounds(&module, &Computation::default(), &instruction(0, "while", &[])), None);
    }
}
