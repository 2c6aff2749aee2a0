//! The attributes of operations that are more than a number or a list of axes.

use super::Type;
use super::op::{Precision, Reducer};
use crate::DType;
use smallvec::SmallVec;

/// A list of axes, or of one number per axis.
pub type Axes = SmallVec<[usize; 4]>;
/// Signed numbers per axis, for padding that may be negative.
pub type Signed = SmallVec<[i64; 4]>;

/// A window over all axes of an operand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Window sizes.
    pub sizes: Axes,
    /// Steps between windows.
    pub strides: Axes,
    /// Operand dilation: `d − 1` holes between elements.
    pub base_dilations: Axes,
    /// Window dilation: `d − 1` holes between taps.
    pub window_dilations: Axes,
    /// Padding before and after, may be negative.
    pub padding: SmallVec<[(i64, i64); 4]>,
}

/// Axes of a matrix product.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DotDims {
    /// Batch axes of lhs.
    pub lhs_batch: Axes,
    /// Batch axes of rhs, pairwise equal in size.
    pub rhs_batch: Axes,
    /// Contracted axes of lhs.
    pub lhs_contract: Axes,
    /// Contracted axes of rhs, pairwise equal in size.
    pub rhs_contract: Axes,
    /// How exactly.
    pub precision: Precision,
    /// Result dtype: that of the operands, or a wider one (i8 → i32, bf16 → f32 …). Accumulation is at least f32 for
    /// floats, i32 for integers up to 32 bits.
    pub result: DType,
}

/// Axes and steps of a convolution (cross-correlation, as in all frameworks).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConvDims {
    /// Input batch axis.
    pub input_batch: usize,
    /// Input feature axis.
    pub input_feature: usize,
    /// Input spatial axes.
    pub input_spatial: Axes,
    /// Kernel axis of input features (per group).
    pub kernel_input_feature: usize,
    /// Kernel axis of output features.
    pub kernel_output_feature: usize,
    /// Kernel spatial axes.
    pub kernel_spatial: Axes,
    /// Output batch axis.
    pub output_batch: usize,
    /// Output feature axis.
    pub output_feature: usize,
    /// Output spatial axes.
    pub output_spatial: Axes,
    /// Steps, per spatial axis.
    pub strides: Axes,
    /// Padding before and after, per spatial axis, may be negative.
    pub padding: SmallVec<[(i64, i64); 4]>,
    /// Input dilation, per spatial axis.
    pub input_dilation: Axes,
    /// Kernel dilation, per spatial axis.
    pub kernel_dilation: Axes,
    /// Whether the kernel is flipped, per spatial axis.
    pub reversal: SmallVec<[bool; 4]>,
    /// Groups of features.
    pub feature_groups: usize,
    /// Groups of the batch (for weight gradients of grouped convolutions).
    pub batch_groups: usize,
    /// How exactly.
    pub precision: Precision,
    /// Result dtype.
    pub result: DType,
}

/// StableHLO's gather dimension numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GatherDims {
    /// Result axes that hold the slice.
    pub offset_dims: Axes,
    /// Operand axes of slice size 1 dropped from the slice.
    pub collapsed_slice_dims: Axes,
    /// Operand axes that go along with `start_indices_batching_dims`.
    pub operand_batching_dims: Axes,
    /// Index axes that go along with `operand_batching_dims`.
    pub start_indices_batching_dims: Axes,
    /// For each component of an index vector the operand axis.
    pub start_index_map: Axes,
    /// Axis of `indices` that holds index vectors; its rank means none (scalars).
    pub index_vector_dim: usize,
    /// Slice sizes per operand axis.
    pub slice_sizes: Axes,
    /// Promise by the caller.
    pub indices_are_sorted: bool,
}

/// StableHLO's scatter dimension numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ScatterDims {
    /// Update axes that hold the window.
    pub update_window_dims: Axes,
    /// Operand axes missing from the window.
    pub inserted_window_dims: Axes,
    /// Operand axes that go along with `scatter_indices_batching_dims`.
    pub input_batching_dims: Axes,
    /// Index axes that go along with `input_batching_dims`.
    pub scatter_indices_batching_dims: Axes,
    /// For each component of an index vector the operand axis.
    pub scatter_dims_to_operand_dims: Axes,
    /// Axis of `indices` that holds index vectors; its rank means none.
    pub index_vector_dim: usize,
    /// Promise by the caller.
    pub indices_are_sorted: bool,
    /// Promise by the caller.
    pub unique_indices: bool,
    /// What combines old and new; `None` overwrites.
    pub combiner: Option<Reducer>,
}

/// Which devices work together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReplicaGroups {
    /// Replica numbers, one row a group, all of one length.
    pub groups: Vec<SmallVec<[u32; 8]>>,
    /// Channel number, 0 for none.
    pub channel: u64,
}

/// A call of a function the target knows by name.
#[derive(Clone, PartialEq, Debug)]
pub struct CustomCall {
    /// The function.
    pub target: String,
    /// Text handed to it.
    pub backend_config: String,
    /// Must be kept even if nothing reads the results.
    pub has_side_effect: bool,
    /// Result types.
    pub results: Vec<Type>,
}

/// The constants of a composite, by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Attributes(pub Vec<(String, Attribute)>);

/// One constant of a composite.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// A flag.
    Bool(bool),
    /// An integer, `i64` in text.
    Int(i64),
    /// A number, `f64` in text; compared by bits.
    Float(f64),
    /// Text.
    Text(String),
    /// Integers, an `array<i64: …>`.
    Ints(Vec<i64>),
}

impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Ints(a), Self::Ints(b)) => a == b,
            _ => false,
        }
    }
}

impl Attributes {
    /// The attribute of this name.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The integer attribute of this name.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(&Attribute::Int(v)) => Some(v),
            _ => None,
        }
    }

    /// The number attribute of this name.
    pub fn float(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Some(&Attribute::Float(v)) => Some(v),
            _ => None,
        }
    }

    /// The text of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Attribute::Text(v)) => Some(v),
            _ => None,
        }
    }

    /// The flag of this name; false when absent.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Attribute::Bool(true)))
    }
}
