//! Named values that a plugin gives.

use super::api::{list_of, text_of};
use super::sys::{NamedValue, named};

/// A named value that a plugin gave.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute {
    /// A number.
    Int(i64),
    /// Numbers.
    Ints(Vec<i64>),
    /// A truth value.
    Bool(bool),
    /// A number with a fraction.
    Float(f32),
    /// Text.
    Text(String),
}

impl Attribute {
    /// The value, if it is a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            &Self::Int(number) => Some(number as f64),
            &Self::Float(number) => Some(f64::from(number)),
            Self::Ints(_) | Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

/// Copies of the named values in a plugin's list. Those of a type that we do not know are left out.
///
/// # Safety
///
/// `start` is null or points to `len` values, each with its size in it, and what they point to is alive.
pub unsafe fn attributes_of(start: *const NamedValue, len: usize) -> Vec<(String, Attribute)> {
    if start.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise. The plugin's struct may have grown at its end, which is why it states its size.
    let stride = unsafe { (*start).struct_size }.max(size_of::<NamedValue>());
    let at = |index: usize| {
        // SAFETY: as above; unaligned reads ask nothing of a stated size that is no multiple of 8.
        let value = unsafe { start.byte_add(index * stride).read_unaligned() };
        // SAFETY: the name belongs to the value.
        let name = unsafe { text_of(value.name, value.name_size) };
        let pointer = value.value as usize;
        let attribute = match value.r#type {
            named::INT64 => Attribute::Int(value.value as i64),
            // Narrower members of the union fill its first bytes only.
            named::FLOAT => Attribute::Float(f32::from_bits(value.value as u32)),
            named::BOOL => Attribute::Bool(value.value as u8 != 0),
            // SAFETY: the type says that the union holds this pointer, to so many elements.
            named::STRING => Attribute::Text(unsafe { text_of(pointer as *const _, value.value_size) }),
            // SAFETY: as above.
            named::INT64_LIST => Attribute::Ints(unsafe { list_of(pointer as *const i64, value.value_size) }),
            _ => return None,
        };
        Some((name, attribute))
    };
    (0..len).filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::pjrt::options::{OptionValue, named_value};

    #[test]
    fn what_is_given_as_an_option_reads_back() {
        let options = [
            ("count", OptionValue::Int(-7), Attribute::Int(-7)),
            ("wrap", OptionValue::Ints(vec![1, 2, 3]), Attribute::Ints(vec![1, 2, 3])),
            ("twist", OptionValue::Bool(true), Attribute::Bool(true)),
            ("kind", OptionValue::Text("v5e".into()), Attribute::Text("v5e".into())),
        ];
        let mut raw: Vec<NamedValue> = options.iter().map(|(name, value, _)| named_value(name, value)).collect();
        let number = NamedValue { r#type: named::FLOAT, value: u64::from(1.5f32.to_bits()), ..raw[0] };
        raw.push(number);
        raw.push(NamedValue { r#type: 99, ..raw[0] });
        // SAFETY: `raw` and what it points to is alive.
        let read = unsafe { attributes_of(raw.as_ptr(), raw.len()) };
        let mut want: Vec<_> = options.map(|(name, _, value)| (name.to_string(), value)).into();
        want.push(("count".into(), Attribute::Float(1.5)));
        assert_eq!(read, want);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { attributes_of(std::ptr::null(), 3) }, []);
    }

    #[test]
    fn values_of_a_later_version_are_as_long_as_they_say() {
        #[repr(C)]
        struct Later(NamedValue, [u64; 3]);
        let value = OptionValue::Int(5);
        let one = |name| {
            let named = NamedValue { struct_size: size_of::<Later>(), ..named_value(name, &value) };
            Later(named, [u64::MAX; 3])
        };
        let list = [one("a"), one("b")];
        // SAFETY: the list and its names are alive.
        let read = unsafe { attributes_of(list.as_ptr().cast(), 2) };
        assert_eq!(read, [("a".to_string(), Attribute::Int(5)), ("b".to_string(), Attribute::Int(5))]);
    }
}
