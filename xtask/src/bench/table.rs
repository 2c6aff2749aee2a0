//! What is measured and what is asked for: the one place for cases, tolerances and bars.
//!
//! A case is a kind and `key=value` words. Every program has a function of its own for each kind: ours in
//! `benches/src/cases`, PyTorch's and JAX's in `benches/peers/*.py`, candle's and burn's in `benches/peers/rust`.

use super::program::Program::{self, Burn, Candle, Inductor, Jax, Never, Ours, PyTorch};

/// Cases that the same programs run, in processes of this group's own.
pub struct Group {
    /// As in the report.
    pub name: &'static str,
    /// Who runs them besides us.
    pub peers: &'static [Program],
    /// By how much results may differ, in root mean squares of the result.
    pub tolerance: f64,
    /// Of steps of training, the same in small. It runs first, so that code is loaded and threads run before memory is counted.
    pub tiny: Option<&'static str>,
    /// Kind and words of each case.
    pub cases: &'static [&'static str],
}

/// Sums of up to 4,096 products that round to 2⁻²⁴ of their size: √4096 · 2⁻²⁴ = 4e-6 of the result, seven times that at the worst
/// of thousands of elements.
const F32: f64 = 3e-5;

impl Group {
    /// How many runs' results are compared. Steps of training go through all batches and begin again, so that the last loss is
    /// of weights that several updates made.
    pub fn compared(&self) -> usize {
        if self.tiny.is_some() { 5 } else { 2 }
    }
}

/// A loss is a mean that rounds to 2⁻²⁴ = 6e-8 of its size; PyTorch's in float32 are within 1.4e-7 of its own in double precision
/// over the steps that are compared. Fifteen times that; without its last update a loss is 3e-5 off or more.
const STEP: f64 = 2e-6;

/// Training amplifies what rounding does: AdamW's first steps have the sign of the gradient, however small it is, and 20 norms pass
/// on what that changes. PyTorch's losses of the ResNet in float32 differ by 9e-3 from its own in double precision after four
/// updates; three times that. The losses change by 1e-2 to 5e-1 from step to step.
const RESNET: f64 = 3e-2;

/// What is measured.
pub const GROUPS: &[Group] = &[
    Group {
        name: "matmul f32",
        peers: &[PyTorch, Jax, Candle, Burn],
        tolerance: F32,
        tiny: None,
        cases: &[
            "matmul dtype=f32 m=256 k=256 n=256",
            "matmul dtype=f32 m=512 k=512 n=512",
            "matmul dtype=f32 m=1024 k=1024 n=1024",
            "matmul dtype=f32 m=2048 k=2048 n=2048",
            "matmul dtype=f32 m=4096 k=4096 n=4096",
            "matmul dtype=f32 batch=64 m=128 k=128 n=128",
            "matmul dtype=f32 batch=32 m=256 k=64 n=256",
            "matmul dtype=f32 m=8 k=2048 n=2048",
            "matmul dtype=f32 m=4096 k=1024 n=16",
            "matmul dtype=f32 m=64 k=16384 n=64",
            "matmul dtype=f32 m=1024 k=1024 n=1024 layout=nt",
            "matmul dtype=f32 m=1024 k=1024 n=1024 layout=tn",
            "matmul dtype=f32 m=1024 k=1024 n=1024 layout=tt",
        ],
    },
    Group {
        name: "matmul bf16",
        peers: &[PyTorch],
        // Two results that round to different neighbours are 2⁻⁷ of an element apart, which may be five root mean squares.
        tolerance: 4e-2,
        tiny: None,
        cases: &[
            "matmul dtype=bf16 m=256 k=256 n=256",
            "matmul dtype=bf16 m=1024 k=1024 n=1024",
            "matmul dtype=bf16 m=2048 k=2048 n=2048",
            "matmul dtype=bf16 batch=64 m=128 k=128 n=128",
            "matmul dtype=bf16 m=8 k=2048 n=2048",
        ],
    },
    Group {
        name: "matmul f16",
        peers: &[PyTorch],
        // The same with 2⁻¹⁰.
        tolerance: 5e-3,
        tiny: None,
        cases: &[
            "matmul dtype=f16 m=256 k=256 n=256",
            "matmul dtype=f16 m=1024 k=1024 n=1024",
            "matmul dtype=f16 m=2048 k=2048 n=2048",
            "matmul dtype=f16 batch=64 m=128 k=128 n=128",
            "matmul dtype=f16 m=8 k=2048 n=2048",
        ],
    },
    Group {
        name: "chain",
        peers: &[PyTorch, Inductor, Jax],
        // A few roundings of 2⁻²⁴, and approximations of tanh and exp good to a few of them; elements up to 5 root mean squares.
        tolerance: 1e-5,
        tiny: None,
        cases: &[
            "chain op=gelu rows=64 columns=1024",
            "chain op=gelu rows=1024 columns=1024",
            "chain op=gelu rows=4096 columns=4096",
            "chain op=gelu rows=16384 columns=4096",
            "chain op=layer_norm rows=64 columns=1024",
            "chain op=layer_norm rows=1024 columns=1024",
            "chain op=layer_norm rows=4096 columns=4096",
            "chain op=layer_norm rows=16384 columns=4096",
            "chain op=softmax rows=64 columns=1024",
            "chain op=softmax rows=1024 columns=1024",
            "chain op=softmax rows=4096 columns=4096",
            "chain op=softmax rows=16384 columns=4096",
            "chain op=swiglu rows=64 columns=1024",
            "chain op=swiglu rows=4096 columns=4096",
        ],
    },
    Group {
        name: "attention",
        peers: &[PyTorch, Jax],
        tolerance: F32,
        tiny: None,
        cases: &[
            "attention batch=8 heads=4 time=256 width=64",
            "attention batch=4 heads=4 time=512 width=64",
            "attention batch=2 heads=4 time=1024 width=64",
            "attention batch=2 heads=4 time=1024 width=64 causal=0",
            "attention batch=1 heads=4 time=2048 width=64",
            "attention batch=1 heads=2 time=4096 width=64",
        ],
    },
    Group {
        name: "convolution",
        peers: &[PyTorch],
        // The gradient of a kernel sums up to 50,000 products: √50000 · 2⁻²⁴ = 1.3e-5, seven times that at the worst.
        tolerance: 1e-4,
        tiny: None,
        cases: &[
            "convolution pass=forward dims=2 batch=16 in=64 out=64 size=56 kernel=3",
            "convolution pass=gradients dims=2 batch=16 in=64 out=64 size=56 kernel=3",
            "convolution pass=forward dims=2 batch=16 in=256 out=64 size=28 kernel=1",
            "convolution pass=gradients dims=2 batch=16 in=256 out=64 size=28 kernel=1",
            "convolution pass=forward dims=2 batch=16 in=128 out=128 size=28 kernel=3 groups=128",
            "convolution pass=gradients dims=2 batch=16 in=128 out=128 size=28 kernel=3 groups=128",
            "convolution pass=forward dims=2 batch=16 in=64 out=128 size=56 kernel=3 stride=2",
            "convolution pass=gradients dims=2 batch=16 in=64 out=128 size=56 kernel=3 stride=2",
            "convolution pass=forward dims=1 batch=16 in=64 out=64 size=1024 kernel=3",
            "convolution pass=gradients dims=1 batch=16 in=64 out=64 size=1024 kernel=3",
            "convolution pass=forward dims=3 batch=2 in=16 out=32 size=24 kernel=3",
            "convolution pass=gradients dims=3 batch=2 in=16 out=32 size=24 kernel=3",
        ],
    },
    Group {
        name: "pooling",
        peers: &[PyTorch],
        // Means of nine, and sums of as many gradients.
        tolerance: F32,
        tiny: None,
        cases: &[
            "pooling pass=forward op=max batch=16 channels=64 size=56 kernel=3 stride=2 padding=1",
            "pooling pass=gradients op=max batch=16 channels=64 size=56 kernel=3 stride=2 padding=1",
            "pooling pass=forward op=max batch=16 channels=64 size=56 kernel=2 stride=2",
            "pooling pass=gradients op=max batch=16 channels=64 size=56 kernel=2 stride=2",
            "pooling pass=forward op=mean batch=16 channels=64 size=56 kernel=2 stride=2",
            "pooling pass=gradients op=mean batch=16 channels=64 size=56 kernel=2 stride=2",
        ],
    },
    Group {
        name: "indexing",
        peers: &[PyTorch],
        // Sums of a few numbers at a place.
        tolerance: F32,
        tiny: None,
        cases: &[
            "indexing op=gather rows=1024 columns=1024",
            "indexing op=scatter_add rows=1024 columns=1024",
            "indexing op=index_select rows=4096 columns=256",
            "indexing op=index_select rows=1024 columns=1024 axis=1",
            "indexing op=index_add rows=4096 columns=256",
        ],
    },
    Group {
        name: "order",
        peers: &[PyTorch],
        // Sums of 1,024 numbers, in double precision on both sides.
        tolerance: 1e-5,
        tiny: None,
        cases: &[
            "order op=sort rows=1024 columns=1024",
            "order op=topk rows=1024 columns=1024",
            "order op=cumsum rows=1024 columns=1024",
            "order op=cumsum rows=1024 columns=1024 axis=0",
        ],
    },
    Group {
        name: "step MLP",
        peers: STEP_PEERS,
        tolerance: STEP,
        tiny: Some("mlp inputs=16 width=16 outputs=4 batch=4"),
        cases: &["mlp inputs=784 width=1024 outputs=10 batch=256"],
    },
    Group {
        name: "step GPT 3M",
        peers: STEP_PEERS,
        tolerance: STEP,
        tiny: Some(TINY_GPT),
        cases: &["gpt layers=4 width=256 heads=4 context=256 batch=8"],
    },
    Group {
        name: "step GPT 30M",
        peers: STEP_PEERS,
        tolerance: STEP,
        tiny: Some(TINY_GPT),
        cases: &["gpt layers=9 width=512 heads=8 context=256 batch=2"],
    },
    Group {
        name: "step ResNet-18",
        peers: STEP_PEERS,
        tolerance: RESNET,
        tiny: Some("resnet channels=3 size=16 width=4 blocks=1 batch=2"),
        cases: &["resnet channels=3 size=32 width=64 blocks=2 batch=32"],
    },
    Group {
        name: "step LSTM",
        peers: STEP_PEERS,
        tolerance: STEP,
        tiny: Some("lstm layers=1 width=16 hidden=16 context=16 batch=2"),
        cases: &["lstm layers=1 width=128 hidden=512 context=128 batch=32"],
    },
];

const TINY_GPT: &str = "gpt layers=1 width=64 heads=1 context=16 batch=2";
const STEP_PEERS: &[Program] = &[Never, PyTorch, Inductor, Jax, Candle, Burn];

/// What a bar is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// The peer's time over ours: larger is better.
    Speed,
    /// Our peak of memory over the peer's: smaller is better.
    Memory,
    /// Our time in kernels that are no products over that of the other mode: smaller is better.
    Other,
}

impl Measure {
    /// Whether smaller is better.
    pub fn is_share(self) -> bool {
        matches!(self, Self::Memory | Self::Other)
    }
}

/// What is asked for.
pub struct Bar {
    /// Groups whose names start with this.
    pub groups: &'static str,
    /// What is compared.
    pub measure: Measure,
    /// Whose figure it is: ours, in one mode or the other.
    pub subject: Program,
    /// Whom it is compared with.
    pub peer: Program,
    /// What the geometric mean of the ratios must reach.
    pub mean: f64,
    /// What every ratio must reach, if that is asked for.
    pub each: Option<f64>,
}

const fn speed(groups: &'static str, peer: Program, mean: f64) -> Bar {
    Bar { groups, measure: Measure::Speed, subject: Ours, peer, mean, each: None }
}

const fn step(peer: Program, each: f64) -> Bar {
    Bar { groups: "step", measure: Measure::Speed, subject: Ours, peer, mean: each, each: Some(each) }
}

/// What is asked for, in the order of the report.
pub const BARS: &[Bar] = &[
    Bar { each: Some(0.8), ..speed("matmul f32", PyTorch, 0.9) },
    speed("matmul f32", Jax, 1.05),
    speed("matmul f32", Candle, 1.05),
    speed("matmul f32", Burn, 1.05),
    speed("matmul bf16", PyTorch, 1.3),
    speed("matmul f16", PyTorch, 0.6),
    speed("chain", Inductor, 2.0),
    speed("chain", PyTorch, 5.0),
    speed("chain", Jax, 1.5),
    speed("attention", PyTorch, 1.0),
    speed("attention", Jax, 1.5),
    speed("convolution", PyTorch, 0.8),
    step(PyTorch, 1.2),
    step(Inductor, 1.05),
    step(Jax, 1.2),
    step(Candle, 3.0),
    step(Burn, 3.0),
    Bar { measure: Measure::Memory, ..step(PyTorch, 0.7) },
    Bar { subject: Never, ..step(PyTorch, 0.9) },
    Bar { measure: Measure::Other, ..step(Never, 0.5) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_about_programs_that_run() {
        for bar in BARS {
            let mut groups = GROUPS.iter().filter(|group| group.name.starts_with(bar.groups)).peekable();
            assert!(groups.peek().is_some(), "{}", bar.groups);
            for group in groups {
                assert!(group.peers.contains(&bar.peer), "{} against {:?}", group.name, bar.peer);
                assert!(bar.subject == Ours || group.peers.contains(&bar.subject), "{}", group.name);
                // Memory is that of a process: one case, and something small before it.
                assert!(bar.measure != Measure::Memory || (group.cases.len() == 1 && group.tiny.is_some()));
                // The time in kernels is measured of steps in both modes.
                assert!(bar.measure != Measure::Other || (group.tiny.is_some() && bar.peer == Never));
            }
        }
    }

    #[test]
    fn no_case_is_there_twice() {
        let mut cases: Vec<_> = GROUPS.iter().flat_map(|group| group.cases).collect();
        let count = cases.len();
        cases.sort_unstable();
        cases.dedup();
        assert_eq!(cases.len(), count);
    }
}
