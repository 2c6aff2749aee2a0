//! Attributes of an operation of the text, by name.

use super::lex::{self, Kind, Token};
use super::tree::Value;
use crate::ir::{Attribute, Attributes, Axes, Precision, ReplicaGroups};
use crate::{Error, Literal, Result};
use std::fmt::Display;

/// Named attributes and the operation that has them.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a, 't> {
    pub(super) source: &'t str,
    pub(super) start: usize,
    pub(super) entries: &'a [(String, Value<'t>)],
}

impl<'a, 't> Fields<'a, 't> {
    pub(super) fn fail(&self, message: impl Display) -> Error {
        lex::error(self.source, self.start, message)
    }

    pub(super) fn find(&self, name: &str) -> Option<&'a Value<'t>> {
        self.entries.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// What `read` makes of the attribute.
    fn get<T>(&self, name: &str, what: &str, read: impl FnOnce(&'a Value<'t>) -> Option<T>) -> Result<T> {
        let value = self.find(name).and_then(read);
        value.ok_or_else(|| self.fail(format_args!("an attribute {name} that is {what}, got none")))
    }

    pub(super) fn size(&self, name: &str) -> Result<usize> {
        self.get(name, "a size", |value| match value {
            Value::Int(size) => usize::try_from(*size).ok(),
            _ => None,
        })
    }

    pub(super) fn bits(&self, name: &str) -> Result<u32> {
        let bits = self.size(name)?;
        u32::try_from(bits).map_err(|_| self.fail(format_args!("{name} of 32 bits, got {bits}")))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        self.get(name, "true or false", |value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn flags(&self, name: &str) -> Result<&'a [bool]> {
        self.get(name, "an array of flags", |value| match value {
            Value::Flags(flags) => Some(&flags[..]),
            _ => None,
        })
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str> {
        self.get(name, "text", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn literal(&self, name: &str) -> Result<Literal> {
        self.get(name, "a constant", |value| match value {
            Value::Dense(literal) => Some(literal.clone()),
            _ => None,
        })
    }

    pub(super) fn symbol(&self, name: &str) -> Result<&'t str> {
        self.get(name, "a symbol", |value| match value {
            Value::Symbol(symbol) => Some(*symbol),
            _ => None,
        })
    }

    pub(super) fn ints(&self, name: &str) -> Result<&'a [i64]> {
        self.get(name, "an array of integers", |value| match value {
            Value::Ints(ints) => Some(&ints[..]),
            _ => None,
        })
    }

    pub(super) fn axes(&self, name: &str) -> Result<Axes> {
        let axes = self.ints(name)?.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<Axes>>();
        axes.ok_or_else(|| self.fail(format_args!("{name} that are not negative, got negative ones")))
    }

    /// The entries of a dictionary.
    pub(super) fn dictionary(&self, name: &str) -> Result<Self> {
        let entries = self.get(name, "a dictionary", |value| match value {
            Value::Entries(entries) => Some(&entries[..]),
            _ => None,
        })?;
        Ok(Self { entries, ..*self })
    }

    /// All of these as constants of a composite.
    pub(super) fn constants(&self) -> Result<Attributes> {
        let constants = self.entries.iter().map(|(name, value)| {
            let constant = match value {
                Value::Flag(flag) => Attribute::Bool(*flag),
                Value::Int(int) => Attribute::Int(*int),
                Value::Float(float) => Attribute::Float(*float),
                Value::Text(text) => Attribute::Text(text.clone()),
                Value::Ints(ints) => Attribute::Ints(ints.clone()),
                _ => return Err(self.fail(format_args!("constants of a composite, got another {name}"))),
            };
            Ok((name.clone(), constant))
        });
        Ok(Attributes(constants.collect::<Result<_>>()?))
    }

    /// The words between the angle brackets of `#stablehlo…<…>`.
    pub(super) fn words(&self, name: &str) -> Result<&'a [Token<'t>]> {
        self.get(name, "of the StableHLO dialect", |value| match value {
            Value::Dialect(words) => Some(&words[..]),
            _ => None,
        })
    }

    /// The variant that the last word names, as in `#stablehlo<precision HIGH>`.
    pub(super) fn variant<T: Copy>(&self, name: &str, all: &[T], shown: fn(T) -> &'static str) -> Result<T> {
        let word = self.words(name)?.last().map_or("", |word| word.text);
        self.named(all, shown, word)
    }

    pub(super) fn named<T: Copy>(&self, all: &[T], shown: fn(T) -> &'static str, word: &str) -> Result<T> {
        let found = all.iter().copied().find(|&variant| shown(variant) == word);
        found.ok_or_else(|| self.fail(format_args!("a name that StableHLO has, got {word:?}")))
    }

    /// `name = [1, 2]` within the words of an attribute.
    pub(super) fn inner_axes(&self, attribute: &str, name: &str) -> Result<Axes> {
        let mut words = self.after(attribute, name)?.iter();
        let mut axes = Axes::new();
        if words.next().map(|word| word.text) == Some("[") {
            for word in words {
                match (word.kind, word.text) {
                    (Kind::Int, digits) => match digits.parse() {
                        Ok(axis) => axes.push(axis),
                        Err(_) => break,
                    },
                    (_, ",") => {}
                    (_, "]") => return Ok(axes),
                    _ => break,
                }
            }
        }
        Err(self.fail(format_args!("a list {name} of axes, got none")))
    }

    /// `name = 1` within the words of an attribute.
    pub(super) fn inner_number<N: std::str::FromStr>(&self, attribute: &str, name: &str) -> Result<N> {
        let word = self.after(attribute, name)?.first();
        word.and_then(|word| word.text.parse().ok()).ok_or_else(|| self.fail(format_args!("a number {name}, got none")))
    }

    /// What follows `name =`.
    fn after(&self, attribute: &str, name: &str) -> Result<&'a [Token<'t>]> {
        let words = self.words(attribute)?;
        let place = words.windows(2).position(|pair| pair[0].text == name && pair[1].text == "=");
        place.map(|at| &words[at + 2..]).ok_or_else(|| self.fail(format_args!("{name} in {attribute}, got none")))
    }

    pub(super) fn precision(&self) -> Result<Precision> {
        let word = self.get("precision_config", "a list of precisions", |value| match value {
            Value::List(list) => match list.first() {
                Some(Value::Dialect(words)) => words.last().map(|word| word.text),
                _ => None,
            },
            _ => None,
        })?;
        self.named(Precision::ALL, Precision::name, word)
    }

    /// Rows of integers, and the length of a row.
    pub(super) fn table(&self, name: &str) -> Result<(Vec<i64>, usize)> {
        let literal = self.get(name, "a table of integers", |value| match value {
            // Each element is written, so there are no more than characters, whatever the type says.
            Value::Dense(literal) if literal.shape().elements().is_some_and(|n| n <= self.source.len()) => {
                Some(literal)
            }
            _ => None,
        })?;
        let columns = literal.shape().sizes().get(1).copied();
        match (columns, literal.to_vec::<i64>()) {
            (Some(columns), Ok(values)) => Ok((values, columns)),
            _ => Err(self.fail(format_args!("{name} in rows of int64, got other elements"))),
        }
    }

    pub(super) fn pairs<C: FromIterator<(i64, i64)>>(&self, name: &str) -> Result<C> {
        let (values, columns) = self.table(name)?;
        if columns != 2 {
            return Err(self.fail(format_args!("pairs as {name}, got rows of {columns}")));
        }
        Ok(values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }

    /// Device numbers.
    pub(super) fn devices(&self, values: &[i64]) -> Result<Vec<u32>> {
        let devices = values.iter().map(|&device| u32::try_from(device).ok()).collect::<Option<_>>();
        devices.ok_or_else(|| self.fail("device numbers of 32 bits, got others"))
    }

    pub(super) fn groups(&self) -> Result<ReplicaGroups> {
        let (values, columns) = self.table("replica_groups")?;
        let devices = self.devices(&values)?;
        let groups = devices.chunks_exact(columns.max(1)).map(|row| row.into()).collect();
        Ok(ReplicaGroups { groups, channel: self.channel()? })
    }

    /// The channel number, 0 if there is none.
    pub(super) fn channel(&self) -> Result<u64> {
        match self.find("channel_handle") {
            None => Ok(0),
            Some(_) => self.inner_number("channel_handle", "handle"),
        }
    }
}
