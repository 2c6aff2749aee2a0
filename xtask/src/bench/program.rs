//! The programs that are compared, and how each is started.

use crate::workspace::{Workspace, cargo};
use crate::{Result, peers, process};
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::Command;

/// A side of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// This project, everything since the last cut one program.
    Ours,
    /// This project, every operation a program.
    Never,
    /// PyTorch, eager.
    PyTorch,
    /// PyTorch, compiled by Inductor.
    Inductor,
    /// JAX, jitted.
    Jax,
    /// candle.
    Candle,
    /// burn on its Flex backend.
    Burn,
}

/// Whom to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// PyTorch, eager
    Pytorch,
    /// PyTorch, compiled by Inductor; needs a C++ compiler
    Inductor,
    /// JAX
    Jax,
    /// candle, built from source: about 3 minutes of processor time the first time
    Candle,
    /// burn, built from source: about 6 minutes of processor time the first time
    Burn,
}

impl Program {
    /// In the order of the report.
    pub const ALL: [Self; 7] =
        [Self::Ours, Self::Never, Self::PyTorch, Self::Inductor, Self::Jax, Self::Candle, Self::Burn];

    /// As in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Never => "DeferNever",
            Self::PyTorch => "PyTorch",
            Self::Inductor => "Inductor",
            Self::Jax => "JAX",
            Self::Candle => "candle",
            Self::Burn => "burn",
        }
    }

    /// Which peer it is; our own modes are none.
    fn peer(self) -> Option<Peer> {
        match self {
            Self::Ours | Self::Never => None,
            Self::PyTorch => Some(Peer::Pytorch),
            Self::Inductor => Some(Peer::Inductor),
            Self::Jax => Some(Peer::Jax),
            Self::Candle => Some(Peer::Candle),
            Self::Burn => Some(Peer::Burn),
        }
    }
}

/// Where the programs are.
pub struct Programs {
    workspace: Workspace,
    peers: Vec<Peer>,
    /// The one with PyTorch.
    python: PathBuf,
    /// The one with JAX.
    jax: PathBuf,
}

impl Programs {
    /// Builds ours and finds or builds the peers that are asked for.
    pub fn prepare(peers: Vec<Peer>, python: Option<PathBuf>, jax: Option<PathBuf>) -> Result<Self> {
        let workspace = Workspace::load()?;
        let has = |peer: &Peer| peers.contains(peer);
        let any_python = [Peer::Pytorch, Peer::Inductor].iter().any(has);
        let python = if any_python { peers::with_torch(python)? } else { PathBuf::new() };
        let jax = if has(&Peer::Jax) { peers::with_jax(jax)? } else { PathBuf::new() };
        let ours = ["build", "--quiet", "--release", "-p", "benches", "--bin", "host", "--bin", "kernels"];
        process::run(cargo().args(ours))?;
        for (peer, name) in [(Peer::Candle, "candle"), (Peer::Burn, "burn")] {
            if has(&peer) {
                let mut command = cargo();
                command.args(["build", "--release", "--locked", "--features", name, "--bin", name, "--manifest-path"]);
                command.arg(workspace.root.join("benches/peers/rust/Cargo.toml"));
                process::run(command.arg("--target-dir").arg(workspace.target.join("peers/rust")))?;
            }
        }
        Ok(Self { workspace, peers, python, jax })
    }

    /// Whether the program takes part.
    pub fn has(&self, program: Program) -> bool {
        program.peer().is_none_or(|peer| self.peers.contains(&peer))
    }

    /// A program that cargo built into this folder.
    fn built(&self, name: &str) -> Command {
        Command::new(self.workspace.target.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
    }

    /// The command that says how long a case of ours is in which kernels, for so many seconds.
    pub fn kernels(&self, case: &str, threads: usize, seconds: f64) -> Command {
        let mut command = self.built("release/kernels");
        command.args(["--seconds", &seconds.to_string()]).args(case.split(' '));
        set_threads(&mut command, threads);
        command
    }

    /// The command that starts it.
    pub fn command(&self, program: Program, threads: usize) -> Command {
        let python = |python: &PathBuf, script: &str| {
            let mut command = Command::new(python);
            command
                .arg(self.workspace.root.join("benches/peers").join(script))
                .args(["--threads", &threads.to_string()]);
            command
        };
        let mut command = match program {
            Program::Ours => self.built("release/host"),
            Program::Never => {
                let mut command = self.built("release/host");
                command.args(["--mode", "defer-never"]);
                command
            }
            Program::PyTorch => python(&self.python, "host_torch.py"),
            Program::Inductor => {
                let mut command = python(&self.python, "host_torch.py");
                // Compiled code stays for the next time.
                command.arg("--compile").env("TORCHINDUCTOR_CACHE_DIR", self.workspace.target.join("peers/inductor"));
                command
            }
            Program::Jax => python(&self.jax, "host_jax.py"),
            Program::Candle => self.built("peers/rust/release/candle"),
            Program::Burn => self.built("peers/rust/release/burn"),
        };
        set_threads(&mut command, threads);
        command
    }
}

/// Tells every thread pool how large it is.
fn set_threads(command: &mut Command, threads: usize) {
    for variable in ["TPU_HOST_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
        command.env(variable, threads.to_string());
    }
}
