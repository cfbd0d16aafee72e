//! Test vectors in JSON, whose bytes are hexadecimal text.

use serde_json::Value;

/// # Panics
/// If the text is no JSON.
pub fn file(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// # Panics
/// If the value is no list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// # Panics
/// If the value is no number.
pub fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// # Panics
/// If the value is no text of pairs of hexadecimal digits.
pub fn unhex(text: &Value) -> Vec<u8> {
    hex(text.as_str().expect("hex"))
}

/// The bytes of hexadecimal digits.
///
/// # Panics
/// If the text has other characters, or an odd number of them.
pub fn hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text}");
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// # Panics
/// If the value is no hexadecimal text of `N` bytes.
pub fn array<const N: usize>(text: &Value) -> [u8; N] {
    unhex(text).try_into().expect("the right length")
}
