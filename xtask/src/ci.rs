//! `cargo xtask ci`: what must hold besides the tests.

use crate::workspace::{Workspace, cargo};
use crate::{Result, process, size};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// One check: its name, and what runs it.
type Check = (&'static str, fn(&Workspace) -> Result);

/// In this order: what fails quickly comes first.
const CHECKS: &[Check] = &[
    ("format", |_| process::run(cargo().args(["fmt", "--all", "--check"]))),
    ("machine names", machine_names),
    ("dependencies", dependencies),
    ("packages", packages),
    ("lints", |_| process::run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
    ("documentation", |_| {
        process::run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("size", |_| size::run(true)),
];

/// Runs every check, also after one has failed, and fails with the names of those that did.
pub fn run() -> Result {
    let workspace = Workspace::load()?;
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        println!("\n== {name}");
        let start = Instant::now();
        match check(&workspace) {
            Ok(()) => println!("{name}: ok, {:.1} s", start.elapsed().as_secs_f64()),
            Err(message) => {
                println!("{name}: FAILED: {message}");
                failed.push(*name);
            }
        }
    }
    println!("\nchecks: {} passed, {} failed", CHECKS.len() - failed.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// The published packages are complete. They are not built from the package here: the tests built the same files.
fn packages(workspace: &Workspace) -> Result {
    let mut command = cargo();
    // `--allow-dirty`: what is packaged is the state one is about to commit.
    command.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"]);
    for package in workspace.packages.iter().filter(|p| !p.published) {
        command.args(["--exclude", &package.name]);
    }
    process::run(&mut command)
}

/// Every dependency of the workspace's table is used by a package and has its reason in ARCHITECTURE.md.
fn dependencies(workspace: &Workspace) -> Result {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("could not read {}: {e}", path.display()));
    let reasons = read(&workspace.root.join("ARCHITECTURE.md"))?;
    let mut manifests = String::new();
    for package in &workspace.packages {
        manifests += &read(&package.folder.join("Cargo.toml"))?;
    }
    let table = read(&workspace.root.join("Cargo.toml"))?;
    let mut wrong = Vec::new();
    for name in third_party(&table) {
        if !reasons.contains(&format!("| `{name}` |")) {
            wrong.push(format!("`{name}` has no reason in ARCHITECTURE.md"));
        }
        if ![".workspace = true", " = { workspace = true"].iter().any(|how| declares(&manifests, name, how)) {
            wrong.push(format!("`{name}` is used by no package"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Names in `[workspace.dependencies]` that are not packages of this workspace.
fn third_party(manifest: &str) -> impl Iterator<Item = &str> {
    let table = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    table
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#') && !line.contains("path = "))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
}

fn declares(manifests: &str, name: &str, how: &str) -> bool {
    manifests.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(how)))
}

/// Texts that tie a file to one machine or one registry; written in two halves so that this file passes its own check.
const FORBIDDEN: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/op", "t/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tm", "p/"),
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("pythonhos", "ted"),
];

/// No tracked file names a path of somebody's machine or the host of a package registry.
fn machine_names(workspace: &Workspace) -> Result {
    let files = process::output(Command::new("git").current_dir(&workspace.root).args(["ls-files", "-z"]))?;
    let mut found = Vec::new();
    // Lock files are cargo's: they name the registry in each entry.
    for file in files.split('\0').filter(|f| !f.is_empty() && !f.ends_with("Cargo.lock")) {
        // A tracked file that is deleted or a link to nowhere names nothing.
        let Ok(bytes) = std::fs::read(workspace.root.join(file)) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        found.extend(offences(&text).map(|(line, name)| format!("{}:{line} names {name}", Path::new(file).display())));
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Line numbers, from 1, and what they name.
fn offences(text: &str) -> impl Iterator<Item = (usize, &'static str)> + '_ {
    text.lines()
        .enumerate()
        .flat_map(|(i, line)| FORBIDDEN.iter().filter(move |name| names(line, name)).map(move |name| (i + 1, *name)))
}

/// Whether the line holds the text, for a path only where a path starts: `some/tmp/x` is a folder of ours.
fn names(line: &str, text: &str) -> bool {
    line.match_indices(text).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !text.starts_with('/') || !before.is_some_and(|c| c.is_alphanumeric() || "._-~/{}*)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<&'static str> {
        offences(line).map(|(_, name)| name).collect()
    }

    #[test]
    fn absolute_paths_and_hosts_are_found() {
        assert_eq!(found(&format!("cd {}x", FORBIDDEN[0])), [FORBIDDEN[0]]);
        assert_eq!(found(&format!("\"{}bin\"", FORBIDDEN[1])), [FORBIDDEN[1]]);
        assert_eq!(found(&format!("see https://{}/x", FORBIDDEN[5])), [FORBIDDEN[5]]);
    }

    #[test]
    fn the_table_of_dependencies_is_read_without_our_own_crates() {
        let manifest = "[workspace.dependencies]\nours = { path = \"ours\" }\n# why\nhalf = \"2\"\nclap = { version = \"4\" }\n\n[lints]\nx = 1\n";
        assert_eq!(third_party(manifest).collect::<Vec<_>>(), ["half", "clap"]);
        assert!(declares("half.workspace = true\n", "half", ".workspace = true"));
        assert!(!declares("half-more.workspace = true\n", "half", ".workspace = true"));
    }

    #[test]
    fn folders_inside_the_repository_are_not() {
        assert!(found(&format!("target{}x", FORBIDDEN[4])).is_empty());
        assert!(found("a path / b").is_empty());
    }

    #[test]
    fn the_line_is_told() {
        let text = format!("one\ntwo {}", FORBIDDEN[3]);
        assert_eq!(offences(&text).collect::<Vec<_>>(), [(2, FORBIDDEN[3])]);
    }
}
