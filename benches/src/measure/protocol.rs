//! The line protocol of a measured program; `benches/peers/README.md` describes it.

use super::clock::Clock;
use super::resident::Peak;
use super::{Parameters, Result};
use std::io::{BufRead, Write};

/// Most elements of a result that are compared.
const SAMPLED: usize = 1024;

/// One run of a case, which ends when its results are there. Where true is given, it also gives them, as float32; else
/// nothing.
pub type Work = Box<dyn FnMut(bool) -> Result<Vec<Vec<f32>>>>;

/// The case being measured.
struct Current {
    work: Work,
    peak: Peak,
    outputs: String,
}

/// Answers requests until they end. `set_up` makes a case of a kind and its parameters.
///
/// # Errors
/// When the answers cannot be written: whoever asked has gone.
pub fn serve(
    set_up: impl Fn(&str, &Parameters) -> Result<Work>,
    requests: impl BufRead,
    mut answers: impl Write,
) -> std::io::Result<()> {
    let mut current = None;
    for line in requests.lines() {
        let answer = answer(line?.trim(), &set_up, &mut current);
        // One line, whatever the message is made of.
        let answer = answer.unwrap_or_else(|message| format!("error {}", message.replace('\n', " ")));
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}

fn answer(
    request: &str,
    set_up: impl Fn(&str, &Parameters) -> Result<Work>,
    current: &mut Option<Current>,
) -> Result<String> {
    let (verb, rest) = request.split_once(' ').unwrap_or((request, ""));
    if verb == "case" {
        // The memory of the case before is free before this one's is counted.
        *current = None;
        let (kind, words) = rest.split_once(' ').unwrap_or((rest, ""));
        let parameters = Parameters::parse(words)?;
        let compared = parameters.size_or("compared", 2)?.max(2);
        let peak = Peak::start();
        let mut work = set_up(kind, &parameters)?;
        let (mut outputs, mut milliseconds) = (sample(&work(true)?), 0.0);
        for _ in 1..compared {
            let clock = Clock::start();
            let results = work(true)?;
            milliseconds = clock.milliseconds().0;
            outputs += &format!(";{}", sample(&results));
        }
        *current = Some(Current { work, peak, outputs });
        return Ok(format!("ready {milliseconds:.6}"));
    }
    let current = current.as_mut().ok_or("requires a case first")?;
    match verb {
        "run" => {
            let count = rest.parse::<u32>().ok().filter(|&count| count > 0);
            let count = count.ok_or_else(|| format!("requires a count, got `{rest}`"))?;
            let clock = Clock::start();
            for _ in 0..count {
                (current.work)(false)?;
            }
            let (wall, processor) = clock.milliseconds();
            Ok(format!("{:.6} {:.6}", wall / f64::from(count), processor / f64::from(count)))
        }
        "outputs" => Ok(current.outputs.clone()),
        "memory" => Ok(current.peak.growth().to_string()),
        other => Err(format!("requires case, run, outputs or memory, got `{other}`")),
    }
}

/// What is compared of results, with `;` between them: the root mean square, then elements spread evenly.
fn sample(results: &[Vec<f32>]) -> String {
    let texts = results.iter().map(|values| {
        let squares: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
        let mut text = format!("{:e}", (squares / values.len().max(1) as f64).sqrt());
        let count = values.len().min(SAMPLED);
        for at in 0..count {
            text += &format!(" {:e}", values[at * values.len() / count]);
        }
        text
    });
    texts.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(requests: &str) -> Vec<String> {
        let mut answers = Vec::new();
        let set_up = |kind: &str, parameters: &Parameters| -> Result<Work> {
            if kind != "count" {
                return Err(format!("requires a known kind, got\n`{kind}`"));
            }
            let mut runs = parameters.size("from")?;
            Ok(Box::new(move |read| {
                runs += 1;
                Ok(if read { vec![vec![runs as f32; 2], vec![3.0, 4.0]] } else { Vec::new() })
            }))
        };
        serve(set_up, requests.as_bytes(), &mut answers).unwrap();
        String::from_utf8(answers).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_case_is_set_up_run_and_compared() {
        let lines = answers("case count from=4\nrun 2\noutputs\nmemory\ncase count from=0 compared=4\noutputs\n");
        assert!(lines[0].strip_prefix("ready ").unwrap().parse::<f64>().unwrap() >= 0.0);
        assert_eq!(lines[1].split(' ').filter(|time| time.parse::<f64>().unwrap() >= 0.0).count(), 2);
        let square = 12.5f64.sqrt();
        assert_eq!(lines[2], format!("5e0 5e0 5e0;{square:e} 3e0 4e0;6e0 6e0 6e0;{square:e} 3e0 4e0"));
        assert!(lines[3].parse::<u64>().is_ok());
        let firsts: Vec<_> = lines[5].split(';').step_by(2).collect();
        assert_eq!(firsts, ["1e0 1e0 1e0", "2e0 2e0 2e0", "3e0 3e0 3e0", "4e0 4e0 4e0"]);
    }

    #[test]
    fn what_cannot_be_done_is_said_and_the_program_goes_on() {
        let lines = answers("run 1\ncase sort\ncase count from=0\nrun 0\njump\n");
        assert_eq!(lines[0], "error requires a case first");
        assert_eq!(lines[1], "error requires a known kind, got `sort`");
        assert!(lines[2].starts_with("ready "), "{}", lines[2]);
        assert_eq!(lines[3], "error requires a count, got `0`");
        assert!(lines[4].starts_with("error requires case, run"), "{}", lines[4]);
    }

    #[test]
    fn elements_are_taken_from_everywhere() {
        let values = (0..4096).map(|at| at as f32).collect();
        let text = sample(&[values]);
        let picked: Vec<&str> = text.split(' ').skip(1).collect();
        assert_eq!((picked.len(), picked[1], picked[1023]), (SAMPLED, "4e0", "4.092e3"));
    }
}
