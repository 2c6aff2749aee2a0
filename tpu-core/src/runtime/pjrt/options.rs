//! Options of a client, checked before a plugin sees them: a wrong value makes plugins end the process.

use super::sys::{NamedValue, named};
use crate::{Error, ErrorKind, Result};

/// The value of an option.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// A number.
    Int(i64),
    /// Numbers.
    Ints(Vec<i64>),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
}

/// Names whose values are known, and what they must be. Plugins end the process on some of what is refused here: −1
/// devices, devices as text. 64 devices is the most that was tried.
const KNOWN: &[(&str, Allowed)] = &[
    ("cpu_device_count", Allowed::Int(1, 64)),
    ("process_id", Allowed::Int(0, i32::MAX as i64)),
    ("asynchronous", Allowed::Bool),
];

enum Allowed {
    /// A number in these bounds.
    Int(i64, i64),
    Bool,
}

/// Errors with [`ErrorKind::Value`] unless the plugin can be given this option. A name that is not known here passes if
/// it can be a name; the plugin judges it.
pub fn check(name: &str, value: &OptionValue) -> Result<()> {
    let wrong = |want: String| {
        let message = format!("requires {want} as client option {name:?}, got {value:?}");
        Err(Error::new(ErrorKind::Value, "pjrt", message))
    };
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return wrong("a name of letters, digits and underscores".into());
    }
    match KNOWN.iter().find(|known| known.0 == name).map(|known| &known.1) {
        Some(&Allowed::Int(low, high)) => match value {
            OptionValue::Int(number) if (low..=high).contains(number) => Ok(()),
            _ => wrong(format!("a number from {low} to {high}")),
        },
        Some(Allowed::Bool) if !matches!(value, OptionValue::Bool(_)) => wrong("a truth value".into()),
        Some(Allowed::Bool) | None => Ok(()),
    }
}

/// The option as the C API takes it. It points into `name` and `value`.
pub fn named_value(name: &str, value: &OptionValue) -> NamedValue {
    let (kind, bits, size) = match value {
        OptionValue::Int(number) => (named::INT64, *number as u64, 1),
        OptionValue::Ints(numbers) => (named::INT64_LIST, numbers.as_ptr() as u64, numbers.len()),
        OptionValue::Bool(truth) => (named::BOOL, u64::from(*truth), 1),
        OptionValue::Text(text) => (named::STRING, text.as_ptr() as u64, text.len()),
    };
    NamedValue {
        struct_size: size_of::<NamedValue>(),
        name: name.as_ptr().cast(),
        name_size: name.len(),
        r#type: kind,
        value: bits,
        value_size: size,
        ..NamedValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_end_the_process_are_refused() {
        let bad = [
            ("cpu_device_count", OptionValue::Int(-1)),
            ("cpu_device_count", OptionValue::Int(0)),
            ("cpu_device_count", OptionValue::Int(65)),
            ("cpu_device_count", OptionValue::Text("4".into())),
            ("asynchronous", OptionValue::Int(1)),
            ("", OptionValue::Int(1)),
            ("a\0b", OptionValue::Int(1)),
        ];
        for (name, value) in &bad {
            let error = check(name, value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Value, "{name} {value:?}");
            assert!(error.message().contains("client option"), "{error}");
        }
        for count in [1, 64] {
            check("cpu_device_count", &OptionValue::Int(count)).unwrap();
        }
        check("another_option", &OptionValue::Ints(vec![1])).unwrap();
    }
}
