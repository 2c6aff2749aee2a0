//! Batch and instance norms in training and evaluation are PyTorch's, buffers too, and are saved with the model.

#[path = "pytorch/norms.rs"]
mod table;

use tpu_autograd::file::Checkpoint;
use tpu_autograd::nn::{BatchNorm1d, BatchNorm2d, InstanceNorm1d, Module, Running, Sequential, evaluating};
use tpu_autograd::optim::{Optimizer, Sgd, SgdOptions};
use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Result, Tensor};

fn module(name: &str) -> Result<Box<dyn Module>> {
    Ok(match name {
        "batch" => Box::new(BatchNorm2d::new(2, DType::F64)?),
        "batch mean" => Box::new(BatchNorm1d { eps: 0.125, momentum: None, ..BatchNorm1d::new(2, DType::F64)? }),
        _ => {
            let running = Some(Running::new(2, DType::F64)?);
            Box::new(InstanceNorm1d { running, momentum: 0.25, ..InstanceNorm1d::affine(2, DType::F64)? })
        }
    })
}

#[test]
fn results_and_running_statistics_are_pytorchs() -> Result<()> {
    for &(name, shape, rows) in table::NORMS {
        let module = module(name)?;
        let batch = |at: usize| Tensor::from_vec(rows[at].to_vec(), shape);
        for (param, values) in module.parameters().iter().zip(&rows[4..]) {
            param.set(Tensor::from_slice(values)?)?;
        }
        let mut results = Vec::new();
        for at in 0..3 {
            results = vec![module.forward(&batch(at)?)?];
        }
        let evaluated = evaluating(|| module.forward(&batch(3)?))?;
        let mut found: Vec<Tensor> = Vec::new();
        for (_, buffer) in module.named_buffers() {
            found.push(buffer.value().to_dtype(DType::F64)?);
        }
        found.extend(results.into_iter().chain([evaluated]));
        for (at, (found, expected)) in found.iter().zip(&rows[6..]).enumerate() {
            for (found, expected) in found.to_vec::<f64>()?.iter().zip(*expected) {
                // Sums of a dozen numbers below 4 and a root: a few units in the last place.
                let close = (found - expected).abs() <= 1e-13 * expected.abs().max(1.0);
                assert!(close, "{name}, tensor {at}: {found}, PyTorch {expected}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_checkpoint_holds_buffers_and_an_optimizer_leaves_them_alone() -> Result<()> {
    let make = || Ok::<_, tpu_core::Error>(Sequential::new().push(BatchNorm1d::new(2, DType::F32)?));
    let (model, other) = (make()?, make()?);
    let mut optimizer = Sgd::new(model.named_parameters(), SgdOptions::default())?;
    assert_eq!(optimizer.params().len(), 2);
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 5.0], [2, 2])?;
    model.forward(&x)?.square()?.sum_all()?.backward()?;
    optimizer.step()?;
    let path = std::env::temp_dir().join(format!("norms-{}.safetensors", std::process::id()));
    let saved = Checkpoint::of(&model, Some(&optimizer))?;
    saved.save(&path)?;
    let names: Vec<&str> = saved.tensors.keys().map(String::as_str).collect();
    let of_model = ["0.bias", "0.num_batches_tracked", "0.running_mean", "0.running_var", "0.weight"];
    assert_eq!(names[..5], of_model);
    let loaded = Checkpoint::load(&path);
    std::fs::remove_file(&path).expect("the file was there");
    let mut loaded = loaded?;
    loaded.restore(&other, None)?;
    let shown = |params: Vec<(String, Param)>| -> Result<Vec<Vec<u8>>> {
        params.iter().map(|(_, param)| param.value().to_bytes()).collect()
    };
    assert_eq!(shown(model.named_state())?, shown(other.named_state())?);
    assert_eq!(other.named_buffers()[2].1.value().item::<i64>()?, 1);
    loaded.tensors.remove("0.running_var");
    assert!(loaded.restore(&other, None).unwrap_err().message().contains("0.running_var"));
    Ok(())
}
