//! Text from a trained model.

use crate::gpt::{Gpt, VOCABULARY};
use tpu_autograd::nn::{Module, evaluating};
use tpu_autograd::no_grad;
use tpu_core::random::{random_group, uniform_f32};
use tpu_core::{DType, Result, Tensor};

/// `count` bytes after `prompt`, drawn one by one from the model's predictions. A temperature below 1 prefers what is
/// likely.
pub fn sample(model: &Gpt, prompt: &[u8], count: usize, temperature: f32, seed: u64) -> Result<Vec<u8>> {
    let mut text = if prompt.is_empty() { vec![b'\n'] } else { prompt.to_vec() };
    let start = text.len();
    for at in 0..count {
        let logits = evaluating(|| no_grad(|| next(model, &text)))?;
        text.push(drawn(&logits, temperature, seed, at));
    }
    Ok(text.split_off(start))
}

/// The logits of the byte after `text`.
fn next(model: &Gpt, text: &[u8]) -> Result<Vec<f32>> {
    let context = model.config.context;
    let seen = &text[text.len().saturating_sub(context)..];
    // Always as many bytes, so that all steps are one program. Those behind the text are not seen from its end.
    let mut padded = seen.to_vec();
    padded.resize(context, 0);
    let logits = model.forward(&Tensor::from_vec(padded, [1, context])?)?;
    // The place is a number, an input of the program.
    logits
        .dynamic_slice(&[0.into(), (seen.len() - 1).into(), 0.into()], &[1, 1, VOCABULARY])?
        .to_dtype(DType::F32)?
        .to_vec()
}

/// Byte `at` of a text, drawn by a seed.
pub fn drawn(logits: &[f32], temperature: f32, seed: u64, at: usize) -> u8 {
    draw(logits, temperature, uniform_f32(random_group(seed, at as u64, 0)[0]))
}

/// The byte whose part of the softmax `u` of [0, 1) falls into.
fn draw(logits: &[f32], temperature: f32, u: f32) -> u8 {
    let top = logits.iter().copied().fold(f32::MIN, f32::max);
    let weights: Vec<f32> = logits.iter().map(|logit| ((logit - top) / temperature.max(1e-6)).exp()).collect();
    let mut left = u * weights.iter().sum::<f32>();
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    // Rounding may leave a little; then it is the last byte that has any weight.
    found.or_else(|| weights.iter().rposition(|&weight| weight > 0.0)).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_drawn_as_often_as_its_probability_says() {
        let logits = [0.0, 3f32.ln(), f32::NEG_INFINITY, 0.0];
        let counts = (0..1000).fold([0; 4], |mut counts, at| {
            // The middle of each thousandth: no rounding reaches the edge of a byte's part from there.
            counts[draw(&logits, 1.0, (at as f32 + 0.5) / 1000.0) as usize] += 1;
            counts
        });
        assert_eq!(counts, [200, 600, 0, 200]);
        // Without temperature it is the likeliest.
        assert_eq!(draw(&logits, 0.0, 0.999), 1);
    }
}
