//! Printing elements the way PyTorch prints them, with its default options: four digits, 80 columns, and above 1000
//! elements only three at either end of every axis.

use super::Tensor;
use crate::dtype::{Kind, convert::cast};
use crate::{Complex64, DType, Result, with_element};
use std::fmt;

/// Digits behind the point.
const DIGITS: usize = 4;
/// More elements than this are abridged.
const THRESHOLD: usize = 1000;
/// Elements shown at either end of an abridged axis.
const EDGE: usize = 3;
/// Columns of a line.
const COLUMNS: usize = 80;
const PREFIX: &str = "tensor(";

impl fmt::Display for Tensor {
    /// The elements, as `print` shows them in PyTorch. Reads, and so cuts; if that fails the error stands in place of the
    /// elements.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.5, -3.0, 0.0], [2, 2])?;
    /// assert_eq!(x.to_string(), "tensor([[ 1.0000,  2.5000],\n        [-3.0000,  0.0000]])");
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = if self.elements() == 0 { Ok("[]".to_owned()) } else { self.elements_text() };
        let text = match elements {
            Ok(elements) => elements,
            Err(error) => return write!(f, "{PREFIX}{error})"),
        };
        let mut out = format!("{PREFIX}{text}");
        let mut column = out.len() - out.rfind('\n').map_or(0, |at| at + 1) + 2;
        for suffix in self.suffixes() {
            if column + suffix.len() + 2 > COLUMNS {
                out.push_str(&format!(",\n{:1$}{suffix}", "", PREFIX.len()));
                column = PREFIX.len() + suffix.len();
            } else {
                out.push_str(&format!(", {suffix}"));
                column += suffix.len() + 2;
            }
        }
        write!(f, "{out})")
    }
}

impl Tensor {
    /// What the elements do not say.
    fn suffixes(&self) -> Vec<String> {
        let empty = self.elements() == 0;
        let mut suffixes = Vec::new();
        if empty && self.rank() != 1 {
            let sizes: Vec<String> = self.sizes().iter().map(|size| size.to_string()).collect();
            suffixes.push(format!("size=({})", sizes.join(", ")));
        }
        let silent = match self.dtype() {
            DType::F32 => true,
            DType::I64 | DType::Bool | DType::Complex64 => !empty,
            _ => false,
        };
        if !silent {
            suffixes.push(format!("dtype=torch.{}", self.dtype()));
        }
        suffixes
    }

    fn elements_text(&self) -> Result<String> {
        let layout = Layout { sizes: self.sizes(), abridged: self.elements() > THRESHOLD };
        let dtype = self.dtype();
        Ok(match dtype.kind() {
            Kind::Bool => {
                let values = self.read_as::<bool>()?;
                layout.text(&Words::new(&layout, |at| if values[at] { "True" } else { "False" }.to_owned()))
            }
            Kind::Signed => {
                let values = self.read_as::<i64>()?;
                layout.text(&Words::new(&layout, |at| values[at].to_string()))
            }
            Kind::Unsigned => {
                let values = self.read_as::<u64>()?;
                layout.text(&Words::new(&layout, |at| values[at].to_string()))
            }
            Kind::Float => {
                let values = self.read_as::<f64>()?;
                layout.text(&Floats::new(&layout, |at| values[at]))
            }
            Kind::Complex => {
                let values = self.read_as::<Complex64>()?;
                let real = Floats::new(&layout, |at| values[at].re.into());
                let imaginary = Floats::new(&layout, |at| values[at].im.into());
                layout.text(&Complexes { real, imaginary })
            }
        })
    }

    /// The elements, converted without loss.
    fn read_as<T: crate::Element>(&self) -> Result<Vec<T>> {
        with_element!(self.dtype(), E => Ok(self.to_vec::<E>()?.into_iter().map(cast::<E, T>).collect()))
    }
}

/// Which elements are shown and where.
struct Layout<'a> {
    sizes: &'a [usize],
    abridged: bool,
}

impl Layout<'_> {
    /// The positions shown along an axis; `None` stands for those left out.
    fn shown(&self, axis: usize) -> Vec<Option<usize>> {
        let size = self.sizes[axis];
        if self.abridged && size > 2 * EDGE {
            (0..EDGE).map(Some).chain([None]).chain((size - EDGE..size).map(Some)).collect()
        } else {
            (0..size).map(Some).collect()
        }
    }

    /// Row-major numbers of the elements that are shown.
    fn shown_elements(&self) -> Vec<usize> {
        let mut numbers = vec![0];
        for axis in 0..self.sizes.len() {
            let positions: Vec<usize> = self.shown(axis).into_iter().flatten().collect();
            let base = |number: &usize| number * self.sizes[axis];
            numbers = numbers.iter().flat_map(|number| positions.iter().map(move |at| base(number) + at)).collect();
        }
        numbers
    }

    /// Nested brackets. Goes over axes with a stack of its own: ranks have no bound.
    fn text(&self, cells: &impl Cells) -> String {
        let Some(last) = self.sizes.len().checked_sub(1) else { return cells.text(0) };
        let shown: Vec<_> = (0..last).map(|axis| self.shown(axis)).collect();
        if last == 0 {
            return self.row(cells, 0, PREFIX.len());
        }
        let mut out = String::from("[");
        // For every open bracket the next item, and the number of elements before it.
        let mut open = vec![(0, 0)];
        while let Some(&(next, before)) = open.last() {
            let axis = open.len() - 1;
            let Some(&position) = shown[axis].get(next) else {
                out.push(']');
                open.pop();
                continue;
            };
            open[axis].0 += 1;
            if next > 0 {
                out.push(',');
                out.extend(std::iter::repeat_n('\n', last - axis));
                out.extend(std::iter::repeat_n(' ', PREFIX.len() + axis + 1));
            }
            let Some(position) = position else {
                out.push_str("...");
                continue;
            };
            let inner = (before + position) * self.sizes[axis + 1];
            if axis + 1 == last {
                out.push_str(&self.row(cells, inner, PREFIX.len() + last));
            } else {
                out.push('[');
                open.push((0, inner));
            }
        }
        out
    }

    /// The elements of the last axis from number `first` on.
    fn row(&self, cells: &impl Cells, first: usize, indent: usize) -> String {
        let per_line = (COLUMNS.saturating_sub(indent) / (cells.width() + 2)).max(1);
        let shown = self.shown(self.sizes.len() - 1);
        let cell = |position: &Option<usize>| position.map_or(" ...".to_owned(), |at| cells.text(first + at));
        let lines: Vec<String> =
            shown.chunks(per_line).map(|line| line.iter().map(cell).collect::<Vec<_>>().join(", ")).collect();
        format!("[{}]", lines.join(&format!(",\n{:1$}", "", indent + 1)))
    }
}

/// Elements as text of one width.
trait Cells {
    fn width(&self) -> usize;
    fn text(&self, number: usize) -> String;
}

/// Elements whose text needs no rule.
struct Words<F> {
    width: usize,
    word: F,
}

impl<F: Fn(usize) -> String> Words<F> {
    fn new(layout: &Layout<'_>, word: F) -> Self {
        let width = layout.shown_elements().into_iter().map(|number| word(number).len()).max().unwrap_or(1);
        Self { width, word }
    }
}

impl<F: Fn(usize) -> String> Cells for Words<F> {
    fn width(&self) -> usize {
        self.width
    }

    fn text(&self, number: usize) -> String {
        format!("{:>1$}", (self.word)(number), self.width)
    }
}

/// Real numbers: all as integers with a point, all with decimals, or all with an exponent.
struct Floats<F> {
    width: usize,
    integers: bool,
    scientific: bool,
    value: F,
}

impl<F: Fn(usize) -> f64> Floats<F> {
    /// The form follows from the finite numbers other than zero.
    fn new(layout: &Layout<'_>, value: F) -> Self {
        let shown = layout.shown_elements();
        let numbers = || shown.iter().map(|&number| value(number)).filter(|v| v.is_finite() && *v != 0.0);
        let integers = numbers().all(|v| v == v.ceil());
        let least = numbers().map(f64::abs).fold(f64::INFINITY, f64::min);
        let most = numbers().map(f64::abs).fold(0.0, f64::max);
        let scientific = numbers().next().is_some() && (most / least > 1000.0 || most > 1e8 || least < 1e-4);
        let width = numbers().map(|v| plain(v, integers, scientific).len()).max().unwrap_or(1);
        Self { width, integers, scientific, value }
    }
}

impl<F: Fn(usize) -> f64> Cells for Floats<F> {
    fn width(&self) -> usize {
        self.width
    }

    fn text(&self, number: usize) -> String {
        format!("{:>1$}", plain((self.value)(number), self.integers, self.scientific), self.width)
    }
}

/// One number, without padding.
fn plain(value: f64, integers: bool, scientific: bool) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if scientific {
        // Rust writes 1e-5 where C writes 1e-05.
        let text = format!("{value:.DIGITS$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    if integers { format!("{value:.0}.") } else { format!("{value:.DIGITS$}") }
}

/// Complex numbers: `a+bj`.
struct Complexes<R, I> {
    real: Floats<R>,
    imaginary: Floats<I>,
}

impl<R: Fn(usize) -> f64, I: Fn(usize) -> f64> Cells for Complexes<R, I> {
    fn width(&self) -> usize {
        self.real.width() + self.imaginary.width() + 1
    }

    fn text(&self, number: usize) -> String {
        let imaginary = self.imaginary.text(number);
        let imaginary = imaginary.trim_start();
        let sign = if imaginary.starts_with('-') { "" } else { "+" };
        format!("{}{sign}{imaginary}j", self.real.text(number))
    }
}
