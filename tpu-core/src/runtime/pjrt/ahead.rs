//! Executables that were compiled ahead of time: on another machine, by the same compiler, for devices of one kind.
//!
//! They are entries of a [`Cache`](crate::runtime::Cache), so that a folder of them is one that `TPU_CACHE_DIR` may name. In the place of the
//! plugin's identity, which is that of a file on one machine, the key has the target.

use super::identity::{self, Target};
use crate::runtime::cache;
use crate::{Error, ErrorKind, Result, bail, ensure};
use std::path::Path;

/// The first part of keys; the number is the version of what follows.
const KIND: &[u8] = b"ahead of time 1";

/// The parts of a key behind the first: what they are called, and whether they say which devices the program is for.
const PARTS: [(&str, bool); 7] = [
    ("platform", true),
    ("kind of device", true),
    ("compiler", true),
    ("processor", true),
    ("environment of the compiler", false),
    ("compiler options", false),
    ("program", false),
];

/// Errors with [`ErrorKind::Unsupported`] for a program of several devices: which ones is part of its executable, and known
/// only where it runs.
pub fn one_device(devices: usize) -> Result<()> {
    ensure!(devices == 1, Unsupported, "ahead of time", "requires a program for one device, got one for {devices}");
    Ok(())
}

/// The key of a program for one device; `text` has no [locations](without_locations).
pub fn key(target: &Target, options: &[u8], text: &str) -> Vec<u8> {
    let Target { platform, kind, version, processor } = target;
    let [platform, kind, version, processor] = [platform, kind, version, processor].map(|part| part.as_bytes());
    let variables = identity::variables();
    cache::key(&[KIND, platform, kind, version, processor, variables.as_bytes(), options, text.as_bytes()])
}

/// The executable's bytes in a file, which must be that of `key`.
///
/// Errors with [`ErrorKind::Io`] or [`ErrorKind::Format`] if it cannot be read, with [`ErrorKind::Device`] if it is for
/// other devices, with [`ErrorKind::Value`] if it is another program or was compiled otherwise.
pub fn read(path: &Path, key: &[u8]) -> Result<Vec<u8>> {
    let (known, bytes) = cache::read_file(path)?;
    let (Some(known), Some(wanted)) = (parts(&known), parts(key)) else {
        bail!(Format, "a compiled program", "requires one compiled ahead of time, got another in {}", path.display());
    };
    for (((name, is_device), known), wanted) in PARTS.into_iter().zip(known).zip(wanted) {
        if known != wanted {
            let kind = if is_device { ErrorKind::Device } else { ErrorKind::Value };
            let path = path.display();
            let message = format!("requires the {name} {}, got {} in {path}", shown(wanted), shown(known));
            return Err(Error::new(kind, "a compiled program", message));
        }
    }
    Ok(bytes)
}

/// The parts behind the first of a key of this form.
fn parts(key: &[u8]) -> Option<Vec<&[u8]>> {
    let parts = cache::parts(key)?;
    (parts.len() == PARTS.len() + 1 && parts[0] == KIND).then(|| parts[1..].to_vec())
}

/// A part in an error.
fn shown(part: &[u8]) -> String {
    const MOST: usize = 200;
    match std::str::from_utf8(part) {
        Ok(text) if part.len() <= MOST => format!("{text:?}"),
        _ => format!("of {} bytes", part.len()),
    }
}

/// A module's text without the places of its operations, on which an executable does not depend.
pub fn without_locations(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content, "\n"),
            None => (line, ""),
        };
        plain.push_str(&content[..location(content).unwrap_or(content.len())]);
        plain.push_str(end);
    }
    plain
}

/// Where the place of an operation begins that ends a line: ` loc(…)`.
fn location(line: &str) -> Option<usize> {
    let open = " loc(";
    let (mut quoted, mut escaped, mut depth, mut start) = (false, false, 0usize, None);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b' ' if start.is_none() && line[at..].starts_with(open) => (start, depth) = (Some(at), 0),
            b'(' => depth += 1,
            b')' => {
                depth = depth.saturating_sub(1);
                // Something may stand behind it: then it is not what ends the line.
                if start.is_some() && depth == 0 && at + 1 < line.len() {
                    start = None;
                }
            }
            _ => {}
        }
    }
    start.filter(|_| depth == 0 && !quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Cache;

    fn target(platform: &str) -> Target {
        let [kind, version, processor] = ["a kind", "1.0", ""].map(String::from);
        Target { platform: platform.into(), kind, version, processor }
    }

    #[test]
    fn a_file_is_taken_for_its_key_only_and_what_differs_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::persistent(dir.path()).unwrap();
        let right = key(&target("tpu"), b"options", "text");
        let path = cache.try_store(&right, b"program").unwrap();
        assert_eq!(read(&path, &right).unwrap(), b"program");
        let cases = [
            (
                key(&target("cpu"), b"options", "text"),
                ErrorKind::Device,
                r#"requires the platform "cpu", got "tpu" in "#,
            ),
            (key(&target("tpu"), b"others", "text"), ErrorKind::Value, "requires the compiler options "),
            (
                key(&target("tpu"), b"options", "other"),
                ErrorKind::Value,
                r#"requires the program "other", got "text" in "#,
            ),
        ];
        for (wrong, kind, message) in cases {
            let error = read(&path, &wrong).unwrap_err();
            assert!(error.kind() == kind && error.message().starts_with(message), "{error}");
        }
        // A cached program that depends on one machine's plugin, a damaged file, none at all.
        let other = cache.try_store(b"another form of key", b"program").unwrap();
        assert_eq!(read(&other, &right).unwrap_err().kind(), ErrorKind::Format);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path, &right).unwrap_err();
        assert!(error.kind() == ErrorKind::Format && error.message().contains("check sum"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path, &right).unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn places_go_and_all_else_stays() {
        let cases = [
            (r#"  %0 = "a.b"(%x) : (f) -> f loc("add"("a (b).rs":1:2))"#, r#"  %0 = "a.b"(%x) : (f) -> f"#),
            (r#"  }) : (f) -> f loc(fused["a\"b("("f":1:1), "c"])"#, "  }) : (f) -> f"),
            ("%0 = foo(%x) loc(#loc1)\nnext\n", "%0 = foo(%x)\nnext\n"),
        ];
        for (text, plain) in cases {
            assert_eq!(without_locations(text), plain);
        }
        // In a string, in front of something else, not closed.
        for text in [r#"%0 = "a loc(b)""#, "func @f(%x: f loc(unknown)) {", "%0 loc(", r#"%0 loc("a)"#, ""] {
            assert_eq!(without_locations(text), text);
        }
    }
}
