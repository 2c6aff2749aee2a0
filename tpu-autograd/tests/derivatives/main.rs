//! Every rule against central differences, first and second order, over shapes and attributes.

mod collectives;
mod complex;
mod composites;
mod contractions;
mod control;
mod differences;
mod elementwise;
mod indexing;
mod layout;
mod linalg;
mod networks;
mod reductions;
mod replicas;
