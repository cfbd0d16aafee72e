//! Measured steps. Each prints one line: `step NAME stack S heap H peak P blocks B`.

use crate::{heap, machine};

/// Text and numbers that become one line of output.
pub enum Part<'a> {
    /// Text.
    Text(&'a str),
    /// A number in decimal.
    Number(usize),
}

/// Prints one line. It does without `core::fmt`, which would be a part of every image's flash.
pub fn line(parts: &[Part<'_>]) {
    let Some(mut console) = machine::console() else { machine::exit(1) };
    for part in parts {
        match part {
            Part::Text(text) => console.write(text.as_bytes()),
            Part::Number(number) => {
                let (mut digits, mut rest) = ([0; 10], *number);
                let mut first = digits.len();
                for (at, digit) in digits.iter_mut().enumerate().rev() {
                    *digit = b'0' + (rest % 10) as u8;
                    rest /= 10;
                    first = at;
                    if rest == 0 {
                        break;
                    }
                }
                console.write(digits.get(first..).unwrap_or_default());
            }
        }
    }
    console.write(b"\n");
}

/// Prints a named value.
pub fn value(name: &str, bytes: usize) {
    line(&[Part::Text("value "), Part::Text(name), Part::Text(" "), Part::Number(bytes)]);
}

#[inline(never)]
fn apart<T>(step: impl FnOnce() -> T) -> T {
    step()
}

/// Runs a step between two marks, and prints the stack and the heap that it took.
pub fn measured<T>(name: &str, step: impl FnOnce() -> T) -> T {
    let top = machine::stack_pointer();
    machine::paint_stack(top);
    heap::restart_peak();
    machine::mark();
    let result = apart(step);
    machine::mark();
    let stack = machine::stack_depth(top);
    let heap = heap::usage();
    line(&[
        Part::Text("step "),
        Part::Text(name),
        Part::Text(" stack "),
        Part::Number(stack),
        Part::Text(" heap "),
        Part::Number(heap.bytes),
        Part::Text(" peak "),
        Part::Number(heap.peak),
        Part::Text(" blocks "),
        Part::Number(heap.blocks),
        Part::Text(" allocations "),
        Part::Number(heap.allocations),
    ]);
    result
}
