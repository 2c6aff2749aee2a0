//! Regions that say in StableHLO what our closed enums say by name.

use crate::dtype::Kind;
use crate::ir::{Extreme, Reducer};
use crate::{DType, Literal, Shape};

/// The text of a scalar type.
fn scalar(dtype: DType) -> String {
    format!("tensor<{}>", dtype.stablehlo())
}

/// A region over scalars: parameters, lines, and the last line's result.
struct Region {
    parameters: Vec<(String, DType)>,
    lines: Vec<String>,
}

impl Region {
    fn new(parameters: &[(&str, DType)]) -> Self {
        Self { parameters: parameters.iter().map(|&(name, dtype)| (name.to_string(), dtype)).collect(), lines: vec![] }
    }

    /// Adds `%result = "stablehlo.name"(operands)`; all operands of one dtype.
    fn apply(&mut self, result: &str, name: &str, operands: &[&str], dtypes: (DType, DType)) -> &mut Self {
        let (from, to) = (scalar(dtypes.0), scalar(dtypes.1));
        let types = vec![from; operands.len()].join(", ");
        let names = operands.iter().map(|name| format!("%{name}")).collect::<Vec<_>>().join(", ");
        self.lines.push(format!("%{result} = \"stablehlo.{name}\"({names}) : ({types}) -> {to}"));
        self
    }

    fn compare(&mut self, result: &str, direction: &str, a: &str, b: &str, dtype: DType) -> &mut Self {
        let (from, to) = (scalar(dtype), scalar(DType::Bool));
        self.lines.push(format!(
            "%{result} = \"stablehlo.compare\"(%{a}, %{b}) <{{comparison_direction = #stablehlo<comparison_direction \
             {direction}>}}> : ({from}, {from}) -> {to}"
        ));
        self
    }

    fn select(&mut self, result: &str, names: [&str; 3], dtype: DType) -> &mut Self {
        let [predicate, a, b] = names;
        let (truth, ty) = (scalar(DType::Bool), scalar(dtype));
        self.lines.push(format!(
            "%{result} = \"stablehlo.select\"(%{predicate}, %{a}, %{b}) : ({truth}, {ty}, {ty}) -> {ty}"
        ));
        self
    }

    fn gives(&self, results: &[(&str, DType)]) -> String {
        let parameters: Vec<String> =
            self.parameters.iter().map(|(name, dtype)| format!("%{name}: {}", scalar(*dtype))).collect();
        let mut text = format!("{{\n^bb0({}):\n", parameters.join(", "));
        for line in &self.lines {
            text.push_str(&format!("  {line}\n"));
        }
        let names: Vec<String> = results.iter().map(|(name, _)| format!("%{name}")).collect();
        let types: Vec<String> = results.iter().map(|&(_, dtype)| scalar(dtype)).collect();
        text.push_str(&format!("  \"stablehlo.return\"({}) : ({}) -> ()\n}}", names.join(", "), types.join(", ")));
        text
    }
}

/// `(lhs, rhs) → kind(lhs, rhs)`; without a kind, the second.
pub(super) fn combine(kind: Option<Reducer>, dtype: DType) -> String {
    let mut region = Region::new(&[("lhs", dtype), ("rhs", dtype)]);
    match kind {
        Some(kind) => region.apply("out", kind.name(), &["lhs", "rhs"], (dtype, dtype)).gives(&[("out", dtype)]),
        None => region.gives(&[("rhs", dtype)]),
    }
}

/// What a reduction starts from.
pub(super) fn identity(kind: Reducer, dtype: DType) -> Literal {
    let scalar = Shape::scalar();
    let lowest = matches!(kind, Reducer::Max);
    match (kind, dtype.kind()) {
        (Reducer::Sum | Reducer::Or | Reducer::Xor, _) => Literal::splat(dtype, scalar, 0),
        (Reducer::Product, _) => Literal::splat(dtype, scalar, 1),
        (Reducer::And, Kind::Bool) => Literal::splat(dtype, scalar, true),
        (Reducer::And, _) => all_ones(dtype),
        (Reducer::Max | Reducer::Min, _) => extreme(dtype, lowest),
    }
}

fn all_ones(dtype: DType) -> Literal {
    let bytes = vec![0xff; dtype.bits() as usize / 8];
    Literal::repeat(dtype, Shape::scalar(), &bytes).expect("as many bytes as the element has")
}

/// The lowest or the highest value of an ordered dtype.
pub(super) fn extreme(dtype: DType, lowest: bool) -> Literal {
    let width = dtype.bits() as usize / 8;
    match dtype.kind() {
        Kind::Float | Kind::Complex => {
            let infinity = if lowest { f64::NEG_INFINITY } else { f64::INFINITY };
            Literal::splat(dtype, Shape::scalar(), infinity)
        }
        Kind::Bool => Literal::splat(dtype, Shape::scalar(), !lowest),
        Kind::Unsigned if lowest => Literal::splat(dtype, Shape::scalar(), 0),
        Kind::Unsigned => all_ones(dtype),
        Kind::Signed => {
            let mut bytes = vec![if lowest { 0 } else { 0xff }; width];
            bytes[width - 1] = if lowest { 0x80 } else { 0x7f };
            Literal::repeat(dtype, Shape::scalar(), &bytes).expect("as many bytes as the element has")
        }
    }
}

/// `(a, b) → whether a comes before b`, for a sort by the first of the operands.
pub(super) fn before(dtypes: &[DType], descending: bool) -> String {
    let names: Vec<(String, String)> = (0..dtypes.len()).map(|i| (format!("a{i}"), format!("b{i}"))).collect();
    let pairs: Vec<(&str, DType)> =
        names.iter().zip(dtypes).flat_map(|((a, b), &dtype)| [(a.as_str(), dtype), (b.as_str(), dtype)]).collect();
    let mut region = Region::new(&pairs);
    let (key, truth) = (dtypes[0], DType::Bool);
    region.compare("less", if descending { "GT" } else { "LT" }, "a0", "b0", key);
    if !key.is_float() {
        return region.gives(&[("less", truth)]);
    }
    // NaN is the greatest: it comes after every number, or before.
    let (nan, number) = if descending { ("a0", "b0") } else { ("b0", "a0") };
    region
        .compare("is_nan", "NE", nan, nan, key)
        .compare("is_number", "EQ", number, number, key)
        .apply("at_end", "and", &["is_nan", "is_number"], (truth, truth))
        .apply("out", "or", &["less", "at_end"], (truth, truth))
        .gives(&[("out", truth)])
}

/// `(a, b) → whether a is kept`, for a select over windows.
pub(super) fn kept(select: Extreme, dtype: DType) -> String {
    let truth = DType::Bool;
    let mut region = Region::new(&[("lhs", dtype), ("rhs", dtype)]);
    region.compare("first", select.name(), "lhs", "rhs", dtype);
    if !dtype.is_float() {
        return region.gives(&[("first", truth)]);
    }
    region
        .compare("is_nan", "NE", "lhs", "lhs", dtype)
        .apply("out", "or", &["first", "is_nan"], (truth, truth))
        .gives(&[("out", truth)])
}

/// `(value, index, other value, other index) → (value, index)`: the better one, NaN best, the lower index of equals.
/// Commutative and associative, whatever the order in which a target reduces.
pub(super) fn better(kind: Extreme, dtype: DType) -> String {
    let (truth, index) = (DType::Bool, DType::I64);
    let strictly = match kind {
        Extreme::Max => "GT",
        Extreme::Min => "LT",
    };
    let mut region = Region::new(&[("a", dtype), ("i", index), ("b", dtype), ("j", index)]);
    region.compare("better", strictly, "a", "b", dtype).compare("equal", "EQ", "a", "b", dtype);
    let (mut wins, mut ties) = ("better", "equal");
    if dtype.is_float() {
        region
            .compare("a_nan", "NE", "a", "a", dtype)
            .compare("b_nan", "NE", "b", "b", dtype)
            .compare("b_number", "EQ", "b", "b", dtype)
            .apply("only_a_nan", "and", &["a_nan", "b_number"], (truth, truth))
            .apply("both_nan", "and", &["a_nan", "b_nan"], (truth, truth))
            .apply("wins", "or", &["better", "only_a_nan"], (truth, truth))
            .apply("ties", "or", &["equal", "both_nan"], (truth, truth));
        (wins, ties) = ("wins", "ties");
    }
    region
        .compare("earlier", "LT", "i", "j", index)
        .apply("earlier_of_ties", "and", &[ties, "earlier"], (truth, truth))
        .apply("first", "or", &[wins, "earlier_of_ties"], (truth, truth))
        .select("value", ["first", "a", "b"], dtype)
        .select("index", ["first", "i", "j"], index)
        .gives(&[("value", dtype), ("index", index)])
}
