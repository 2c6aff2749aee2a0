//! Attributes of operations as MLIR writes them.

use super::literal::decimal;
use crate::Shape;
use crate::ir::infer::MAX_RANK;
use crate::ir::{
    Attribute, Attributes, ConvDims, DotDims, GatherDims, Precision, ReplicaGroups, ScatterDims, Type, Window,
};
use std::fmt::{Display, Write};

/// `tensor<2x3xf32>`.
pub(super) fn tensor(ty: &Type) -> String {
    let mut text = "tensor<".to_string();
    for size in ty.shape.sizes() {
        // Writing into a string does not fail, here and below.
        let _ = write!(text, "{size}x");
    }
    text.push_str(ty.dtype.stablehlo());
    text.push('>');
    text
}

/// The type that a `tensor<…>` word stands for.
pub(super) fn parse_tensor(text: &str) -> Option<Type> {
    let inner = text.strip_prefix("tensor<")?.strip_suffix('>')?;
    let mut rest = inner;
    let mut sizes = Vec::new();
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let (size, after) = rest.split_once('x')?;
        sizes.push(size.parse::<i64>().ok()? as usize);
        rest = after;
    }
    if sizes.len() > MAX_RANK {
        return None;
    }
    Some(Type { dtype: crate::DType::from_stablehlo(rest)?, shape: Shape::from(sizes) })
}

fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// `array<i64: 1, 2>`.
pub(super) fn ints<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    array("i64", items)
}

/// `array<i1: true, false>`.
pub(super) fn bools(items: &[bool]) -> String {
    array("i1", items)
}

fn array<T: Display>(element: &str, items: impl IntoIterator<Item = T>) -> String {
    match listed(items) {
        empty if empty.is_empty() => format!("array<{element}>"),
        items => format!("array<{element}: {items}>"),
    }
}

/// `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`.
pub(super) fn table<T: Display>(
    rows: impl ExactSizeIterator<Item = impl IntoIterator<Item = T>>,
    columns: usize,
) -> String {
    let count = rows.len();
    let content = match count {
        0 => String::new(),
        _ => format!("[{}]", listed(rows.map(|row| format!("[{}]", listed(row))))),
    };
    format!("dense<{content}> : tensor<{count}x{columns}xi64>")
}

pub(super) fn pairs(items: &[(i64, i64)]) -> String {
    table(items.iter().map(|&(a, b)| [a, b]), 2)
}

/// Text in quotation marks; all but plain ASCII by its bytes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = "\"".to_string();
    for &byte in text.as_bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out.push('"');
    out
}

/// The text of a word in quotation marks.
pub(super) fn unquoted(word: &str) -> Option<String> {
    let inner = word.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: u8| (byte as char).to_digit(16);
        match byte {
            b'\\' => bytes.push((digit(rest.next()?)? << 4 | digit(rest.next()?)?) as u8),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// `{a = 1 : i64, b = true}`.
pub(super) fn dictionary(attributes: &Attributes) -> String {
    let entry = |(name, value): &(String, Attribute)| {
        let value = match value {
            Attribute::Bool(value) => value.to_string(),
            Attribute::Int(value) => format!("{value} : i64"),
            Attribute::Float(value) if value.is_finite() => format!("{} : f64", decimal(*value)),
            Attribute::Float(value) => format!("0x{:016X} : f64", value.to_bits()),
            Attribute::Text(value) => quoted(value),
            Attribute::Ints(values) => ints(values),
        };
        format!("{} = {value}", quoted(name))
    };
    format!("{{{}}}", listed(attributes.0.iter().map(entry)))
}

fn precision(precision: Precision) -> String {
    let one = format!("#stablehlo<precision {}>", precision.name());
    format!("precision_config = [{one}, {one}]")
}

pub(super) fn dot(dims: &DotDims) -> String {
    format!(
        "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{}], rhs_batching_dimensions = [{}], \
         lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}]>, {}",
        listed(&dims.lhs_batch),
        listed(&dims.rhs_batch),
        listed(&dims.lhs_contract),
        listed(&dims.rhs_contract),
        precision(dims.precision)
    )
}

pub(super) fn convolution(dims: &ConvDims) -> String {
    let input = layout((dims.input_batch, "b"), (dims.input_feature, "f"), &dims.input_spatial);
    let kernel = layout((dims.kernel_output_feature, "o"), (dims.kernel_input_feature, "i"), &dims.kernel_spatial);
    let output = layout((dims.output_batch, "b"), (dims.output_feature, "f"), &dims.output_spatial);
    format!(
        "batch_group_count = {} : i64, dimension_numbers = #stablehlo.conv<[{input}]x[{kernel}]->[{output}]>, \
         feature_group_count = {} : i64, lhs_dilation = {}, padding = {}, {}, rhs_dilation = {}, window_reversal = {}, \
         window_strides = {}",
        dims.batch_groups,
        dims.feature_groups,
        ints(&dims.input_dilation),
        pairs(&dims.padding),
        precision(dims.precision),
        ints(&dims.kernel_dilation),
        bools(&dims.reversal),
        ints(&dims.strides)
    )
}

/// What each axis is, in order: two letters, and the numbers of spatial axes.
fn layout(first: (usize, &str), second: (usize, &str), spatial: &[usize]) -> String {
    let what = |axis: usize| match spatial.iter().position(|&s| s == axis) {
        _ if axis == first.0 => first.1.to_string(),
        _ if axis == second.0 => second.1.to_string(),
        number => number.unwrap_or_default().to_string(),
    };
    listed((0..spatial.len() + 2).map(what))
}

pub(super) fn gather(dims: &GatherDims) -> String {
    format!(
        "dimension_numbers = #stablehlo.gather<offset_dims = [{}], collapsed_slice_dims = [{}], \
         operand_batching_dims = [{}], start_indices_batching_dims = [{}], start_index_map = [{}], \
         index_vector_dim = {}>, indices_are_sorted = {}, slice_sizes = {}",
        listed(&dims.offset_dims),
        listed(&dims.collapsed_slice_dims),
        listed(&dims.operand_batching_dims),
        listed(&dims.start_indices_batching_dims),
        listed(&dims.start_index_map),
        dims.index_vector_dim,
        dims.indices_are_sorted,
        ints(&dims.slice_sizes)
    )
}

pub(super) fn scatter(dims: &ScatterDims) -> String {
    format!(
        "indices_are_sorted = {}, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [{}], \
         inserted_window_dims = [{}], input_batching_dims = [{}], scatter_indices_batching_dims = [{}], \
         scatter_dims_to_operand_dims = [{}], index_vector_dim = {}>, unique_indices = {}",
        dims.indices_are_sorted,
        listed(&dims.update_window_dims),
        listed(&dims.inserted_window_dims),
        listed(&dims.input_batching_dims),
        listed(&dims.scatter_indices_batching_dims),
        listed(&dims.scatter_dims_to_operand_dims),
        dims.index_vector_dim,
        dims.unique_indices
    )
}

pub(super) fn window(window: &Window) -> String {
    format!(
        "base_dilations = {}, padding = {}, window_dilations = {}, window_dimensions = {}, window_strides = {}",
        ints(&window.base_dilations),
        pairs(&window.padding),
        ints(&window.window_dilations),
        ints(&window.sizes),
        ints(&window.strides)
    )
}

/// The groups, and the channel if there is one.
pub(super) fn groups(groups: &ReplicaGroups) -> String {
    let columns = groups.groups.first().map_or(0, |group| group.len());
    let rows = table(groups.groups.iter().map(|group| group.iter()), columns);
    format!("{}replica_groups = {rows}", channel(groups.channel))
}

/// A channel number, with a comma after it; nothing for 0.
pub(super) fn channel(channel: u64) -> String {
    match channel {
        0 => String::new(),
        // Type 1 is a channel between devices.
        _ => format!("channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 1>, "),
    }
}
