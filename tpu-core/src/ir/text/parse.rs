//! From text to graphs.
//!
//! Text is read into a tree, the tree is turned into a graph by what operations and attributes are called, the graph
//! is verified and written again: text that differs from what we write is an error at the first word that differs. So
//! nothing in regions, decompositions and types needs to be understood to be checked.

use super::lex::{self, Kind, lex};
use super::lower::lower;
use super::{print, tree};
use crate::Result;
use crate::ir::Graph;
use crate::ir::verify::verify;

/// The graph that a text written by [`print()`](super::print()) stands for, in canonical form. White space and comments
/// do not matter, everything else does.
///
/// Text may come from anywhere: anything else is an error of kind `Format` that gives line and column, found in time
/// and memory that the length of the text bounds.
///
/// ```
/// use tpu_core::ir::text::parse;
/// let text = r#"
/// module @program {
///   func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf32>) {
///     %v1 = "stablehlo.tanh"(%v0) : (tensor<2xf32>) -> tensor<2xf32>
///     "func.return"(%v1) : (tensor<2xf32>) -> ()
///   }
/// }"#;
/// assert_eq!(parse(text).unwrap().nodes[1].op.name(), "tanh");
/// let error = parse(&text.replace("%v0)", "%v3)")).unwrap_err();
/// assert_eq!(error.to_string(), "parse requires a value of the same block, got %v3, at 4:5");
/// ```
pub fn parse(text: &str) -> Result<Graph> {
    let tokens = lex(text)?;
    let functions = tree::module(text, &tokens)?;
    let graph = lower(text, &functions)?;
    let verified =
        verify(&graph).map_err(|error| lex::error(text, 0, format_args!("a valid program, got: {error}")))?;
    let written = print(verified);
    let expected = lex(&written)?;
    for (got, expected) in tokens.iter().zip(&expected) {
        if got.text != expected.text {
            let got_text = if got.kind == Kind::End { "the end" } else { got.text };
            return Err(lex::error(text, got.start, format_args!("{}, got {got_text}", expected.text)));
        }
    }
    Ok(verified.canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::ir::samples::every_op;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

    /// A program with one operation between its parameter `%v0: tensor<2xf32>` and its result `%v1`.
    fn program(operation: &str) -> String {
        format!(
            "module @program {{\n  func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf32>) {{\n    \
             {operation}\n    \"func.return\"(%v1) : (tensor<2xf32>) -> ()\n  }}\n}}\n"
        )
    }

    fn rejected(text: &str) -> String {
        let error = parse(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Format);
        error.message().to_string()
    }

    const TANH: &str = r#"%v1 = "stablehlo.tanh"(%v0) : (tensor<2xf32>) -> tensor<2xf32>"#;

    #[test]
    fn white_space_and_comments_do_not_matter() {
        let text = program(TANH);
        let spaced = text.replace('(', " ( // a comment\n").replace(" : ", ":");
        assert_eq!(parse(&spaced).unwrap(), parse(&text).unwrap());
    }

    #[test]
    fn errors_name_line_and_column() {
        for (operation, message) in [
            ("%v1 = tanh", "requires an operation's name in quotation marks, got tanh, at 3:11"),
            (&TANH.replace("(%v0)", "(%v0"), "requires ,, got :, at 3:32"),
            (&TANH.replace("tanh", "tan_h"), "requires an operation that exists, got stablehlo.tan_h, at 3:5"),
            (&TANH.replace("(%v0)", "(%v7)"), "requires a value of the same block, got %v7, at 3:5"),
            (&TANH.replace("(%v0)", "(%v0#1)"), "requires a value of the same block, got %v0#1, at 3:5"),
            (
                &TANH.replace("-> tensor<2xf32>", "-> tensor<3xf32>"),
                "requires results [float32[2]], got [float32[3]], at 3:5",
            ),
            (&TANH.replace("(tensor<2xf32>)", "(tensor<2xf64>)"), "requires tensor<2xf32>, got tensor<2xf64>, at 3:36"),
            (
                &TANH.replace("tanh", "not"),
                "requires a valid operation, got: not requires operand of bool or integer dtype, got float32[2], at 3:5",
            ),
            (&TANH.replace("%v1 =", "%v1:2 ="), "requires names of 1 results, got other names, at 3:5"),
            (
                &TANH.replace("2xf32", "?xf32"),
                "requires a tensor type of sizes and an element type, got one with '?', at 3:42",
            ),
            (&TANH.replace("2xf32", "2xf31"), "requires a tensor type, got tensor<2xf31>, at 3:36"),
            (&TANH.replace("tanh\"", "tanh"), "requires a closing quotation mark, got none in the line, at 3:11"),
            ("\u{e9}", "requires MLIR text, got '\u{e9}', at 3:5"),
        ] {
            assert_eq!(rejected(&program(operation)), message, "{operation}");
        }
        assert_eq!(rejected(""), "requires module, got the end, at 1:1");
        assert_eq!(rejected("module @program {}"), "requires a function @main, got none, at 1:1");
        assert_eq!(rejected(&(program(TANH) + "x")), "requires nothing after the module, got x, at 7:1");
    }

    #[test]
    fn what_is_not_written_alike_is_rejected_where_it_differs() {
        let numbered = program(TANH).replace("%v1", "%v5");
        assert_eq!(rejected(&numbered), "requires %v1, got %v5, at 3:5");
        let sum = every_op().into_iter().find(|(name, _)| name == "reduce add float32").unwrap().1;
        let text = print(verify(&sum).unwrap());
        let other = text.replace("(%lhs, %rhs) :", "(%rhs, %lhs) :");
        assert!(rejected(&other).starts_with("requires %lhs, got %rhs, at "), "{}", rejected(&other));
        let other = text.replace("dense<0.0>", "dense<1.0>");
        assert!(rejected(&other).starts_with("requires 0.0, got 1.0, at "), "{}", rejected(&other));
    }

    #[test]
    fn what_would_take_much_memory_or_depth_is_rejected() {
        let many = program(&TANH.replace("%v1 =", "%v1:18446744073709551615 ="));
        assert_eq!(rejected(&many), "requires names of 1 results, got other names, at 3:5");
        let constant = |content: &str, ty: &str| {
            program(&format!("%v1 = \"stablehlo.constant\"() <{{value = dense<{content}> : {ty}}}> : () -> {ty}"))
        };
        let huge = constant("\"0x00\"", "tensor<99999999999x99999999999xf32>");
        assert!(rejected(&huge).starts_with("requires the elements of float32[99999999999, 99999999999], got others"));
        let groups = "dense<0> : tensor<9999999999x2xi64>";
        let gather = program(&format!(
            "%v1 = \"stablehlo.all_gather\"(%v0) <{{all_gather_dim = 0 : i64, replica_groups = {groups}}}> : \
             (tensor<2xf32>) -> tensor<4xf32>"
        ));
        assert_eq!(
            rejected(&gather),
            "requires an attribute replica_groups that is a table of integers, got none, at 3:5"
        );
        let deep = program(&"\"stablehlo.while\"() ({ ".repeat(100_000));
        assert!(rejected(&deep).starts_with("requires regions at most 65 deep, got {"));
        let deep = program(&format!("\"stablehlo.tanh\"() <{{a = {}", "[".repeat(100_000)));
        assert!(rejected(&deep).starts_with("requires an attribute with less nesting, got ["));
        let long = program(&TANH.replace("tensor<2xf32>", &format!("tensor<{}f32>", "1x".repeat(1000))));
        assert_eq!(rejected(&long), "requires a tensor type, got tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1…, at 3:36");
    }

    #[test]
    fn a_function_belongs_to_one_composite() {
        let call = "\"stablehlo.composite\"(%v0) <{composite_attributes = {}, decomposition = @b1, name = \"a.b\"}> : \
                    (tensor<2xf32>) -> tensor<2xf32>";
        let function = |body: &str| {
            format!(
                "  func.func private @b1(%v0: tensor<2xf32>) -> (tensor<2xf32>) {{\n{body}\n    \
                 \"func.return\"(%v0) : (tensor<2xf32>) -> ()\n  }}\n}}\n"
            )
        };
        let module = |operations: &str, body: &str| {
            let main = program(operations);
            main[..main.len() - 2].to_string() + &function(body)
        };
        let once = format!("%v1 = {call}");
        let used = "requires a function that no other composite uses, got @b1";
        let itself = rejected(&module(&once, &format!("%v2 = {call}")));
        assert!(itself.starts_with(used), "{itself}");
        let twice = rejected(&module(&format!("{once}\n%v2 = {call}"), ""));
        assert!(twice.starts_with(used), "{twice}");
        let missing = rejected(&program(&once));
        assert!(missing.starts_with(used), "{missing}");
    }

    /// Any damage to a valid text gives a graph or an error, never a panic.
    #[test]
    fn damaged_text_never_panics() {
        let texts: Vec<String> = every_op()
            .iter()
            .step_by(7)
            .map(|(_, graph)| print(verify(graph).unwrap()))
            .filter(|t| t.len() < 20_000)
            .collect();
        const PIECES: [&str; 18] = [
            "%v0",
            "%v1#1",
            ":",
            "(",
            ")",
            "<",
            ">",
            "{",
            "}",
            "[",
            "]",
            "-1",
            "99999999999999999999",
            "0x",
            "\"",
            "->",
            "tensor<0x1xf32>",
            "dense<>",
        ];
        let strategy = (0..texts.len(), 0.0..1.0f64, 0usize..30, prop::option::of(0..PIECES.len()), 0.0..1.0f64);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        let config = Config { cases: crate::testing::cases(1500), failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, rng);
        let damaged = |(text, place, length, piece, from): (usize, f64, usize, Option<usize>, f64)| {
            let text = &texts[text];
            let at = |part: f64| (part * text.len() as f64) as usize;
            // What is written is ASCII.
            let (start, end) = (at(place), (at(place) + length).min(text.len()));
            let copied = &text[at(from)..(at(from) + length).min(text.len())];
            let inserted = piece.map_or(copied, |piece| PIECES[piece]);
            let _ = parse(&format!("{}{inserted}{}", &text[..start], &text[end..]));
            Ok(())
        };
        runner.run(&strategy, damaged).unwrap();
    }
}
