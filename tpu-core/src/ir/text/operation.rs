//! Which op an operation of the text is, by its name and attributes.

use super::fields::Fields;
use super::tree::{Function, Operation, Region};
use crate::Result;
use crate::ir::{
    Attributes, Axes, BinaryOp, Comparison, ConvDims, CustomCall, DotDims, Extreme, FftKind, GatherDims, Op, Reducer,
    ScatterDims, TransposeKind, Type, UnaryOp, Window,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The op, and those of the operands that are the node's. What follows them is auxiliary.
pub(super) fn read<'o, 't>(source: &'t str, operation: &'o Operation<'t>) -> Result<(Op, &'o [&'t str])> {
    let reader = Reader { fields: fields(source, operation), operation };
    let op = reader.op()?;
    let own = match op {
        Op::Reduce { .. } | Op::ArgReduce { .. } | Op::ReduceWindow { .. } => 1,
        Op::SelectAndScatter { .. } => 2,
        _ => operation.operands.len(),
    };
    Ok((op, &operation.operands[..own.min(operation.operands.len())]))
}

/// The variant of this name.
fn find<T: Copy>(all: &[T], shown: fn(T) -> &'static str, name: &str) -> Option<T> {
    all.iter().copied().find(|&variant| shown(variant) == name)
}

fn fields<'o, 't>(source: &'t str, operation: &'o Operation<'t>) -> Fields<'o, 't> {
    Fields { source, start: operation.start, entries: &operation.attributes }
}

/// The op that a composite in our own namespace is.
pub(super) fn composite_of_ours(source: &str, operation: &Operation<'_>) -> Result<Option<Op>> {
    let fields = fields(source, operation);
    let Some(name) = fields.text("name")?.strip_prefix("tpu_core.") else {
        return Ok(None);
    };
    let constants = fields.dictionary("composite_attributes")?;
    let kind = || constants.named(Reducer::ALL, Reducer::name, constants.text("kind")?);
    let window = || Reader { fields: constants, operation }.window(true).map(Arc::new);
    Ok(Some(match name {
        "clamp" => Op::Clamp,
        "convert" => Op::Convert(Reader { fields, operation }.result()?.dtype),
        "reduce" => Op::Reduce { kind: kind()?, axes: constants.axes("dimensions")? },
        "reduce_window" => Op::ReduceWindow { kind: kind()?, window: window()? },
        "select_and_scatter" => Op::SelectAndScatter {
            select: constants.named(Extreme::ALL, Extreme::name, constants.text("select")?)?,
            window: window()?,
        },
        "scatter" => {
            let combiner = constants.find("kind").map(|_| kind()).transpose()?;
            Op::Scatter(Arc::new(Reader { fields: constants, operation }.scatter(combiner)?))
        }
        "cumulative" => {
            Op::Cumulative { kind: kind()?, axis: constants.size("axis")?, reverse: constants.flag("reverse")? }
        }
        "top_k" => Op::TopK { k: constants.size("k")?, largest: constants.flag("largest")? },
        "rng_bits" => Op::RngBits(Reader { fields, operation }.result()?.shape.clone()),
        "cholesky" => Op::Cholesky { lower: constants.flag("lower")? },
        "all_reduce" => Op::AllReduce { kind: kind()?, groups: Arc::new(constants.groups()?) },
        "reduce_scatter" => Op::ReduceScatter {
            kind: kind()?,
            axis: constants.size("scatter_dimension")?,
            groups: Arc::new(constants.groups()?),
        },
        "all_gather" => {
            Op::AllGather { axis: constants.size("all_gather_dim")?, groups: Arc::new(constants.groups()?) }
        }
        "dot_general" => Op::DotGeneral(Arc::new(Reader { fields: constants, operation }.dot()?)),
        "convolution" => Op::Convolution(Arc::new(Reader { fields: constants, operation }.convolution()?)),
        "all_to_all" => all_to_all(&constants)?,
        "collective_permute" => collective_permute(&constants)?,
        "qr" => Op::Qr,
        "eigh" => Op::Eigh,
        "lu" => Op::Lu,
        _ => match (find(UnaryOp::ALL, UnaryOp::name, name), find(BinaryOp::ALL, BinaryOp::name, name)) {
            (Some(op), _) => Op::Unary(op),
            (None, Some(op)) => Op::Binary(op),
            (None, None) => return Err(fields.fail(format_args!("a composite that exists, got tpu_core.{name}"))),
        },
    }))
}

fn all_to_all(fields: &Fields<'_, '_>) -> Result<Op> {
    Ok(Op::AllToAll {
        split_axis: fields.size("split_dimension")?,
        concat_axis: fields.size("concat_dimension")?,
        groups: Arc::new(fields.groups()?),
    })
}

fn collective_permute(fields: &Fields<'_, '_>) -> Result<Op> {
    let (devices, columns) = fields.table("source_target_pairs")?;
    if columns != 2 {
        return Err(fields.fail(format_args!("pairs of devices, got rows of {columns}")));
    }
    let devices = fields.devices(&devices)?;
    let pairs = devices.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    Ok(Op::CollectivePermute { pairs, channel: fields.channel()? })
}

/// Name, constants and defining function of any other composite.
pub(super) fn composite_parts<'t>(
    source: &'t str,
    operation: &Operation<'t>,
) -> Result<(Arc<str>, Arc<Attributes>, &'t str)> {
    let fields = fields(source, operation);
    let constants = fields.dictionary("composite_attributes")?.constants()?;
    Ok((fields.text("name")?.into(), Arc::new(constants), fields.symbol("decomposition")?))
}

/// The numbers of the nodes that the checks of the program guard.
pub(super) fn checks_attribute<'a, 't>(source: &'t str, main: &'a Function<'t>) -> Result<Option<&'a [i64]>> {
    let fields = Fields { source, start: main.start, entries: &main.attributes };
    fields.find("tpu_core.checks").map(|_| fields.ints("tpu_core.checks")).transpose()
}

struct Reader<'o, 't> {
    fields: Fields<'o, 't>,
    operation: &'o Operation<'t>,
}

impl<'o, 't> Reader<'o, 't> {
    /// The type of the first result.
    fn result(&self) -> Result<&'o Type> {
        self.operation.to.first().ok_or_else(|| self.fields.fail("a result, got none"))
    }

    fn op(&self) -> Result<Op> {
        let fields = &self.fields;
        let full = self.operation.name.as_str();
        let name = full.strip_prefix("stablehlo.").or_else(|| full.strip_prefix("chlo.")).unwrap_or(full);
        if let Some(op) = find(UnaryOp::ALL, UnaryOp::name, name) {
            return Ok(Op::Unary(op));
        }
        if let Some(op) = find(BinaryOp::ALL, BinaryOp::name, name) {
            return Ok(Op::Binary(op));
        }
        Ok(match name {
            "constant" => Op::Constant(Arc::new(fields.literal("value")?)),
            "iota" => {
                let Type { dtype, shape } = self.result()?.clone();
                Op::Iota { axis: fields.size("iota_dimension")?, dtype, shape }
            }
            "compare" => Op::Compare(fields.variant("comparison_direction", Comparison::ALL, Comparison::name)?),
            "select" => Op::Select,
            "clamp" => Op::Clamp,
            "complex" => Op::Complex,
            "convert" => Op::Convert(self.result()?.dtype),
            "bitcast_convert" => Op::BitcastConvert(self.result()?.dtype),
            "reduce_precision" => Op::ReducePrecision {
                exponent_bits: fields.bits("exponent_bits")?,
                mantissa_bits: fields.bits("mantissa_bits")?,
            },
            "broadcast_in_dim" => {
                Op::BroadcastInDim { shape: self.result()?.shape.clone(), axes: fields.axes("broadcast_dimensions")? }
            }
            "reshape" => Op::Reshape(self.result()?.shape.clone()),
            "transpose" => Op::Transpose(fields.axes("permutation")?),
            "slice" => Op::Slice {
                start: fields.axes("start_indices")?,
                limit: fields.axes("limit_indices")?,
                strides: fields.axes("strides")?,
            },
            "dynamic_slice" => Op::DynamicSlice { sizes: fields.axes("slice_sizes")? },
            "dynamic_update_slice" => Op::DynamicUpdateSlice,
            "pad" => Op::Pad {
                low: fields.ints("edge_padding_low")?.into(),
                high: fields.ints("edge_padding_high")?.into(),
                interior: fields.axes("interior_padding")?,
            },
            "concatenate" => Op::Concatenate { axis: fields.size("dimension")? },
            "reverse" => Op::Reverse(fields.axes("dimensions")?),
            "reduce" => self.reduce()?,
            "reduce_window" => {
                let kind = self.required_combiner(0)?;
                Op::ReduceWindow { kind, window: Arc::new(self.window(true)?) }
            }
            "select_and_scatter" => {
                let select = self.direction(0, Extreme::ALL, Extreme::name)?;
                Op::SelectAndScatter { select, window: Arc::new(self.window(false)?) }
            }
            "dot_general" => Op::DotGeneral(Arc::new(self.dot()?)),
            "convolution" => Op::Convolution(Arc::new(self.convolution()?)),
            "gather" => Op::Gather(Arc::new(self.gather()?)),
            "scatter" => Op::Scatter(Arc::new(self.scatter(self.combiner(0)?)?)),
            "sort" => Op::Sort {
                axis: fields.size("dimension")?,
                descending: self.direction(0, Comparison::ALL, Comparison::name)? == Comparison::Gt,
                stable: fields.flag("is_stable")?,
            },
            "fft" => Op::Fft {
                kind: fields.variant("fft_type", FftKind::ALL, FftKind::name)?,
                lengths: fields.axes("fft_length")?,
            },
            "triangular_solve" => Op::TriangularSolve {
                left: fields.flag("left_side")?,
                lower: fields.flag("lower")?,
                unit_diagonal: fields.flag("unit_diagonal")?,
                transpose: fields.variant("transpose_a", TransposeKind::ALL, TransposeKind::name)?,
            },
            "all_reduce" => Op::AllReduce { kind: self.required_combiner(0)?, groups: Arc::new(fields.groups()?) },
            "all_gather" => Op::AllGather { axis: fields.size("all_gather_dim")?, groups: Arc::new(fields.groups()?) },
            "reduce_scatter" => Op::ReduceScatter {
                kind: self.required_combiner(0)?,
                axis: fields.size("scatter_dimension")?,
                groups: Arc::new(fields.groups()?),
            },
            "all_to_all" => all_to_all(fields)?,
            "collective_permute" => collective_permute(fields)?,
            "replica_id" => Op::ReplicaId,
            "partition_id" => Op::PartitionId,
            "custom_call" => Op::CustomCall(Arc::new(CustomCall {
                target: fields.text("call_target_name")?.to_string(),
                backend_config: fields.text("backend_config")?.to_string(),
                has_side_effect: fields.flag("has_side_effect")?,
                results: self.operation.to.clone(),
            })),
            "optimization_barrier" => Op::OptimizationBarrier,
            _ => return Err(fields.fail(format_args!("an operation that exists, got {full}"))),
        })
    }

    fn region(&self, number: usize) -> Result<&'o Region<'t>> {
        let region = self.operation.regions.get(number);
        region.ok_or_else(|| self.fields.fail(format_args!("{} regions, got fewer", number + 1)))
    }

    /// What the first operation of a region does, when the region does anything.
    fn combiner(&self, number: usize) -> Result<Option<Reducer>> {
        match &self.region(number)?.operations[..] {
            [first, _, ..] => {
                let name = first.name.strip_prefix("stablehlo.").unwrap_or_default();
                self.fields.named(Reducer::ALL, Reducer::name, name).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn required_combiner(&self, number: usize) -> Result<Reducer> {
        self.combiner(number)?.ok_or_else(|| self.fields.fail("a region that combines, got an empty one"))
    }

    /// How the first operation of a region compares.
    fn direction<T: Copy>(&self, number: usize, all: &[T], shown: fn(T) -> &'static str) -> Result<T> {
        match self.region(number)?.operations.first() {
            Some(first) => fields(self.fields.source, first).variant("comparison_direction", all, shown),
            None => Err(self.fields.fail("a region that compares, got an empty one")),
        }
    }

    fn reduce(&self) -> Result<Op> {
        let axes = self.fields.axes("dimensions")?;
        if self.operation.to.len() < 2 {
            return Ok(Op::Reduce { kind: self.required_combiner(0)?, axes });
        }
        let kind = match self.direction(0, Comparison::ALL, Comparison::name)? {
            Comparison::Gt => Extreme::Max,
            _ => Extreme::Min,
        };
        let axis = axes.first().copied().ok_or_else(|| self.fields.fail("an axis, got none"))?;
        Ok(Op::ArgReduce { kind, axis })
    }

    fn window(&self, dilations: bool) -> Result<Window> {
        let fields = &self.fields;
        let sizes = fields.axes("window_dimensions")?;
        let ones = || Axes::from_elem(1, sizes.len());
        Ok(Window {
            strides: fields.axes("window_strides")?,
            base_dilations: if dilations { fields.axes("base_dilations")? } else { ones() },
            window_dilations: if dilations { fields.axes("window_dilations")? } else { ones() },
            padding: fields.pairs("padding")?,
            sizes,
        })
    }

    fn dot(&self) -> Result<DotDims> {
        let axes = |name| self.fields.inner_axes("dot_dimension_numbers", name);
        Ok(DotDims {
            lhs_batch: axes("lhs_batching_dimensions")?,
            rhs_batch: axes("rhs_batching_dimensions")?,
            lhs_contract: axes("lhs_contracting_dimensions")?,
            rhs_contract: axes("rhs_contracting_dimensions")?,
            precision: self.fields.precision()?,
            result: self.result()?.dtype,
        })
    }

    fn convolution(&self) -> Result<ConvDims> {
        let fields = &self.fields;
        let words = fields.words("dimension_numbers")?;
        // `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`
        let mut layouts = words.split(|word| word.text == "[").skip(1).map(|layout| {
            let axes = layout.iter().take_while(|word| word.text != "]").filter(|word| word.text != ",");
            axes.map(|word| word.text).collect::<Vec<&str>>()
        });
        let mut layout = || layouts.next().ok_or_else(|| fields.fail("three layouts in dimension_numbers, got fewer"));
        let (input, kernel, output) = (layout()?, layout()?, layout()?);
        let axis = |layout: &[&str], name: &str| {
            let found = layout.iter().position(|&axis| axis == name);
            found.ok_or_else(|| fields.fail(format_args!("an axis {name} in each layout, got none")))
        };
        let spatial = |layout: &[&str]| -> Result<Axes> {
            (0..layout.len().saturating_sub(2)).map(|number| axis(layout, &number.to_string())).collect()
        };
        // Looking for each of many axes among as many takes long, and no tensor has them.
        if input.len().max(kernel.len()).max(output.len()) > crate::ir::infer::MAX_RANK {
            return Err(fields.fail("layouts of fewer axes, got too many"));
        }
        Ok(ConvDims {
            input_batch: axis(&input, "b")?,
            input_feature: axis(&input, "f")?,
            input_spatial: spatial(&input)?,
            kernel_input_feature: axis(&kernel, "i")?,
            kernel_output_feature: axis(&kernel, "o")?,
            kernel_spatial: spatial(&kernel)?,
            output_batch: axis(&output, "b")?,
            output_feature: axis(&output, "f")?,
            output_spatial: spatial(&output)?,
            strides: fields.axes("window_strides")?,
            padding: fields.pairs("padding")?,
            input_dilation: fields.axes("lhs_dilation")?,
            kernel_dilation: fields.axes("rhs_dilation")?,
            reversal: SmallVec::from_slice(fields.flags("window_reversal")?),
            feature_groups: fields.size("feature_group_count")?,
            batch_groups: fields.size("batch_group_count")?,
            precision: fields.precision()?,
            result: self.result()?.dtype,
        })
    }

    fn gather(&self) -> Result<GatherDims> {
        let axes = |name| self.fields.inner_axes("dimension_numbers", name);
        Ok(GatherDims {
            offset_dims: axes("offset_dims")?,
            collapsed_slice_dims: axes("collapsed_slice_dims")?,
            operand_batching_dims: axes("operand_batching_dims")?,
            start_indices_batching_dims: axes("start_indices_batching_dims")?,
            start_index_map: axes("start_index_map")?,
            index_vector_dim: self.fields.inner_number("dimension_numbers", "index_vector_dim")?,
            slice_sizes: self.fields.axes("slice_sizes")?,
            indices_are_sorted: self.fields.flag("indices_are_sorted")?,
        })
    }

    fn scatter(&self, combiner: Option<Reducer>) -> Result<ScatterDims> {
        let numbers = "scatter_dimension_numbers";
        let axes = |name| self.fields.inner_axes(numbers, name);
        Ok(ScatterDims {
            update_window_dims: axes("update_window_dims")?,
            inserted_window_dims: axes("inserted_window_dims")?,
            input_batching_dims: axes("input_batching_dims")?,
            scatter_indices_batching_dims: axes("scatter_indices_batching_dims")?,
            scatter_dims_to_operand_dims: axes("scatter_dims_to_operand_dims")?,
            index_vector_dim: self.fields.inner_number(numbers, "index_vector_dim")?,
            indices_are_sorted: self.fields.flag("indices_are_sorted")?,
            unique_indices: self.fields.flag("unique_indices")?,
            combiner,
        })
    }
}
