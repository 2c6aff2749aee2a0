//! StableHLO text that others wrote, with what ours never has: it is planned, or refused by name, and the process goes on.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use tpu_core::ErrorKind;
use tpu_core::ir::text;
use tpu_core::plan::{Compiler, Program, Target};

/// A function of one operation.
fn module(parameters: &str, operation: &str, result: &str) -> String {
    format!("module {{ func.func @main({parameters}) -> {result} {{\n  %0 = {operation}\n  return %0 : {result}\n}} }}")
}

/// What it is, its text, and what TPUs make of it: nothing, or the words of the refusal.
fn texts() -> Vec<(&'static str, String, Option<(ErrorKind, &'static str)>)> {
    let unary = |ty: &str| module(&format!("%x: {ty}"), &format!("stablehlo.tanh %x : {ty}"), ty);
    let unbounded = Some((ErrorKind::Unsupported, "requires sizes that are known or have a bound, got a `?`"));
    let call = |target: &str| {
        module(
            "%x: tensor<4xf32>",
            &format!("stablehlo.custom_call @{target}(%x) : (tensor<4xf32>) -> tensor<4xf32>"),
            "tensor<4xf32>",
        )
    };
    vec![
        ("a size without a bound", unary("tensor<?xf32>"), unbounded),
        (
            "a size without a bound inside",
            module(
                "%x: tensor<4xf32>, %n: tensor<1xi32>",
                "stablehlo.dynamic_reshape %x, %n : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>",
                "tensor<?xf32>",
            ),
            unbounded,
        ),
        ("an unknown rank", unary("tensor<*xf32>"), Some((ErrorKind::Unsupported, "known rank, got tensor<*"))),
        ("a bounded parameter", unary("tensor<?xf32, #stablehlo.bounds<8>>"), None),
        (
            "a bounded result",
            module(
                "%x: tensor<8xf32>, %n: tensor<i32>",
                "stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<8xf32>, tensor<i32>) -> tensor<?xf32, \
                 #stablehlo.bounds<8>>",
                "tensor<?xf32, #stablehlo.bounds<8>>",
            ),
            None,
        ),
        (
            "a product of 4-bit integers",
            module(
                "%x: tensor<2x4xi4>, %y: tensor<4x3xi4>",
                "stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x4xi4>, tensor<4x3xi4>) -> \
                 tensor<2x3xi32>",
                "tensor<2x3xi32>",
            ),
            None,
        ),
        (
            "a ragged product",
            module(
                "%x: tensor<11x5xf32>, %y: tensor<3x5x7xf32>, %n: tensor<3xi32>",
                "\"chlo.ragged_dot\"(%x, %y, %n) {ragged_dot_dimension_numbers = #chlo.ragged_dot<\
                 lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], \
                 rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : \
                 (tensor<11x5xf32>, tensor<3x5x7xf32>, tensor<3xi32>) -> tensor<11x7xf32>",
                "tensor<11x7xf32>",
            ),
            None,
        ),
        (
            "a quantized type",
            unary("tensor<4x!quant.uniform<i8:f32, 1.0>>"),
            Some((ErrorKind::Execution, "Expected array argument for operand of unary operation")),
        ),
        (
            "a call of what nobody registered",
            call("nobody"),
            Some((ErrorKind::Value, "Custom emitter for nobody not found")),
        ),
        ("no module", "nonsense".into(), Some((ErrorKind::Execution, "custom op 'nonsense' is unknown"))),
        ("nothing", String::new(), Some((ErrorKind::Execution, "requires module with `main` function"))),
    ]
}

fn judge(target: &Target, what: &str, text: &str, refused: Option<(ErrorKind, &str)>) -> Option<String> {
    let plan = target.plan(&Program::from_text(text), &mut |_| {}).unwrap();
    let got = plan.outcome.err().map(|refusal| refusal.error);
    match (&got, refused) {
        (None, None) => None,
        (Some(error), Some((kind, words))) if error.kind() == kind && error.message().contains(words) => None,
        _ => Some(format!("{what} for {}: {got:?}", target.name())),
    }
}

#[test]
fn the_tpu_compiler_takes_foreign_text_or_it_is_refused_by_name() {
    let Some(path) = pjrt::plugin(pjrt::TPU) else { return };
    let compiler = Compiler::open(path).unwrap();
    let mut wrong = Vec::new();
    for target in ["v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"] {
        let target = compiler.target(target).unwrap();
        wrong.extend(texts().iter().filter_map(|(what, text, refused)| judge(&target, what, text, *refused)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not of our own form never becomes a graph, so no backend is ever asked to run it: the error says what it is.
#[test]
fn foreign_text_is_no_program_to_run_and_the_error_says_why() {
    for (what, of_ours, words) in [
        ("a size without a bound", "tensor<?xf32>", "got one with '?'"),
        ("a bounded size", "tensor<?xf32, #stablehlo.bounds<8>>", "got one with '?'"),
        ("an unknown rank", "tensor<*xf32>", "got one with '*'"),
        ("4-bit integers", "tensor<4xi4>", "requires a tensor type, got tensor<4xi4>"),
        ("a quantized type", "tensor<4x!quant.uniform<i8:f32, 1.0>>", "got one with '!'"),
    ] {
        let text = format!(
            "module @program {{\n  func.func public @main(%v0: {of_ours}) -> ({of_ours}) {{\n    %v1 = \
             \"stablehlo.tanh\"(%v0) : ({of_ours}) -> {of_ours}\n    \"func.return\"(%v1) : ({of_ours}) -> ()\n  }}\n}}\n"
        );
        let error = text::parse(&text).expect_err(what);
        assert!(error.kind() == ErrorKind::Format && error.message().contains(words), "{what}: {error:?}");
    }
    let call = |operation: &str| {
        let ty = "tensor<4xf32>";
        let text = format!(
            "module @program {{\n  func.func public @main(%v0: {ty}) -> ({ty}) {{\n    %v1 = \
             \"{operation}\"(%v0) : ({ty}) -> {ty}\n    \"func.return\"(%v1) : ({ty}) -> ()\n  }}\n}}\n"
        );
        text::parse(&text)
    };
    assert!(call("stablehlo.tanh").is_ok());
    for operation in ["chlo.ragged_dot", "stablehlo.uniform_quantize", "stablehlo.set_dimension_size", "mhlo.nobody"] {
        let error = call(operation).expect_err(operation);
        assert!(error.kind() == ErrorKind::Format && error.message().contains(operation), "{operation}: {error:?}");
    }
    for (what, text, _) in texts() {
        let error = text::parse(&text).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Format, "{what}: {error}");
    }
}
