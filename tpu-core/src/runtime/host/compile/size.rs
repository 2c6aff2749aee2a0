//! Sizes as formulas, and the facts about them that a compilation rests on.
//!
//! While a program is compiled, a size is a number together with the formula that gives it from the sizes of the program. It can be
//! calculated with and compared, but not looked at: whoever compares leaves a *fact*, "8192 < 256 is false", in the ledger of the
//! thread. So what is compiled is right for every vector of sizes with the same facts, whatever the compiler asked and
//! wherever. Numbers come back from formulas only when an executable is made for one vector of sizes ([`Values::of`]).
//!
//! The ledger starts from the sizes of the program's [key](key::Key): each distinct one above one is a symbol, and so is each
//! distinct attribute such as the start of a slice. Which of them are equal, one or zero is part of the structure, so comparing
//! two symbols leaves no fact. Shapes and attributes in the graph are plain numbers; comparing them for equality, or with one or
//! zero, is comparing symbols. Every other question about a shape is asked of its sizes here ([`of`], [`elements`], [`bytes`]).
//! Constants of one value may change with the sizes too; nothing is asked of them but which are equal or zero.

use super::view::Axes;
use crate::ir::{Op, Type, key};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;
use std::iter::Product;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Sub};

/// The term of a size that is the same for all sizes of the program.
const NUMBER: u32 = u32::MAX;

/// A size. Arithmetic saturates, differences at 0; a quotient by 0 is 0.
#[derive(Clone, Copy)]
pub(in crate::runtime::host) struct Size {
    /// What it is for the sizes that are being compiled.
    value: usize,
    /// Its formula among those of the ledger.
    term: u32,
}

/// How a size follows from others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Formula {
    /// A symbol: the value is given.
    Given,
    Number(usize),
    Sum(u32, u32),
    Difference(u32, u32),
    Product(u32, u32),
    Quotient(u32, u32),
}

/// What two sizes are asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Relation {
    Equal,
    Less,
    /// The first is a multiple of the second.
    Multiple,
}

impl Relation {
    fn holds(self, a: usize, b: usize) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Less => a < b,
            Self::Multiple => a.is_multiple_of(b),
        }
    }
}

/// The answer to a question about two terms.
#[derive(Clone, Copy, Debug)]
struct Fact {
    relation: Relation,
    terms: [u32; 2],
    holds: bool,
}

/// What is being recorded.
#[derive(Default)]
struct Ledger {
    formulas: Vec<Formula>,
    /// Of each formula.
    values: Vec<usize>,
    known: FxHashMap<Formula, u32>,
    facts: Vec<Fact>,
    asked: FxHashSet<(Relation, [u32; 2])>,
    /// Sizes of the program: the first terms, in their order.
    dims: FxHashMap<usize, u32>,
    /// Attributes of the program by value; the terms are their magnitudes.
    attributes: FxHashMap<i64, u32>,
    /// A shape had a size that is none of the program's, so that this is good for no other sizes.
    rigid: bool,
}

thread_local! {
    static LEDGER: RefCell<Option<Ledger>> = const { RefCell::new(None) };
}

impl Ledger {
    fn term(&mut self, formula: Formula, value: usize) -> u32 {
        if formula != Formula::Given
            && let Some(&known) = self.known.get(&formula)
        {
            return known;
        }
        let term = self.formulas.len() as u32;
        self.formulas.push(formula);
        self.values.push(value);
        if formula != Formula::Given {
            self.known.insert(formula, term);
        }
        term
    }

    fn term_of(&mut self, size: Size) -> u32 {
        if size.term == NUMBER { self.term(Formula::Number(size.value), size.value) } else { size.term }
    }

    fn size(&self, term: u32) -> Size {
        match self.formulas[term as usize] {
            Formula::Number(value) => Size::number(value),
            _ => Size { value: self.values[term as usize], term },
        }
    }

    /// Whether the term is a size of the program: above one, and different from all others.
    fn is_dim(&self, term: u32) -> bool {
        (term as usize) < self.dims.len()
    }

    /// The answer to a question that no vector of sizes can answer otherwise.
    fn certain(&self, relation: Relation, a: Size, b: Size) -> Option<bool> {
        let one = |size: Size| size.term == NUMBER && size.value <= 1;
        let (x, y) = (self.is_dim(a.term), self.is_dim(b.term));
        match relation {
            Relation::Equal if (x && (y || one(b))) || (one(a) && y) => Some(x && a.term == b.term),
            Relation::Less if x && one(b) => Some(false),
            Relation::Less if one(a) && y => Some(true),
            Relation::Multiple => match self.formulas.get(a.term as usize) {
                Some(&Formula::Product(c, d)) => (y && (c == b.term || d == b.term)).then_some(true),
                _ => (a.term == b.term && y || b.term == NUMBER && b.value == 1).then_some(true),
            },
            _ => None,
        }
    }

    fn ask(&mut self, relation: Relation, a: Size, b: Size) -> bool {
        if let Some(answer) = self.certain(relation, a, b) {
            return answer;
        }
        let holds = relation.holds(a.value, b.value);
        let mut terms = [self.term_of(a), self.term_of(b)];
        if relation == Relation::Equal {
            terms.sort_unstable();
        }
        if self.asked.insert((relation, terms)) {
            self.facts.push(Fact { relation, terms, holds });
        }
        holds
    }
}

/// Works on the ledger of this thread.
fn with<T>(f: impl FnOnce(&mut Ledger) -> T) -> T {
    LEDGER.with_borrow_mut(|ledger| f(ledger.as_mut().expect("formulas are made while sizes are recorded")))
}

/// Records what `compile` asks of the sizes of a program, and gives what it made with the sizes it is good for.
pub(super) fn record<T>(sizes: &key::Sizes, compile: impl FnOnce() -> T) -> (T, Sizes) {
    /// Takes the ledger away whatever happens.
    struct Recording;
    impl Drop for Recording {
        fn drop(&mut self) {
            LEDGER.set(None);
        }
    }
    let mut ledger = Ledger::default();
    for &dim in &sizes.dims {
        let term = ledger.term(Formula::Given, dim);
        ledger.dims.insert(dim, term);
    }
    let mut attributes = Vec::new();
    for &attribute in sizes.attributes.iter().filter(|attribute| attribute.unsigned_abs() > 1) {
        if !ledger.attributes.contains_key(&attribute) {
            let term = ledger.term(Formula::Given, attribute.unsigned_abs() as usize);
            ledger.attributes.insert(attribute, term);
            attributes.push(attribute);
        }
    }
    LEDGER.set(Some(ledger));
    let recording = Recording;
    let made = compile();
    let ledger = LEDGER.take().unwrap_or_default();
    drop(recording);
    let Ledger { formulas, facts, rigid, values, .. } = ledger;
    (made, Sizes { key: sizes.clone(), attributes, formulas, values, facts, rigid })
}

/// The sizes that something was compiled for, and those that it is good for.
#[derive(Debug)]
pub(super) struct Sizes {
    key: key::Sizes,
    /// The distinct attributes that are symbols.
    attributes: Vec<i64>,
    formulas: Vec<Formula>,
    values: Vec<usize>,
    facts: Vec<Fact>,
    rigid: bool,
}

/// A fact that does not hold for other sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::runtime::host) struct Broken(String);

impl Broken {
    /// The structure differs already.
    pub fn other_program() -> Self {
        Self("it is another program".to_owned())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Sizes {
    /// The sizes it was compiled for.
    pub fn own(&self) -> Values {
        Values { terms: self.values.clone(), ..Values::default() }
    }

    /// Other sizes of the same structure, if the same facts hold for them.
    pub fn at(&self, sizes: &key::Sizes) -> Result<Values, Broken> {
        let broken = |what: String| Err(Broken(what));
        if self.rigid {
            return broken("a size follows from the others in a way that is not known".to_owned());
        }
        // Zeros, ones and signs stay.
        let alike = |old: i64, new: i64| match old {
            -1..=1 => old == new,
            _ => new.unsigned_abs() > 1 && old.signum() == new.signum(),
        };
        let dims = renamed(&self.key.dims, &sizes.dims, |_, _| true);
        let attributes = renamed(&self.key.attributes, &sizes.attributes, alike);
        let constants = renamed(&self.key.constants, &sizes.constants, |old, new| (old == 0) == (new == 0));
        let Some(((dims, attributes), constants)) = dims.zip(attributes).zip(constants) else {
            return broken("other sizes, attributes or constants are equal to each other, zero or one".to_owned());
        };
        let mut terms = Vec::with_capacity(self.formulas.len());
        terms.extend_from_slice(&sizes.dims);
        terms.extend(self.attributes.iter().map(|&old| renamed_to(&attributes, old).unsigned_abs() as usize));
        for &formula in &self.formulas[terms.len()..] {
            let at = |term: u32| terms[term as usize];
            terms.push(match formula {
                Formula::Given => 0,
                Formula::Number(value) => value,
                Formula::Sum(a, b) => at(a).saturating_add(at(b)),
                Formula::Difference(a, b) => at(a).saturating_sub(at(b)),
                Formula::Product(a, b) => at(a).saturating_mul(at(b)),
                Formula::Quotient(a, b) => at(a).checked_div(at(b)).unwrap_or(0),
            });
        }
        for fact in &self.facts {
            let [a, b] = fact.terms.map(|term| terms[term as usize]);
            if fact.relation.holds(a, b) != fact.holds {
                let [x, y] = fact.terms.map(|term| self.values[term as usize]);
                let sign = match fact.relation {
                    Relation::Equal => "=",
                    Relation::Less => "<",
                    Relation::Multiple => "is a multiple of",
                };
                let (was, is) = (fact.holds, !fact.holds);
                return broken(format!("{x} {sign} {y} was {was}, {a} {sign} {b} is {is}"));
            }
        }
        Ok(Values { terms, dims, attributes, constants })
    }
}

/// What each number became, in order of what it was. `None` if two that were equal differ, two that differed are equal, or one is
/// not `alike`.
fn renamed<T: Copy + Ord>(old: &[T], new: &[T], alike: impl Fn(T, T) -> bool) -> Option<Vec<(T, T)>> {
    let mut pairs: Vec<(T, T)> = old.iter().copied().zip(new.iter().copied()).collect();
    if old.len() != new.len() || !pairs.iter().all(|&(old, new)| alike(old, new)) {
        return None;
    }
    pairs.sort_unstable();
    pairs.dedup();
    let mut values: Vec<T> = pairs.iter().map(|pair| pair.1).collect();
    values.sort_unstable();
    let apart = pairs.windows(2).all(|two| two[0].0 != two[1].0) && values.windows(2).all(|two| two[0] != two[1]);
    apart.then_some(pairs)
}

/// What a number became.
fn renamed_to<T: Copy + Ord>(pairs: &[(T, T)], old: T) -> T {
    pairs.binary_search_by_key(&old, |pair| pair.0).map_or(old, |at| pairs[at].1)
}

/// One vector of sizes. Its lists of what became of numbers are empty for the sizes that were compiled.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The value of each formula.
    terms: Vec<usize>,
    dims: Vec<(usize, usize)>,
    attributes: Vec<(i64, i64)>,
    constants: Vec<(u64, u64)>,
}

impl Values {
    /// What a size is.
    pub fn of(&self, size: Size) -> usize {
        if size.term == NUMBER { size.value } else { self.terms[size.term as usize] }
    }

    /// Sizes or strides.
    pub fn all(&self, sizes: &[Size]) -> SmallVec<[usize; 4]> {
        sizes.iter().map(|&size| self.of(size)).collect()
    }

    /// What a type became.
    pub fn ty(&self, ty: &Type) -> Type {
        let dim = |&size: &usize| renamed_to(&self.dims, size);
        Type { dtype: ty.dtype, shape: ty.shape.sizes().iter().map(dim).collect() }
    }

    /// What an operation became.
    pub fn op(&self, op: &Op) -> Op {
        let mut op = op.clone();
        op.map_sizes(&|size| renamed_to(&self.dims, size), &|attribute| renamed_to(&self.attributes, attribute));
        op
    }

    /// The bits that a constant of one value became, if they are others.
    pub fn constant(&self, bits: u64) -> Option<u64> {
        Some(renamed_to(&self.constants, bits)).filter(|&new| new != bits)
    }
}

impl Size {
    /// The same for all sizes of the program.
    pub const fn number(value: usize) -> Self {
        Self { value, term: NUMBER }
    }

    /// A size of a shape of the program.
    pub fn dim(size: usize) -> Self {
        Self::symbol(size, |ledger| ledger.dims.get(&size))
    }

    /// The magnitude of an attribute of the program.
    pub fn attribute(attribute: i64) -> Self {
        Self::symbol(attribute.unsigned_abs() as usize, |ledger| ledger.attributes.get(&attribute))
    }

    fn symbol(value: usize, find: impl FnOnce(&Ledger) -> Option<&u32>) -> Self {
        if value <= 1 {
            return Self::number(value);
        }
        LEDGER.with_borrow_mut(|ledger| match ledger {
            Some(ledger) => match find(ledger) {
                Some(&term) => Self { value, term },
                None => {
                    ledger.rigid = true;
                    Self::number(value)
                }
            },
            None => Self::number(value),
        })
    }

    fn combined(self, other: Self, value: usize, formula: impl FnOnce(u32, u32) -> Formula) -> Self {
        if self.term == NUMBER && other.term == NUMBER {
            return Self::number(value);
        }
        with(|ledger| {
            let (a, b) = (ledger.term_of(self), ledger.term_of(other));
            let term = ledger.term(formula(a, b), value);
            Self { value, term }
        })
    }

    fn asked(self, relation: Relation, other: Self) -> bool {
        if self.term == NUMBER && other.term == NUMBER {
            return relation.holds(self.value, other.value);
        }
        with(|ledger| ledger.ask(relation, self, other))
    }

    /// Whether it is a multiple of another.
    pub fn is_multiple_of(self, other: Self) -> bool {
        self.asked(Relation::Multiple, other)
    }

    /// Whether it is the same formula, which says nothing about sizes.
    pub fn is_same_formula(self, other: Self) -> bool {
        self.term == other.term && (self.term != NUMBER || self.value == other.value)
    }

    /// The larger of two.
    pub fn max(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    /// The smaller of two.
    pub fn min(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self::number(0)
    }
}

impl fmt::Debug for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl PartialEq for Size {
    fn eq(&self, other: &Self) -> bool {
        (self.term == other.term && self.term != NUMBER) || self.asked(Relation::Equal, *other)
    }
}

impl PartialEq<usize> for Size {
    fn eq(&self, other: &usize) -> bool {
        *self == Self::number(*other)
    }
}

impl PartialOrd for Size {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        Some(if self < other {
            Less
        } else if self == other {
            Equal
        } else {
            Greater
        })
    }
    fn lt(&self, other: &Self) -> bool {
        (self.term != other.term || self.term == NUMBER) && self.asked(Relation::Less, *other)
    }
    fn gt(&self, other: &Self) -> bool {
        other < self
    }
    fn le(&self, other: &Self) -> bool {
        !self.gt(other)
    }
    fn ge(&self, other: &Self) -> bool {
        !self.lt(other)
    }
}

impl PartialOrd<usize> for Size {
    fn partial_cmp(&self, other: &usize) -> Option<std::cmp::Ordering> {
        self.partial_cmp(&Self::number(*other))
    }
    fn lt(&self, other: &usize) -> bool {
        *self < Self::number(*other)
    }
    fn gt(&self, other: &usize) -> bool {
        *self > Self::number(*other)
    }
    fn le(&self, other: &usize) -> bool {
        *self <= Self::number(*other)
    }
    fn ge(&self, other: &usize) -> bool {
        *self >= Self::number(*other)
    }
}

impl Mul for Size {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        match [self, other].map(|size| (size.term == NUMBER).then_some(size.value)) {
            [Some(1), _] => other,
            [_, Some(1)] => self,
            [Some(0), _] | [_, Some(0)] => Self::number(0),
            _ => {
                let value = self.value.saturating_mul(other.value);
                self.combined(other, value, |a, b| Formula::Product(a.min(b), a.max(b)))
            }
        }
    }
}

impl Add for Size {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        match [self, other].map(|size| (size.term == NUMBER).then_some(size.value)) {
            [Some(0), _] => other,
            [_, Some(0)] => self,
            _ => {
                let value = self.value.saturating_add(other.value);
                self.combined(other, value, |a, b| Formula::Sum(a.min(b), a.max(b)))
            }
        }
    }
}

impl Sub for Size {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        if other.term == NUMBER && other.value == 0 {
            return self;
        }
        self.combined(other, self.value.saturating_sub(other.value), Formula::Difference)
    }
}

impl Div for Size {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        if other.term == NUMBER {
            if other.value == 1 {
                return self;
            }
        } else if self.term != NUMBER {
            // What a size of the program, which is not 0, was multiplied with.
            let factor = with(|ledger| match ledger.formulas[self.term as usize] {
                _ if !ledger.is_dim(other.term) => None,
                _ if self.term == other.term => Some(Self::number(1)),
                Formula::Product(a, b) if b == other.term => Some(ledger.size(a)),
                Formula::Product(a, b) if a == other.term => Some(ledger.size(b)),
                _ => None,
            });
            if let Some(factor) = factor {
                return factor;
            }
        }
        self.combined(other, self.value.checked_div(other.value).unwrap_or(0), Formula::Quotient)
    }
}

macro_rules! with_numbers {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait<usize> for Size {
            type Output = Self;
            fn $method(self, other: usize) -> Self {
                $trait::$method(self, Self::number(other))
            }
        }
    )*};
}
with_numbers!(Mul mul, Add add, Div div);

impl MulAssign for Size {
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}
impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl DivAssign for Size {
    fn div_assign(&mut self, other: Self) {
        *self = *self / other;
    }
}

impl<'a> Product<&'a Self> for Size {
    fn product<I: Iterator<Item = &'a Self>>(sizes: I) -> Self {
        sizes.fold(Self::number(1), |product, &size| product * size)
    }
}

impl Product for Size {
    fn product<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::number(1), |product, size| product * size)
    }
}

/// The sizes of a type's axes.
pub(super) fn of(ty: &Type) -> Axes {
    ty.shape.sizes().iter().map(|&size| Size::dim(size)).collect()
}

/// Elements of a type.
pub(super) fn elements(ty: &Type) -> Size {
    ty.shape.sizes().iter().map(|&size| Size::dim(size)).product()
}

/// Bytes of a dense value.
pub(super) fn bytes(ty: &Type) -> Size {
    elements(ty) * (ty.dtype.bits() as usize / 8)
}

#[cfg(test)]
mod tests;
