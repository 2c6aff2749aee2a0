//! StableHLO text: what PJRT plugins compile, and the form in which programs are stored, compared and tested.
//!
//! [`print()`] writes a whole program as one MLIR module, limited to features of StableHLO 1.13, and [`parse()`] reads
//! exactly what it writes: `parse(print(g))` is the [canonical](super::verify::Verified::canonical) form of `g`.
//!
//! # The form
//!
//! Operations are in MLIR's generic form, which every version parses alike. `%v7` is the result of node 7 of the canonical
//! graph, `%v7#1` the second of several. Other names are auxiliary: `%v7_init` is a value that StableHLO's form of
//! node 7 needs and the node does not have. Element types and attributes are StableHLO's.
//!
//! * The program is the public function `@main`. Its checks are extra results; the function attribute
//!   `tpu_core.checks` lists the nodes that they guard.
//! * The block of a composite is the private function `@bN`.
//! * Branches of `case` see their surroundings in StableHLO, ours see only their parameters. A branch with
//!   parameters begins with an `optimization_barrier` over the arguments, whose results are the parameters.
//! * An op that StableHLO lacks, has with another meaning or leaves to the target is a composite `tpu_core.<op>` whose decomposition, the
//!   private function `@vN`, says in StableHLO what it means.
//!
mod attributes;
mod decompose;
mod fields;
mod lex;
mod literal;
mod lower;
mod operation;
mod parse;
mod print;
mod regions;
mod tree;

pub use parse::parse;
pub use print::print;
pub(crate) use print::{Donor, print_with_donors, print_with_locations};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples::every_op;
    use crate::ir::verify::verify;

    #[test]
    fn text_reads_back_as_the_canonical_graph() {
        for (name, graph) in every_op() {
            let verified = verify(&graph).unwrap();
            let text = print(verified);
            match parse(&text) {
                Ok(read) => assert!(read == verified.canonical(), "{name} reads back as another program:\n{text}"),
                Err(error) => panic!("{name}: {error}\n{text}"),
            }
        }
    }

    /// Writes every sample to `target/stablehlo/`, where `benches/peers/check_stablehlo.py` gives them to the parser
    /// of StableHLO.
    #[test]
    fn samples_are_written_for_the_stablehlo_parser() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/stablehlo");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, graph) in every_op() {
            let text = print(verify(&graph).unwrap());
            std::fs::write(folder.join(name.replace(' ', "-") + ".mlir"), text).unwrap();
        }
    }
}
