//! Every rule against central differences, first and second order, over shapes and attributes.

mod complex;
mod composites;
mod contractions;
mod differences;
mod elementwise;
mod indexing;
mod layout;
mod linalg;
mod reductions;
