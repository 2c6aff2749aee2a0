//! The cases: what is measured, by kind. `benches/peers` has the same kinds for the other libraries, and
//! `xtask/src/bench/table.rs` the cases of each kind that `cargo xtask bench host` runs.

mod attention;
mod chain;
mod convolution;
mod indexing;
mod matmul;
mod pooling;
mod training;

use crate::measure::{self, Parameters, Work, numbers};
use std::error::Error;
use tpu_core::{DType, Shape, Tensor};

/// One run of a case, as recorded: its results need not be there yet.
type Run = Box<dyn FnMut() -> tpu_core::Result<Vec<Tensor>>>;

/// Setting up fails with the message of whoever noticed: parameters or tensors.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Sets a case up: its operands are in memory when it returns.
type Kind = fn(&Parameters) -> Result<Run>;

const KINDS: &[(&str, Kind)] = &[
    ("attention", attention::attention),
    ("chain", chain::chain),
    ("convolution", convolution::convolution),
    ("gpt", training::gpt),
    ("indexing", indexing::indexing),
    ("lstm", training::lstm),
    ("matmul", matmul::matmul),
    ("mlp", training::mlp),
    ("order", indexing::order),
    ("pooling", pooling::pooling),
    ("resnet", training::resnet),
];

/// Sets up a case of a kind.
///
/// # Errors
/// On an unknown kind, on missing or wrong parameters, and when there is no memory.
pub fn set_up(kind: &str, parameters: &Parameters) -> measure::Result<Work> {
    let known = KINDS.iter().find(|(name, _)| *name == kind);
    let (_, set_up) = known.ok_or_else(|| format!("requires a known kind, got `{kind}`"))?;
    let mut run = set_up(parameters).map_err(|error| error.to_string())?;
    Ok(Box::new(move |read| finish(run(), read).map_err(|error| error.to_string())))
}

/// Waits for results, and reads them where that is asked for.
fn finish(results: tpu_core::Result<Vec<Tensor>>, read: bool) -> tpu_core::Result<Vec<Vec<f32>>> {
    let results = results?;
    results.iter().try_for_each(Tensor::wait)?;
    let read = results.iter().filter(|_| read);
    read.map(|result| result.to_dtype(DType::F32)?.to_vec::<f32>()).collect()
}

/// Numbers times `scale`, rounded to `dtype`, in memory.
fn tensor(shape: impl Into<Shape>, salt: u32, scale: f32, dtype: DType) -> Result<Tensor> {
    let shape = shape.into();
    let elements = shape.elements().ok_or_else(|| format!("requires fewer elements than those of {shape}"))?;
    let values = numbers(elements, salt).map(|number| number * scale).collect();
    let tensor = Tensor::from_vec(values, shape)?.to_dtype(dtype)?;
    tensor.wait()?;
    Ok(tensor)
}

/// The dtype that `dtype` names.
fn dtype(parameters: &Parameters) -> Result<DType> {
    let dtypes = [("f32", DType::F32), ("bf16", DType::BF16), ("f16", DType::F16)];
    Ok(parameters.choice("dtype", &dtypes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(case: &str) -> Run {
        let (kind, words) = case.split_once(' ').unwrap();
        let (_, set_up) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
        set_up(&Parameters::parse(words).unwrap()).unwrap()
    }

    /// Runs a case twice and gives the shapes of the second run's results.
    fn shapes(case: &str) -> Vec<Vec<usize>> {
        let mut run = find(case);
        run().unwrap();
        let results = run().unwrap();
        results.iter().try_for_each(Tensor::wait).unwrap();
        results.iter().map(|tensor| tensor.sizes().to_vec()).collect()
    }

    #[test]
    fn every_kind_runs() {
        assert_eq!(shapes("matmul dtype=f32 batch=2 m=3 k=4 n=5 layout=tn"), [[2, 3, 5]]);
        for then in ["bias", "gelu", "residual"] {
            assert_eq!(shapes(&format!("matmul dtype=f32 m=3 k=4 n=5 then={then}")), [[3, 5]]);
        }
        assert_eq!(shapes("matmul dtype=f16 m=3 k=4 n=5 layout=nt"), [[3, 5]]);
        for op in ["gelu", "layer_norm", "softmax", "swiglu"] {
            assert_eq!(shapes(&format!("chain op={op} rows=3 columns=8")), [[3, 8]], "{op}");
        }
        assert_eq!(shapes("attention batch=1 heads=2 time=4 width=8"), [[1, 2, 4, 8]; 4]);
        for pass in ["forward", "gradients"] {
            let case = format!("convolution pass={pass} dims=2 batch=1 in=4 out=6 size=5 kernel=3 stride=2 groups=2");
            let want =
                if pass == "forward" { vec![vec![1, 6, 3, 3]] } else { vec![vec![1, 4, 5, 5], vec![6, 2, 3, 3]] };
            assert_eq!(shapes(&case), want);
        }
        assert_eq!(shapes("convolution pass=forward dims=1 batch=1 in=2 out=2 size=5 kernel=3"), [[1, 2, 5]]);
        assert_eq!(shapes("convolution pass=forward dims=3 batch=1 in=2 out=2 size=4 kernel=3"), [[1, 2, 4, 4, 4]]);
        for op in ["max", "mean"] {
            let case =
                |pass| format!("pooling pass={pass} op={op} batch=1 channels=2 size=6 kernel=3 stride=2 padding=1");
            assert_eq!(shapes(&case("forward")), [[1, 2, 3, 3]]);
            assert_eq!(shapes(&case("gradients")), [[1, 2, 6, 6]]);
        }
        for op in ["gather", "scatter_add", "index_select", "index_add"] {
            assert_eq!(shapes(&format!("indexing op={op} rows=3 columns=5")), [[3, 5]]);
        }
        for op in ["sort", "cumsum"] {
            assert_eq!(shapes(&format!("order op={op} rows=3 columns=20")), [[3, 20]]);
        }
        assert_eq!(shapes("order op=topk rows=3 columns=20"), [[3, 16]]);
        assert_eq!(shapes("mlp inputs=4 width=8 outputs=3 batch=2"), [[0usize; 0]]);
        assert_eq!(shapes("gpt layers=1 width=64 heads=1 context=16 batch=1"), [[0usize; 0]]);
        assert_eq!(shapes("lstm layers=2 width=4 hidden=8 context=5 batch=2"), [[0usize; 0]]);
        assert_eq!(shapes("resnet width=2 blocks=1 channels=3 size=16 batch=2"), [[0usize; 0]]);
    }

    #[test]
    fn training_lowers_the_loss() {
        let mut run = find("mlp inputs=8 width=16 outputs=4 batch=8");
        let losses = (0..29).map(|_| run().unwrap()[0].item::<f32>().unwrap()).collect::<Vec<_>>();
        // Every fourth step is on the same batch.
        assert!(losses[28] < losses[0], "{losses:?}");
    }

    #[test]
    fn results_are_read_where_that_is_asked_for() {
        let parameters = Parameters::parse("dtype=bf16 m=1 k=1 n=1").unwrap();
        let mut work = set_up("matmul", &parameters).unwrap();
        assert!(work(false).unwrap().is_empty());
        assert_eq!(work(true).unwrap()[0].len(), 1);
    }

    #[test]
    fn what_is_wrong_with_a_case_is_named() {
        let parameters = Parameters::parse("m=1").unwrap();
        assert!(set_up("sort", &parameters).err().unwrap().contains("got `sort`"));
        assert!(set_up("matmul", &parameters).err().unwrap().contains("requires k=…"));
    }
}
