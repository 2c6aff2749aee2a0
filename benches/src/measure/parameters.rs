//! What a case is of: `key=value` words.

use super::Result;
use std::collections::BTreeMap;

/// The words behind the kind of a case.
#[derive(Debug)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads `key=value` words with spaces between them.
    ///
    /// # Errors
    /// On a word without `=`.
    pub fn parse(words: &str) -> Result<Self> {
        let pairs = words.split_whitespace().map(|word| match word.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("requires words like key=value, got `{word}`")),
        });
        pairs.collect::<Result<_>>().map(Self)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// When there is none.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.0.get(key).map(String::as_str).ok_or_else(|| format!("requires {key}=…, got {:?}", self.0))
    }

    /// The value of a key, one of `choices`.
    ///
    /// # Errors
    /// When it is none of them, or there is none.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T> {
        let text = self.text(key)?;
        let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| format!("requires one of {} for {key}, got `{text}`", names()))
    }

    /// The value of a key as a number.
    ///
    /// # Errors
    /// When there is none, or it is no size.
    pub fn size(&self, key: &str) -> Result<usize> {
        let text = self.text(key)?;
        text.parse().map_err(|_| format!("requires a size for {key}, got `{text}`"))
    }

    /// Several sizes.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    pub fn sizes<const N: usize>(&self, keys: [&str; N]) -> Result<[usize; N]> {
        let mut sizes = [0; N];
        for (size, key) in sizes.iter_mut().zip(keys) {
            *size = self.size(key)?;
        }
        Ok(sizes)
    }

    /// A size, or `other` where the key is not given.
    ///
    /// # Errors
    /// When it is no size.
    pub fn size_or(&self, key: &str, other: usize) -> Result<usize> {
        if self.0.contains_key(key) { self.size(key) } else { Ok(other) }
    }

    /// Of a product's operands: whether each lies transposed, by `layout`'s two letters, `n` or `t`. Neither where none is given.
    ///
    /// # Errors
    /// On other letters.
    pub fn transposed(&self) -> Result<(bool, bool)> {
        if !self.0.contains_key("layout") {
            return Ok((false, false));
        }
        let layouts = [("nn", (false, false)), ("nt", (false, true)), ("tn", (true, false)), ("tt", (true, true))];
        self.choice("layout", &layouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_by_key() {
        let parameters = Parameters::parse("m=4 n=5 layout=tn").unwrap();
        assert_eq!(parameters.sizes(["n", "m"]).unwrap(), [5, 4]);
        assert_eq!(parameters.size_or("batch", 1).unwrap(), 1);
        assert_eq!(parameters.transposed().unwrap(), (true, false));
    }

    #[test]
    fn what_is_missing_or_no_size_is_named() {
        let parameters = Parameters::parse("m=four layout=ab").unwrap();
        assert!(parameters.size("k").unwrap_err().contains("requires k=…"));
        assert!(parameters.size("m").unwrap_err().contains("got `four`"));
        assert!(parameters.transposed().unwrap_err().contains("one of nn, nt, tn, tt for layout, got `ab`"));
        assert!(Parameters::parse("m").is_err());
    }
}
