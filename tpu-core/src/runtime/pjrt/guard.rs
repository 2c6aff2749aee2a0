//! What libtpu ends the process on instead of saying that it is wrong, found in the text before it sees it.
//!
//! * Sizes that are not known when compiling and have no bound (`tensor<?xf32>`).
//! * Collectives that name devices which the compilation does not have: on `all_gather`, `all_to_all` and
//!   `collective_permute`, where `all_reduce` gives an error. The numbers of `all_to_all` and `collective_permute` are those
//!   of partitions if the operation has a channel, else those of replicas.
//!
//! What cannot be told is refused.

use super::parallel::Parallel;
use crate::{Error, ErrorKind, Result, ensure};

/// Errors with [`ErrorKind::Unsupported`] for StableHLO text that would end the process.
pub fn check(text: &str, parallel: Parallel) -> Result<()> {
    let code = without_strings(text);
    refuse_unbounded(&code)?;
    refuse_other_devices(&code, parallel)
}

/// Errors if a size is not known when compiling and has no bound. A `?` in the code is a size of a tensor whose bound stands
/// in the tensor's own type, or it is refused.
fn refuse_unbounded(code: &str) -> Result<()> {
    ensure!(!code.contains("tensor<*"), Unsupported, "a program", "requires tensors of known rank, got tensor<*");
    let mut rest = code;
    while let Some(at) = rest.find('?') {
        let start = rest[..at].rfind("tensor<").ok_or_else(|| unbounded(&rest[..=at]))?;
        let inside = &rest[start + "tensor<".len()..];
        let end = end_of_type(inside).ok_or_else(|| unbounded(inside))?;
        let (ty, behind) = (&inside[..end], &inside[end..]);
        // The `?` may lie behind this type, in something that is none.
        if start + "tensor<".len() + end < at || !is_bounded(ty) {
            return Err(unbounded(ty));
        }
        rest = behind;
    }
    Ok(())
}

/// What names of operations begin with.
const DIALECTS: [&str; 3] = ["stablehlo.", "mhlo.", "sdy."];

/// The operations among devices.
const COLLECTIVES: [&str; 6] =
    ["all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute", "collective_broadcast"];

/// Errors if a collective names a device that the program does not have. A list of devices that cannot be read is refused.
///
/// `code` has the names of operations, quoted or not, and no other strings.
fn refuse_other_devices(code: &str, parallel: Parallel) -> Result<()> {
    let found = |op: &'static str| {
        let in_dialect = |dialect: &str| -> Vec<_> {
            let name = format!("{dialect}{op}");
            code.match_indices(&name).map(|(at, _)| (at, op)).collect()
        };
        DIALECTS.iter().flat_map(|dialect| in_dialect(dialect)).collect::<Vec<_>>()
    };
    let mut operations: Vec<(usize, &'static str)> = COLLECTIVES.into_iter().flat_map(found).collect();
    operations.sort_unstable();
    let ends = operations.iter().skip(1).map(|&(at, _)| at).chain([code.len()]);
    for (&(at, op), end) in operations.iter().zip(ends) {
        let attributes = attributes(&code[at..end]);
        let devices = match attributes.contains("channel_handle") {
            true if ["all_to_all", "collective_permute"].contains(&op) => parallel.partitions,
            true if attributes.contains("use_global_device_ids") => parallel.devices(),
            _ => parallel.replicas,
        };
        let list = ["replica_groups=", "source_target_pairs="].iter().find_map(|name| attributes.split_once(name));
        let named = list.and_then(|(_, list)| numbers(list));
        if named.as_ref().is_some_and(|all| !all.is_empty() && all.iter().all(|&number| number < devices)) {
            continue;
        }
        let named = match named.into_iter().flatten().max() {
            Some(largest) => format!("0 to {largest}"),
            None => "others".into(),
        };
        let planned = match parallel {
            Parallel { replicas: 1, partitions: 1, .. } => "one device, which programs are planned for".to_string(),
            Parallel { replicas, partitions: 1, .. } => format!("replicas of the {replicas} that the program has"),
            Parallel { partitions, .. } => format!("partitions of the {partitions} that the program has"),
        };
        let message = format!("requires {planned}, got a collective among {named}");
        return Err(Error::new(ErrorKind::Unsupported, op, message));
    }
    Ok(())
}

/// The attributes of the operation whose name `code` begins with: those between `<{` and `}>` in front of its regions, or, in
/// the older form, what follows.
fn attributes(code: &str) -> &str {
    let regions = code.find("({").unwrap_or(code.len());
    let start = code[..regions].find("<{");
    let inside = start.and_then(|start| Some(&code[start..start + code[start..].find("}>")?]));
    inside.unwrap_or(code)
}

/// The numbers of `dense<[[0,1],[2,3]]>…`.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let (list, _) = list.strip_prefix("dense<")?.split_once('>')?;
    let plain = |c: char| c.is_ascii_digit() || "[],".contains(c);
    if !list.chars().all(plain) {
        return None;
    }
    let words = list.split(['[', ']', ',']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().ok()).collect()
}

fn unbounded(what: &str) -> Error {
    let tail: String = what.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
    let message = format!("requires sizes that are known or have a bound, got a `?` without one in `{}`", tail.trim());
    Error::new(ErrorKind::Unsupported, "a program", message)
}

/// The text without comments, blanks and the contents of strings, all of which may hold anything. Strings that are names of
/// operations stay, as the generic form `"stablehlo.add"(…)` has them.
pub fn without_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' => {
                let start = code.len() + 1;
                code.push('"');
                while let Some(c) = characters.next() {
                    match c {
                        '\\' => drop(characters.next()),
                        '"' => break,
                        c => code.push(c),
                    }
                }
                let string = &code[start..];
                let is_name = string.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c));
                if !is_name || !DIALECTS.iter().any(|dialect| string.starts_with(dialect)) {
                    code.truncate(start);
                }
                code.push('"');
            }
            '/' if characters.peek() == Some(&'/') => drop(characters.by_ref().find(|&c| c == '\n')),
            c if c.is_whitespace() => {}
            c => code.push(c),
        }
    }
    code
}

/// Where the type ends whose inside begins here.
fn end_of_type(inside: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in inside.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Whether each `?` of `?x4xf32,#stablehlo.bounds<8,?>` has a bound.
fn is_bounded(ty: &str) -> bool {
    const BOUNDS: &str = ",#stablehlo.bounds<";
    let Some((sizes, bounds)) = ty.split_once(BOUNDS) else { return false };
    let Some(bounds) = bounds.strip_suffix('>') else { return false };
    let sizes = sizes.split('x').take_while(|size| *size == "?" || size.bytes().all(|c| c.is_ascii_digit()));
    let (sizes, bounds): (Vec<_>, Vec<_>) = (sizes.collect(), bounds.split(',').collect());
    let known = |(size, bound): (&&str, &&str)| *size != "?" || bound.parse::<u64>().is_ok();
    sizes.len() == bounds.len() && sizes.iter().zip(&bounds).all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_without_a_bound_is_refused_wherever_it_stands() {
        let bad = [
            "func.func @main(%x: tensor<?xf32>)",
            "%0 = f(%x) : (tensor<4x?xf32>) -> tensor<4xf32>",
            "tensor < // a comment\n ? x f32>",
            "tensor<?x?xf32, #stablehlo.bounds<8, ?>>",
            "tensor<?x?xf32, #stablehlo.bounds<8>>",
            "tensor<?xf32, #bounded>",
            "!t = tensor<4xf32> ?",
            "tensor<4xf32>, vector<?xf32>",
            "tensor<*xf32>",
            "\"a\\\"b\" tensor<?xf32> \"c\"",
            "tensor<?xf32",
        ];
        for text in bad {
            let error = check(text, Parallel::ONE).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
        }
    }

    #[test]
    fn bounded_and_known_sizes_pass() {
        let good = [
            "func.func @main(%x: tensor<4xf32>) -> tensor<f32>",
            "tensor<?xf32, #stablehlo.bounds<8>> and tensor<4 x ? x complex<f32>, #stablehlo.bounds<?, 16>>",
            "loc(\"what?\") // tensor<?xf32>\n",
            "name = \"tensor<?xf32>\\\"?\"",
        ];
        for text in good {
            check(text, Parallel::ONE).unwrap();
        }
    }

    const PERMUTE: &str = "stablehlo.collective_permute %x, source_target_pairs = ";

    fn gather(list: &str) -> String {
        format!("\"stablehlo.all_gather\" (%x) <{{replica_groups = dense<{list}> : tensor<1x1xi64>}}>\n")
    }

    #[test]
    fn a_collective_of_devices_that_there_are_not_is_refused() {
        let alone = |text: &str| check(text, Parallel::ONE);
        for list in ["[[0, 1, 2, 3]]", "1", "\"0x00000000\"", "", "[[-1]]", "[[0, 99999999999999999999]]"] {
            let error = alone(&gather(list)).expect_err(list);
            assert_eq!((error.kind(), error.op()), (ErrorKind::Unsupported, "all_gather"), "{list}");
        }
        alone(&gather("[[0]]")).unwrap();
        alone(&gather("0")).unwrap();
        assert!(alone(&(gather("0") + &gather("[[0, 1]]"))).is_err());
        for pairs in ["dense<[[0, 3], [1, 0]]> : tensor<2x2xi64>", "#pairs", ""] {
            assert!(alone(&format!("{PERMUTE}{pairs}")).is_err(), "{pairs}");
        }
        assert!(alone("stablehlo.collective_permute %x").is_err());
        alone("loc(\"all_reduce/add\") loc(\"stablehlo.all_reduce of all\")").unwrap();
    }

    #[test]
    fn numbers_are_those_of_replicas_or_of_partitions() {
        let four = |text: &str| check(text, Parallel::new(4, 1, false).unwrap());
        let divided = |text: &str| check(text, Parallel::new(1, 4, true).unwrap());
        let pairs = "dense<[[0, 3], [1, 0]]> : tensor<2x2xi64>";
        // Without a channel, of replicas.
        four(&gather("[[0, 1, 2, 3]]")).unwrap();
        four(&format!("{PERMUTE}{pairs}")).unwrap();
        assert!(divided(&gather("[[0, 1, 2, 3]]")).is_err());
        let error = four(&gather("[[0, 1, 2, 4]]")).unwrap_err();
        assert!(
            error.message().contains("replicas of the 4 that the program has, got a collective among 0 to 4"),
            "{error}"
        );
        // With one, of all devices if the operation says so, of partitions if it has no way to say.
        let channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, ";
        let reduce = |more: &str| {
            format!(
                "\"stablehlo.all_reduce\"(%x) <{{{channel}replica_groups = dense<[[0, 3]]> : tensor<1x2xi64>{more}}}> ({{
                 ^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %a : tensor<f32> }}) : (tensor<f32>) -> tensor<f32>"
            )
        };
        four(&reduce("")).unwrap();
        assert!(divided(&reduce("")).is_err());
        divided(&reduce(", use_global_device_ids")).unwrap();
        let permute = format!("\"stablehlo.collective_permute\"(%x) <{{{channel}source_target_pairs = {pairs}}}>");
        divided(&permute).unwrap();
        assert!(four(&permute).is_err());
    }
}
