//! What the examples are made of: a GPT, the text it learns, the loop that trains it. Written to be copied from.

pub mod data;
pub mod gpt;
pub mod picture;
pub mod progress;
pub mod sample;
pub mod train;
