//! Labelled images: MNIST, and drawings that need no download.

use crate::data::workspace;
use crate::train::Learner;
use std::path::Path;
use tpu_autograd::data::{Batches, Dataset, Loader, Position};
use tpu_autograd::file::Checkpoint;
use tpu_autograd::nn::{Module, evaluating};
use tpu_autograd::{amp, no_grad};
use tpu_core::random::random_group;
use tpu_core::{DType, Error, ErrorKind, Result, Tensor};
use tpu_ops::cross_entropy;

/// Number of classes of all images here.
pub const CLASSES: usize = 10;

/// Grey images of one size, and the class of each.
#[derive(Clone, Debug)]
pub struct Images {
    /// Pixels of height and width.
    pub side: usize,
    /// Row by row, one image after the other.
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

/// Images and classes to train on, and those to test with.
#[derive(Clone, Debug)]
pub struct Split {
    /// To train on.
    pub train: Images,
    /// The model never sees them in training.
    pub test: Images,
}

/// Images u8 `[batch, 1, side, side]` and their classes u8 `[batch]`.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// Brightness from 0 to 255.
    pub images: Tensor,
    /// Below [`CLASSES`].
    pub labels: Tensor,
}

impl Images {
    /// Errors unless there is a class for every image.
    pub fn new(side: usize, pixels: Vec<u8>, labels: Vec<u8>) -> Result<Self> {
        if side == 0
            || pixels.len() != labels.len() * side * side
            || labels.iter().any(|&label| label as usize >= CLASSES)
        {
            let message = format!("requires images of {side} by {side} pixels and a class below {CLASSES} for each");
            return Err(Error::new(ErrorKind::Format, "images", message));
        }
        Ok(Self { side, pixels, labels })
    }

    /// With an edge of black pixels around each.
    pub fn padded(&self, edge: usize) -> Self {
        let side = self.side + 2 * edge;
        let mut pixels = vec![0; self.labels.len() * side * side];
        for (at, row) in self.pixels.chunks(self.side).enumerate() {
            let (image, row_at) = (at / self.side, at % self.side);
            let start = (image * side + row_at + edge) * side + edge;
            pixels[start..start + self.side].copy_from_slice(row);
        }
        Self { side, pixels, labels: self.labels.clone() }
    }

    /// All images in batches of at most so many.
    pub fn batches(&self, batch: usize) -> Result<Vec<Labelled>> {
        let indices: Vec<usize> = (0..self.len()).collect();
        indices
            .chunks(batch.max(1))
            .map(|part| collate(part.iter().map(|&at| self.get(at)).collect::<Result<_>>()?))
            .collect()
    }
}

impl Dataset for Images {
    /// Side, pixels and class.
    type Item = (usize, Vec<u8>, u8);

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn get(&self, index: usize) -> Result<Self::Item> {
        let each = self.side * self.side;
        Ok((self.side, self.pixels[index * each..(index + 1) * each].to_vec(), self.labels[index]))
    }
}

/// A batch of images of one size.
pub fn collate(items: Vec<(usize, Vec<u8>, u8)>) -> Result<Labelled> {
    let (count, side) = (items.len(), items.first().map_or(0, |item| item.0));
    let (mut pixels, mut labels) = (Vec::with_capacity(count * side * side), Vec::with_capacity(count));
    for (_, image, label) in items {
        pixels.extend(image);
        labels.push(label);
    }
    Ok(Labelled { images: Tensor::from_vec(pixels, [count, 1, side, side])?, labels: Tensor::from_vec(labels, count)? })
}

/// The batches of all epochs from a step on: what a loader gives of images, as a sequence without end.
pub struct Endless<'a> {
    loader: &'a Loader<Images, Collate>,
    position: Position,
    batches: Batches<Labelled>,
}

/// How a batch is made.
pub type Collate = fn(Vec<(usize, Vec<u8>, u8)>) -> Result<Labelled>;

impl<'a> Endless<'a> {
    /// From the batch of this step on. Errors if the loader has no batches.
    pub fn new(loader: &'a Loader<Images, Collate>, step: u64) -> Result<Self> {
        let all = loader.batches() as u64;
        if all == 0 {
            let message = format!("requires at least one batch, got {} images", loader.dataset().len());
            return Err(Error::new(ErrorKind::Value, "images", message));
        }
        let position = Position { epoch: step / all, batch: (step % all) as usize };
        Ok(Self { loader, position, batches: loader.epoch(position)? })
    }

    /// The next batch.
    pub fn next_batch(&mut self) -> Result<Labelled> {
        if self.position.batch == 0 {
            self.batches = self.loader.epoch(self.position)?;
        }
        self.position = self.loader.after(self.position);
        let missing = || Error::new(ErrorKind::Internal, "images", "requires as many batches as the loader said");
        self.batches.next().unwrap_or_else(|| Err(missing()))
    }
}

/// The handwritten digits. Errors, naming the command that fetches them, if they are not there.
pub fn mnist() -> Result<Split> {
    mnist_in(&workspace().join("target/data/mnist.safetensors"))
}

fn mnist_in(path: &Path) -> Result<Split> {
    if !path.exists() {
        let message = format!("requires {}: run `cargo xtask data mnist` first", path.display());
        return Err(Error::new(ErrorKind::Io, "images", message));
    }
    let file = Checkpoint::load(path)?;
    let part = |name: &str| {
        let tensor = |kind: &str| {
            let missing =
                || Error::new(ErrorKind::Format, "images", format!("requires {name}_{kind} in {}", path.display()));
            file.tensors.get(&format!("{name}_{kind}")).ok_or_else(missing)
        };
        let images = tensor("images")?;
        let side = images.sizes().last().copied().unwrap_or(0);
        Images::new(side, images.to_vec()?, tensor("labels")?.to_vec()?)
    };
    Ok(Split { train: part("train")?, test: part("test")? })
}

/// Images that a network can tell apart and a line through pixels hardly: class k is a wave of its own direction and length, at a
/// random place, with noise. So many to train on, a tenth of that to test with.
pub fn synthetic(side: usize, count: usize, seed: u64) -> Result<Split> {
    let draw = |count: usize, seed: u64| {
        let (mut pixels, mut labels) = (Vec::with_capacity(count * side * side), Vec::with_capacity(count));
        for at in 0..count {
            let word = |group: u64| random_group(seed, (at as u64) << 32, group);
            let [class, place, ..] = word(0);
            let class = class as usize % CLASSES;
            let angle = (class % 5) as f32 * std::f32::consts::PI / 5.0;
            let length = if class < 5 { 4.0 } else { 7.0 };
            let shift = place as f32 / u32::MAX as f32 * std::f32::consts::TAU;
            for (number, noise) in (0..side * side).map(|number| (number, word(1 + number as u64 / 4)[number % 4])) {
                let along = (number / side) as f32 * angle.sin() + (number % side) as f32 * angle.cos();
                let wave = (along / length * std::f32::consts::TAU + shift).sin();
                let noise = noise as f32 / u32::MAX as f32 - 0.5;
                pixels.push((128.0 + 80.0 * wave + 90.0 * noise).clamp(0.0, 255.0) as u8);
            }
            labels.push(class as u8);
        }
        Images::new(side, pixels, labels)
    };
    Ok(Split { train: draw(count, seed)?, test: draw(count / 10, seed + 1)? })
}

/// Brightness around 0 with a deviation near 1: MNIST's mean and deviation.
pub fn normalized(images: &Tensor) -> Result<Tensor> {
    images.to_dtype(DType::F32)?.mul(1.0 / 255.0)?.sub(0.1307)?.div(0.3081)
}

/// Mean cross entropy of a model's logits of images, in nats. The model computes in `dtype`, the loss is float32.
pub fn class_loss(model: &impl Module, batch: &Labelled, dtype: DType) -> Result<Tensor> {
    let logits = amp::autocast(dtype, || model.forward(&normalized(&batch.images)?))?.to_dtype(DType::F32)?;
    cross_entropy(&logits, &batch.labels, Default::default())
}

/// The part of images whose class a model says.
pub fn accuracy(model: &impl Learner<Batch = Labelled>, batches: &[Labelled]) -> Result<f64> {
    let (mut right, mut all) = (0, 0);
    for batch in batches {
        let logits = evaluating(|| no_grad(|| model.forward(&normalized(&batch.images)?)))?;
        let hits = logits.argmax(-1, false)?.eq(&batch.labels.to_dtype(DType::I64)?)?;
        right += hits.to_dtype(DType::I64)?.sum_all()?.item::<i64>()?;
        all += batch.labels.elements();
    }
    Ok(right as f64 / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_digits_name_the_command_that_fetches_them() {
        let error = mnist_in(Path::new("nowhere/mnist.safetensors")).unwrap_err();
        assert!(error.to_string().contains("cargo xtask data mnist"), "{error}");
    }

    #[test]
    fn an_edge_goes_around_each_image() {
        let images = Images::new(2, vec![1, 2, 3, 4, 5, 6, 7, 8], vec![0, 9]).unwrap().padded(1);
        assert_eq!(images.side, 4);
        assert_eq!(images.pixels[..16], [0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0]);
        assert_eq!(images.pixels[21..23], [5, 6]);
        let batch = &images.batches(2).unwrap()[0];
        assert_eq!((batch.images.sizes(), batch.labels.to_vec::<u8>().unwrap()), (&[2, 1, 4, 4][..], vec![0, 9]));
    }

    #[test]
    fn images_without_a_class_are_refused() {
        assert!(Images::new(2, vec![0; 4], vec![10]).is_err());
        assert!(Images::new(2, vec![0; 5], vec![1]).is_err());
    }

    #[test]
    fn drawings_have_all_classes_and_depend_on_the_seed_alone() {
        let (a, b) = (synthetic(8, 200, 1).unwrap(), synthetic(8, 200, 1).unwrap());
        assert_eq!((&a.train.pixels, a.test.len()), (&b.train.pixels, 20));
        assert!((0..CLASSES as u8).all(|class| a.train.labels.contains(&class)));
        assert_ne!(a.train.pixels, synthetic(8, 200, 2).unwrap().train.pixels);
    }
}
