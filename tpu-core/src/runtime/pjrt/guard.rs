//! What libtpu ends the process on instead of saying that it is wrong, found in the text before it sees it.
//!
//! * Sizes that are not known when compiling and have no bound (`tensor<?xf32>`).
//! * Collectives that name replicas which the compilation does not have: on `all_gather`, `all_to_all` and
//!   `collective_permute`, where `all_reduce` gives an error.
//!
//! What cannot be told is refused.

use crate::{Error, ErrorKind, Result, ensure};

/// Errors with [`ErrorKind::Unsupported`] for StableHLO text that would end the process.
pub fn check(text: &str) -> Result<()> {
    let code = without_strings(text);
    refuse_unbounded(&code)?;
    refuse_other_replicas(text, &code)
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

/// Errors if a collective names another replica than number 0: programs are compiled for one device. A list of replicas
/// that cannot be read is refused.
fn refuse_other_replicas(text: &str, code: &str) -> Result<()> {
    // The generic form has the names of operations in strings.
    const COLLECTIVES: [&str; 6] =
        ["all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute", "collective_broadcast"];
    let is_there = |op: &&str| ["stablehlo.", "mhlo."].iter().any(|dialect| text.contains(&format!("{dialect}{op}")));
    let Some(op) = COLLECTIVES.into_iter().find(is_there) else { return Ok(()) };
    let lists = ["replica_groups=", "source_target_pairs="].into_iter().flat_map(|name| code.split(name).skip(1));
    let largest: Vec<Option<usize>> = lists.map(|list| numbers(list)?.into_iter().max()).collect();
    if !largest.is_empty() && largest.iter().all(|&largest| largest == Some(0)) {
        return Ok(());
    }
    let named = largest.into_iter().max().flatten().map_or("others".into(), |largest| format!("0 to {largest}"));
    let message = format!("requires one device, which programs are planned for, got a collective among {named}");
    Err(Error::new(ErrorKind::Unsupported, op, message))
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

/// The text without comments, blanks and the contents of strings, all of which may hold anything.
fn without_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' => {
                code.push('"');
                while let Some(c) = characters.next() {
                    match c {
                        '\\' => drop(characters.next()),
                        '"' => break,
                        _ => {}
                    }
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
            let error = check(text).expect_err(text);
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
            check(text).unwrap();
        }
    }

    #[test]
    fn a_collective_among_devices_is_refused_and_one_of_a_single_device_is_not() {
        let groups =
            |list: &str| format!("\"stablehlo.all_gather\"(%x) <{{replica_groups = dense<{list}> : tensor<1x1xi64>}}>");
        for list in ["[[0, 1, 2, 3]]", "1", "\"0x00000000\"", "", "[[-1]]", "[[0, 99999999999999999999]]"] {
            let error = check(&groups(list)).expect_err(list);
            assert_eq!((error.kind(), error.op()), (ErrorKind::Unsupported, "all_gather"), "{list}");
        }
        check(&groups("[[0]]")).unwrap();
        check(&groups("0")).unwrap();
        assert!(check(&(groups("0") + &groups("[[0, 1]]"))).is_err());
        let permute = |pairs: &str| check(&format!("stablehlo.collective_permute %x, source_target_pairs = {pairs}"));
        assert!(permute("dense<[[0, 3], [1, 0]]> : tensor<2x2xi64>").is_err() && permute("#pairs").is_err());
        assert!(check("stablehlo.collective_permute %x").is_err());
        check("loc(\"all_reduce/add\")").unwrap();
    }
}
