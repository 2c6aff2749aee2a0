//! `tpu-plan`: whether a StableHLO program compiles for TPUs, fits them, and how long it should take, with no TPU.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tpu_core::plan::{Compiler, Plan, Program, Progress, table};
use tpu_core::runtime::Cache;
use tpu_core::{Error, ErrorKind, Result};

const USAGE: &str = "\
Says whether a StableHLO program compiles for TPUs, fits them, and how long it should take, with no TPU.

Usage: tpu-plan FILE.mlir --targets v5e:2x2,v6e:1x1,tpu7x:1x1x1 [OPTION]...

  FILE.mlir          StableHLO as text, with a function main; of JAX, jax.jit(f).lower(...).as_text()
  --targets LIST     topologies, with commas between them: generation:chips along each axis, such as
                     v4:2x2x1  v5e:1x1  v5e:4x4  v5p:2x2x1  v6e:1x1  tpu7x:1x1x1
  --replicas N       N devices run the program, each with values of its own; without it as many as the file says
                     in mhlo.num_replicas and mhlo.num_partitions, which JAX writes, or one
  --json             one JSON array instead of text, an object per target; its fields are explained by
                     cargo doc -p tpu-core, at tpu_core::plan::Plan::to_json
  --emit DIR         also write each executable, for programs that run on one such TPU with TPU_CACHE_DIR=DIR, and
                     each optimized program, DIR/<target>.hlo.pb
  --libtpu FILE      the compiler [default: TPU_LIBRARY_PATH, else what `cargo xtask plugins` fetched, else the
                     libtpu of `pip install libtpu`]

Compiling takes seconds for small programs and minutes for large ones. Memory is what the compiler lays out on one
device; times are estimates, made of what it expects of each operation alone.

The exit status is 1 if the program does not compile for one of the targets, 2 for an error.";

struct Options {
    file: PathBuf,
    targets: Vec<String>,
    replicas: Option<usize>,
    json: bool,
    emit: Option<PathBuf>,
    libtpu: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match parse(arguments).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// A few flags: not worth a dependency that every user of the library would build.
fn parse(arguments: Vec<String>) -> Result<Options> {
    let wrong =
        |message: String| Error::new(ErrorKind::Value, "tpu-plan", format!("{message}; --help says how to call it"));
    let (mut file, mut targets, mut replicas, mut json, mut emit, mut libtpu) =
        (None, Vec::new(), None, false, None, None);
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| wrong(format!("requires a value behind {argument}")));
        match &*argument {
            "--targets" => targets.extend(value()?.split(',').filter(|name| !name.is_empty()).map(str::to_owned)),
            "--replicas" => {
                let text = value()?;
                let number = text.parse().ok().filter(|&number| number > 0);
                replicas = Some(number.ok_or_else(|| wrong(format!("requires a number of replicas, got {text}")))?);
            }
            "--json" => json = true,
            "--emit" => emit = Some(PathBuf::from(value()?)),
            "--libtpu" => libtpu = Some(PathBuf::from(value()?)),
            flag if flag.starts_with('-') => return Err(wrong(format!("does not know {flag}"))),
            _ if file.is_some() => return Err(wrong(format!("requires one file, got {argument} too"))),
            _ => file = Some(PathBuf::from(argument)),
        }
    }
    let file = file.ok_or_else(|| wrong("requires a file".into()))?;
    if targets.is_empty() {
        return Err(wrong("requires --targets".into()));
    }
    Ok(Options { file, targets, replicas, json, emit, libtpu })
}

/// Whether the program compiles for all targets.
fn run(options: &Options) -> Result<bool> {
    let program = Program::from_file(&options.file)?;
    let program = match options.replicas {
        Some(replicas) => program.with_replicas(replicas),
        None => program,
    };
    // Before the compiler is loaded: what the file says of its devices may be wrong.
    program.devices()?;
    let compiler = match &options.libtpu {
        Some(path) => Compiler::open(path)?,
        None => Compiler::find()?,
    };
    // All names first: a typo in the last must not cost the minutes that the others take.
    let targets: Vec<_> = options.targets.iter().map(|name| compiler.target(name)).collect::<Result<_>>()?;
    let mut plans: Vec<Plan> = Vec::new();
    for target in &targets {
        let mut line = Line::default();
        let plan = target.plan(&program, &mut |at| line.show(at));
        line.clear();
        let plan = plan?;
        if let Some(folder) = &options.emit {
            emit(folder, &plan)?;
        }
        if !options.json {
            println!("{plan}");
        }
        plans.push(plan);
    }
    if options.json {
        let all = plans.iter().map(Plan::to_json).collect();
        println!("{:#}", serde_json::Value::Array(all));
    } else if plans.len() > 1 {
        println!("{}", table(&plans));
    }
    Ok(plans.iter().all(|plan| plan.outcome.is_ok()))
}

fn emit(folder: &Path, plan: &Plan) -> Result<()> {
    let Ok(figures) = &plan.outcome else { return Ok(()) };
    let path = figures.store(&Cache::persistent(folder)?)?;
    eprintln!("{}: wrote {}", plan.target, path.display());
    let path = folder.join(plan.target.replace(':', "_")).with_extension("hlo.pb");
    std::fs::write(&path, figures.optimized()?).map_err(|error| Error::io("tpu-plan", &path, &error))
}

/// A line on a terminal that is written over.
#[derive(Default)]
struct Line {
    shown: bool,
}

impl Line {
    fn show(&mut self, Progress { target, elapsed, .. }: Progress<'_>) {
        if std::io::stderr().is_terminal() {
            eprint!("\r{target}: compiling, {:.0} s ", elapsed.as_secs_f64());
            // Nothing depends on it.
            let _ = std::io::stderr().flush();
            self.shown = true;
        }
    }

    fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
