//! Counting lines and variants in Rust source that rustfmt has laid out.

use std::ops::AddAssign;

/// Lines of source by kind.
#[derive(Default, Clone, Copy, PartialEq, Debug)]
pub struct Lines {
    /// Neither blank nor comment nor test.
    pub code: usize,
    /// Comments and documentation, outside tests.
    pub comment: usize,
    /// Everything in test modules and test files but blank lines.
    pub test: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.code += other.code;
        self.comment += other.comment;
        self.test += other.test;
    }
}

/// Counts one file; `is_test` says that the whole file is tests.
///
/// A test module starts at `#[cfg(test)]` and ends with the brace in the same column, which rustfmt guarantees.
pub fn count(source: &str, is_test: bool) -> Lines {
    let mut lines = Lines::default();
    let mut test_indent: Option<usize> = None;
    for line in source.lines() {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if text.is_empty() {
            continue;
        }
        if test_indent.is_none() && text == "#[cfg(test)]" {
            test_indent = Some(indent);
        }
        if is_test || test_indent.is_some() {
            lines.test += 1;
        } else if text.starts_with("//") {
            lines.comment += 1;
        } else {
            lines.code += 1;
        }
        // The item after `#[cfg(test)]` ends with its closing brace, or with a semicolon if it has no body.
        let ends = text.starts_with('}') || (text.ends_with(';') && !text.starts_with("#["));
        if test_indent == Some(indent) && ends {
            test_indent = None;
        }
    }
    lines
}

/// The number of variants of the enum, or none if the source does not declare it: as `pub enum NAME {`, or as `NAME {`
/// inside a macro that makes enums.
pub fn variants(source: &str, name: &str) -> Option<usize> {
    let is_head = |line: &&str| line.trim().strip_prefix("pub enum ").unwrap_or(line.trim()) == format!("{name} {{");
    let mut lines = source.lines().skip_while(|line| !is_head(line));
    let head = lines.next()?;
    let margin = &head[..head.len() - head.trim_start().len()];
    // A variant stands four columns further in and starts with a capital; attributes, docs and fields do not.
    let is_variant = |line: &&str| {
        let inner = line.strip_prefix(margin).and_then(|rest| rest.strip_prefix("    "));
        inner.and_then(|text| text.chars().next()).is_some_and(|c| c.is_ascii_uppercase())
    };
    Some(lines.take_while(|line| line.strip_prefix(margin) != Some("}")).filter(is_variant).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! About the file.

/// An enum.
pub enum Op {
    /// One.
    One,
    #[allow(dead_code)]
    Two {
        Field: usize,
    },
    Three(Vec<u8>),
}

#[cfg(test)]
use std::fs;

fn code() {}

#[cfg(test)]
mod tests {
    // A comment in a test is test.

    fn nothing() {
    }
}

fn more() {}
";

    #[test]
    fn tests_comments_and_code_are_told_apart() {
        assert_eq!(count(SOURCE, false), Lines { code: 10, comment: 3, test: 8 });
    }

    #[test]
    fn a_test_file_is_all_test() {
        assert_eq!(count("// x\n\nfn f() {}\n", true), Lines { code: 0, comment: 0, test: 2 });
    }

    #[test]
    fn variants_are_counted_without_their_fields() {
        assert_eq!(variants(SOURCE, "Op"), Some(3));
        assert_eq!(variants(SOURCE, "Other"), None);
        let in_macro =
            "named! {\n    Kind {\n        A = \"a\",\n        B = \"b\",\n    }\n    Other {\n        C,\n    }\n}\n";
        assert_eq!(variants(in_macro, "Kind"), Some(2));
    }
}
