//! How long our steps are in which kernels.

use super::program::{Program, Programs};
use super::report::Kernels;
use crate::{Result, process};

/// Milliseconds of a run in kernels, in both of our modes.
pub fn measure(programs: &Programs, case: &str, threads: usize, seconds: f64) -> Result<[(Program, Kernels); 2]> {
    let text = process::output(&mut programs.kernels(case, threads, seconds))?;
    let find = |mode: &str| {
        let of = |line: &str| parse(line.strip_prefix(mode)?);
        text.lines().find_map(of).ok_or_else(|| format!("no times of kernels for {mode} in `{text:.200}`"))
    };
    Ok([(Program::Ours, find("defer-and-fuse")?), (Program::Never, find("defer-never")?)])
}

/// Two numbers: of kernels that are no products, and of all.
fn parse(line: &str) -> Option<Kernels> {
    let mut words = line.split_whitespace().map(str::parse);
    let (other, all) = (words.next()?.ok()?, words.next()?.ok()?);
    (0.0 <= other && other <= all).then_some(Kernels { other, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sensible_numbers_are_times() {
        assert_eq!(parse(" 1.5 20"), Some(Kernels { other: 1.5, all: 20.0 }));
        for line in ["", " 1.5", " 30 20", " -1 20", " NaN 20", " x 20"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
