//! Where the workspace is and what is in it.

use crate::{Result, process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package of the workspace.
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Whether it may be published.
    pub published: bool,
    /// The names of its programs (`[[bin]]`).
    pub programs: Vec<String>,
    /// The names of its examples.
    pub examples: Vec<String>,
}

/// The workspace, as `cargo metadata` tells it.
pub struct Workspace {
    /// The top folder.
    pub root: PathBuf,
    /// Where cargo puts what it builds.
    pub target: PathBuf,
    /// The packages, by name.
    pub packages: Vec<Package>,
}

/// The top folder: xtask is built inside the workspace, one folder down.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The cargo that started us, set to run at the top of the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

impl Workspace {
    /// Asks cargo.
    pub fn load() -> Result<Self> {
        let text = process::output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
        Self::parse(&text)
    }

    fn parse(metadata: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(metadata).map_err(|e| format!("cargo metadata is not JSON: {e}"))?;
        let path =
            |key: &str| json[key].as_str().map(PathBuf::from).ok_or_else(|| format!("cargo metadata has no `{key}`"));
        let list = json["packages"].as_array().ok_or("cargo metadata has no `packages`")?;
        let mut packages = list.iter().map(package).collect::<Result<Vec<_>>>()?;
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Workspace { root: path("workspace_root")?, target: path("target_directory")?, packages })
    }

    /// The package of that name.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|p| p.name == name)
    }
}

fn package(json: &Value) -> Result<Package> {
    let text = |key: &str| json[key].as_str().ok_or_else(|| format!("a package in cargo metadata has no `{key}`"));
    let manifest = PathBuf::from(text("manifest_path")?);
    let targets = json["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Package {
        name: text("name")?.to_owned(),
        folder: manifest.parent().unwrap_or(&manifest).to_path_buf(),
        // null: anywhere; an empty list: nowhere (`publish = false`).
        published: json["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
        programs: named(targets, "bin"),
        examples: named(targets, "example"),
    })
}

fn named(targets: &[Value], kind: &str) -> Vec<String> {
    let of_kind = |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind));
    targets.iter().filter(of_kind).filter_map(|t| t["name"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_tells_programs_and_what_is_published() {
        let workspace = Workspace::parse(
            r#"{"workspace_root": "top", "target_directory": "top/target", "packages": [
                {"name": "fuzz", "manifest_path": "top/fuzz/Cargo.toml", "publish": [], "targets": [
                    {"name": "graphs", "kind": ["bin"]}, {"name": "fuzz", "kind": ["lib"]},
                    {"name": "replay", "kind": ["example"]}]},
                {"name": "core", "manifest_path": "top/core/Cargo.toml", "publish": null, "targets": []}]}"#,
        )
        .unwrap();
        assert_eq!(workspace.packages[0].name, "core");
        assert!(workspace.packages[0].published);
        let fuzz = workspace.package("fuzz").unwrap();
        assert!(!fuzz.published);
        assert_eq!(fuzz.programs, ["graphs"]);
        assert_eq!(fuzz.examples, ["replay"]);
        assert_eq!(fuzz.folder, Path::new("top/fuzz"));
    }

    #[test]
    fn metadata_of_another_form_is_an_error() {
        assert!(Workspace::parse("{}").is_err());
        assert!(Workspace::parse("not json").is_err());
    }

    #[test]
    fn this_workspace_has_its_four_crates_and_publishes_no_tool() {
        let workspace = Workspace::load().unwrap();
        for name in ["tpu-core", "tpu-ops", "tpu-autograd", "tpu-torch-compat"] {
            assert!(workspace.package(name).unwrap().published, "{name}");
        }
        assert!(!workspace.package("xtask").unwrap().published);
    }
}
