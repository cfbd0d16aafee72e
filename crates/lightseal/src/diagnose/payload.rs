//! Received payloads, on standard output.

use super::exporter::hex;
use crate::failure::{Context, Failure};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};

/// Prints a payload as a line. On a terminal, control characters are escaped: the peer chooses
/// them, and they could change what the terminal shows.
pub(super) fn print(prefix: &str, payload: &[u8]) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    let mut line = prefix.as_bytes().to_vec();
    if output.is_terminal() {
        line.extend(escaped(payload).bytes());
    } else {
        line.extend(payload);
    }
    line.push(b'\n');
    output.write_all(&line).and_then(|()| output.flush()).context("standard output")
}

/// A payload as text whose control characters are escaped.
fn escaped(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(payload);
    text.chars().fold(String::new(), |mut shown, character| {
        if character.is_control() && character != '\t' {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        shown
    })
}

/// A payload for scripts: its text if it is text, else its bytes in hexadecimal.
pub(super) fn json(payload: &[u8]) -> Value {
    match std::str::from_utf8(payload) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "hex": hex(payload) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_write_to_the_terminal() {
        assert_eq!(escaped(b"23.5 \xc2\xb0C\t\x1b[2J\r\n"), "23.5 °C\t\\u{1b}[2J\\r\\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_in_hexadecimal() {
        assert_eq!(json(b"a\n"), json!({ "text": "a\n" }));
        assert_eq!(json(b"\xff\x00"), json!({ "hex": "ff00" }));
    }
}
