//! `cargo xtask size`: how large the project is. The numbers are printed on every change so that growth is seen.

use crate::source::{self, Lines};
use crate::workspace::{Package, Workspace, cargo};
use crate::{Result, process};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a cold release build of tpu-autograd with its dependencies may cost, user + system. For comparison: candle 180 s,
/// burn 336 s, measured on the same machine.
const BUILD_BUDGET_SECONDS: f64 = 120.0;

/// Prints the report; `build` adds the build time.
pub fn run(build: bool) -> Result {
    let workspace = Workspace::load()?;
    println!("{:<18} {:>8} {:>9} {:>8} {:>13}", "package", "code", "comments", "tests", "dependencies");
    let mut total = Lines::default();
    for package in &workspace.packages {
        let lines = lines_of(&package.folder)?;
        total += lines;
        let dependencies = dependencies(package)?;
        println!("{:<18} {:>8} {:>9} {:>8} {:>13}", package.name, lines.code, lines.comment, lines.test, dependencies);
    }
    println!("{:<18} {:>8} {:>9} {:>8}", "all", total.code, total.comment, total.test);
    println!("{}", operations(&workspace.root)?);
    if build {
        println!("{}", build_time(&workspace)?);
    }
    Ok(())
}

/// Lines of every Rust file below the package's folder.
fn lines_of(folder: &Path) -> Result<Lines> {
    let mut lines = Lines::default();
    for path in rust_files(folder)? {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("could not read {}: {e}", path.display()))?;
        lines += source::count(&text, is_test(path.strip_prefix(folder).unwrap_or(&path)));
    }
    Ok(lines)
}

/// `tests/…` and `tests.rs` at any depth.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let fail = |e| format!("could not list {}: {e}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_dir() {
                if path.file_name() != Some(OsStr::new("target")) {
                    folders.push(path);
                }
            } else if path.extension() == Some(OsStr::new("rs")) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Packages that a user of this one builds, itself not counted.
fn dependencies(package: &Package) -> Result<usize> {
    let tree = process::output(cargo().args(["tree", "-p", &package.name, "--edges", "normal", "--prefix", "none"]))?;
    Ok(count_tree(&tree))
}

/// Different packages in `cargo tree --prefix none`, less the first: the root.
fn count_tree(tree: &str) -> usize {
    let packages: BTreeSet<_> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    packages.len().saturating_sub(1)
}

fn operations(root: &Path) -> Result<String> {
    let path = root.join("tpu-core/src/ir/op.rs");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("could not read {}: {e}", path.display()))?;
    let count = |name: &str| {
        source::variants(&text, name).ok_or_else(|| format!("{} has no `pub enum {name}`", path.display()))
    };
    let (ops, unary, binary) = (count("Op")?, count("UnaryOp")?, count("BinaryOp")?);
    // `Op::Unary` and `Op::Binary` stand for the functions in them.
    Ok(format!(
        "operations: {ops} kinds; with {unary} unary and {binary} binary functions {}",
        ops - 2 + unary + binary
    ))
}

/// Builds into an empty folder and says what that cost.
fn build_time(workspace: &Workspace) -> Result<String> {
    let target = workspace.target.join("xtask/cold-build");
    let clean = || match std::fs::remove_dir_all(&target) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("could not remove {}: {e}", target.display()))
        }
        _ => Ok(()),
    };
    clean()?;
    let (before, start) = (children_seconds(), Instant::now());
    process::run(
        cargo().args(["build", "--quiet", "--release", "-p", "tpu-autograd"]).env("CARGO_TARGET_DIR", &target),
    )?;
    let (after, wall) = (children_seconds(), start.elapsed().as_secs_f64());
    clean()?;
    Ok(match before.zip(after) {
        Some((before, after)) => format!(
            "cold release build of tpu-autograd: {:.0} CPU seconds (budget {BUILD_BUDGET_SECONDS:.0}), {wall:.0} s",
            after - before
        ),
        None => format!("cold release build of tpu-autograd: {wall:.0} s"),
    })
}

/// User and system time of the children that have ended, where the system tells (Linux).
fn children_seconds() -> Option<f64> {
    parse_children_seconds(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Fields 16 and 17 of proc(5) `stat`, in units of 1/100 s on every Linux. The name in field 2 may hold spaces.
fn parse_children_seconds(stat: &str) -> Option<f64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(13);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_counts_each_package_once_and_not_the_root() {
        let tree = "tpu-ops v0.1.0 (folder)\nhalf v2.7.1\ncfg-if v1.0.4\nrayon v1.12.0\ncfg-if v1.0.4 (*)\n\n";
        assert_eq!(count_tree(tree), 3);
        assert_eq!(count_tree(""), 0);
    }

    #[test]
    fn times_of_children_are_read_behind_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 11 22 150 50 20 0 1 0";
        assert_eq!(parse_children_seconds(stat), Some(2.0));
        assert_eq!(parse_children_seconds("nonsense"), None);
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        assert!(is_test(Path::new("tests/loops.rs")));
        assert!(is_test(Path::new("src/lazy/tests.rs")));
        assert!(!is_test(Path::new("src/latest/contests.rs")));
    }

    #[test]
    fn the_operations_of_this_workspace_are_counted() {
        let text = operations(&crate::workspace::root()).unwrap();
        assert!(text.starts_with("operations: "), "{text}");
    }
}
