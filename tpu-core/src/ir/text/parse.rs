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
