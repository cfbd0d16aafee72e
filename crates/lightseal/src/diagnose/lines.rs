//! Standard input, one payload for each line.

use std::io::{self, BufRead};
use tokio::sync::mpsc::{Receiver, channel};

/// Number of lines that wait to be sent.
const WAITING: usize = 64;

/// The longest line that is read, in bytes. No datagram holds more.
const MOST_BYTES: u64 = 65_536;

/// The lines of standard input without their ends. The channel closes at the end of input.
///
/// A thread of its own reads them, for which the program does not wait when it ends: reading from a
/// terminal cannot be interrupted.
pub(super) fn read() -> Receiver<Vec<u8>> {
    let (sender, lines) = channel(WAITING);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = next(&mut input) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The next line; `None` at the end of input, or if it cannot be read. A line of more than
/// [`MOST_BYTES`] comes in several parts.
fn next(input: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = io::Read::take(input, MOST_BYTES).read_until(b'\n', &mut line);
    match read {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            if line.pop_if(|last| *last == b'\n').is_some() {
                line.pop_if(|last| *last == b'\r');
            }
            Some(line)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_lines_are_not_sent_and_the_last_line_needs_none() {
        let mut input = &b"one\n\ntwo\r\n\rthree\r"[..];
        let lines: Vec<_> = std::iter::from_fn(|| next(&mut input)).collect();
        assert_eq!(lines, [&b"one"[..], b"", b"two", b"\rthree\r"]);
    }
}
