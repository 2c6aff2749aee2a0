//! Our declarations against the C header that a plugin ships.
//!
//! The header's text is read and laid out by C's rules on 64-bit machines: each member at the next multiple of its
//! alignment, the struct's size a multiple of its largest one.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

#[allow(dead_code, reason = "what is compared is the declarations")]
#[path = "../src/runtime/pjrt/sys.rs"]
mod sys;

use std::collections::HashMap;
use std::path::Path;
use sys::{BUFFER_TYPES, LAYOUTS, code, named, semantics};

/// The header, unless it has not been fetched.
fn header() -> Option<String> {
    let file = "../target/plugins/xla-cpu-pjrt/xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")),
        Err(error) => {
            let message = format!("{} is not there ({error}): run `cargo xtask plugins`", path.display());
            assert!(std::env::var_os("CI").is_none(), "{message}");
            eprintln!("skipped: {message}");
            None
        }
    }
}

/// Size and alignment of a member's type.
type Extent = (usize, usize);

struct Header {
    /// Members of each struct, in order: name, offset and size; and the size of the whole.
    structs: HashMap<String, (Vec<(String, usize, usize)>, usize)>,
    /// Values by full name.
    constants: HashMap<String, i32>,
    /// Functions of the table, in order, without the prefix.
    functions: Vec<String>,
}

/// The text between the brace at `open` and its partner, and what stands behind.
fn braces(text: &str, open: usize) -> (&str, &str) {
    let mut depth = 0;
    for (at, character) in text[open..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return (&text[open + 1..open + at], &text[open + at + 1..]),
            '}' => depth -= 1,
            _ => {}
        }
    }
    panic!("a brace is not closed");
}

impl Header {
    fn read(text: &str) -> Self {
        let mut header = Self { structs: HashMap::new(), constants: HashMap::new(), functions: Vec::new() };
        let mut extents: HashMap<String, Extent> = HashMap::new();
        let mut rest = text;
        while let Some(at) = ["struct PJRT_", "typedef enum {"].iter().filter_map(|word| rest.find(word)).min() {
            rest = &rest[at..];
            let open = rest.find('{').expect("a definition");
            let semicolon = rest.find(';').expect("a declaration ends");
            if semicolon < open {
                // Only declared.
                rest = &rest[semicolon + 1..];
                continue;
            }
            let (body, behind) = braces(rest, open);
            if rest.starts_with("typedef enum") {
                let name = behind.split(';').next().expect("an enum has a name").trim();
                extents.insert(name.into(), (4, 4));
                header.constants(body);
            } else {
                let name = rest["struct PJRT_".len()..open].trim();
                if name == "Api" {
                    let names = body.split("_PJRT_API_STRUCT_FIELD(PJRT_").skip(1);
                    header.functions = names.map(|name| name.split(')').next().unwrap_or("").into()).collect();
                } else {
                    let (members, extent) = layout(body, &extents);
                    extents.insert(format!("PJRT_{name}"), extent);
                    header.structs.insert(name.into(), (members, extent.0));
                }
            }
            rest = behind;
        }
        header
    }

    fn constants(&mut self, body: &str) {
        let mut next = 0;
        for entry in body.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = match entry.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim().parse().expect("a number")),
                None => (entry, next),
            };
            self.constants.insert(name.into(), value);
            next = value + 1;
        }
    }
}

/// The members of a struct's body, and the extent of the whole.
fn layout(body: &str, extents: &HashMap<String, Extent>) -> (Vec<(String, usize, usize)>, Extent) {
    let (mut members, mut end, mut align) = (Vec::new(), 0usize, 1);
    let mut rest = body.trim();
    while !rest.is_empty() {
        let (name, (size, alignment), behind) = if let Some(behind) = rest.strip_prefix("union") {
            let (inside, behind) = braces(behind, behind.find('{').expect("a union has members"));
            let parts = inside.split(';').map(str::trim).filter(|part| !part.is_empty());
            let parts: Vec<(String, Extent)> = parts.map(|part| member(part, extents)).collect();
            let largest = parts.iter().map(|part| part.1.0).max().unwrap_or(0);
            let strictest = parts.iter().map(|part| part.1.1).max().unwrap_or(1);
            // A union has no name; it is called by its first member here.
            (parts[0].0.clone(), (largest, strictest), behind.trim_start_matches(';'))
        } else {
            let (text, behind) = rest.split_once(';').expect("a member ends");
            let (name, extent) = member(text.trim(), extents);
            (name, extent, behind)
        };
        let offset = end.next_multiple_of(alignment);
        members.push((name, offset, size));
        end = offset + size;
        align = align.max(alignment);
        rest = behind.trim_start();
    }
    (members, (end.next_multiple_of(align), align))
}

/// Name and extent of `type name` or of a pointer to a function.
fn member(text: &str, extents: &HashMap<String, Extent>) -> (String, Extent) {
    if let Some((_, name)) = text.split_once("(*") {
        return (name.split(')').next().unwrap_or("").into(), (8, 8));
    }
    let at = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').expect("a type before the name");
    let (ty, name) = (text[..=at].trim(), text[at + 1..].to_string());
    let extent = match ty.trim_start_matches("struct ").trim_start_matches("const ") {
        pointer if pointer.ends_with('*') => (8, 8),
        "size_t" | "int64_t" | "uint64_t" | "uintptr_t" | "intptr_t" => (8, 8),
        "int" | "float" => (4, 4),
        "bool" => (1, 1),
        "PJRT_KeyValueGetCallback" | "PJRT_KeyValuePutCallback" | "PJRT_KeyValueTryGetCallback" => (8, 8),
        "PJRT_SendCallback" | "PJRT_RecvCallback" | "PJRT_CallbackError" | "PJRT_Event_OnReadyCallback" => (8, 8),
        "PJRT_KeyValueGetCallback_ValueDeleter" | "PJRT_KeyValueTryGetCallback_ValueDeleter" => (8, 8),
        known => *extents.get(known).unwrap_or_else(|| panic!("{text}: the header has no type {known} before this")),
    };
    (name, extent)
}

#[test]
fn structs_lie_as_the_header_says() {
    let Some(text) = header() else { return };
    let header = Header::read(&text);
    for ours in LAYOUTS {
        let name = if ours.index.is_some() { format!("{}_Args", ours.name) } else { ours.name.to_string() };
        let (members, size) = header.structs.get(&name).unwrap_or_else(|| panic!("the header has no struct {name}"));
        // `Args` adds size and extensions to those that do not declare them.
        let declares_all = ours.fields.first().is_some_and(|field| field.0 == "struct_size");
        let shift = if declares_all { 0 } else { 16 };
        assert_eq!(ours.size + shift, *size, "{name}");
        let theirs: Vec<_> = members.iter().filter(|member| member.1 >= shift).collect();
        assert_eq!(theirs.len(), ours.fields.len(), "{}: {theirs:?}", ours.name);
        for (theirs, &(name, offset, size)) in theirs.iter().zip(ours.fields) {
            // Unions are called otherwise here: by what we use of them.
            let same_name =
                theirs.0 == name.trim_start_matches("r#") || ["string_value", "tiled"].contains(&&*theirs.0);
            assert!(same_name, "{}: {name} is {} in the header", ours.name, theirs.0);
            assert_eq!((theirs.1, theirs.2), (offset + shift, size), "{}: offset and size of {name}", ours.name);
        }
    }
}

#[test]
fn functions_stand_where_the_header_says() {
    let Some(text) = header() else { return };
    let header = Header::read(&text);
    assert!(header.functions.len() > 110);
    for ours in LAYOUTS {
        let Some(index) = ours.index else { continue };
        assert_eq!(header.functions.get(index).map(String::as_str), Some(ours.name));
    }
}

#[test]
fn constants_have_the_values_of_the_header() {
    let Some(text) = header() else { return };
    let constants = Header::read(&text).constants;
    let mut pairs = vec![
        ("PJRT_Error_Code_INVALID_ARGUMENT".to_string(), code::INVALID_ARGUMENT),
        ("PJRT_Error_Code_NOT_FOUND".into(), code::NOT_FOUND),
        ("PJRT_Error_Code_RESOURCE_EXHAUSTED".into(), code::RESOURCE_EXHAUSTED),
        ("PJRT_Error_Code_UNIMPLEMENTED".into(), code::UNIMPLEMENTED),
        ("PJRT_NamedValue_kString".into(), named::STRING),
        ("PJRT_NamedValue_kInt64".into(), named::INT64),
        ("PJRT_NamedValue_kInt64List".into(), named::INT64_LIST),
        ("PJRT_NamedValue_kFloat".into(), named::FLOAT),
        ("PJRT_NamedValue_kBool".into(), named::BOOL),
        ("PJRT_HostBufferSemantics_kImmutableOnlyDuringCall".into(), semantics::IMMUTABLE_ONLY_DURING_CALL),
        (
            "PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes".into(),
            semantics::IMMUTABLE_UNTIL_TRANSFER_COMPLETES,
        ),
        ("PJRT_HostBufferSemantics_kMutableZeroCopy".into(), semantics::MUTABLE_ZERO_COPY),
        ("PJRT_Buffer_MemoryLayout_Type_Tiled".into(), 0),
    ];
    let types = BUFFER_TYPES.iter().enumerate();
    pairs.extend(types.map(|(number, name)| (format!("PJRT_Buffer_Type_{name}"), number as i32)));
    for (name, ours) in pairs {
        assert_eq!(constants.get(&name), Some(&ours), "{name}");
    }
}
