//! The stack frames of an image's functions, which the compiler lists in the section `.stack_sizes`:
//! for each function its address (4 bytes, little-endian) and the bytes of its frame (LEB128). The
//! frame of a function contains the frames of what was inlined into it.

use super::flash;
use crate::Failure;
use crate::process::run;
use crate::toolchain::Toolchain;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Makes the compiler write the section.
pub(super) const FLAG: &str = "-Zemit-stack-sizes";

/// The bar for a function of our crates, in bytes.
pub(crate) const BAR: u64 = 512;

/// The least frame in bytes that is stored.
pub(super) const STORED: u64 = 256;

/// The frame of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The function's demangled name.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// The functions of an image into which the compiler inlines ours: the measured steps, and what drives
/// an end. Buffers of datagrams are in other functions.
const STEPS: [&str; 3] =
    ["footprint::meter::apart::<", "<footprint::client::Client", "<footprint::server::Server"];

impl Frame {
    /// Whether the function is one of our crates, was made for one of their types, or contains some of
    /// them. What the image does besides is not ours.
    pub(super) fn is_ours(&self) -> bool {
        let name = flash::accountable(&self.name);
        ["lightseal_", "lightmac"].iter().any(|ours| name.starts_with(ours))
            || STEPS.iter().any(|step| self.name.starts_with(step))
    }

    /// Whether the function is held to the bar and exceeds it.
    pub(super) fn is_over(&self) -> bool {
        self.bytes > BAR && self.is_ours()
    }
}

/// Reads the frames of an image, largest first. `symbols` are those of `nm`.
pub(super) fn frames(
    toolchain: &Toolchain,
    image: &Path,
    symbols: &str,
) -> Result<Vec<Frame>, Failure> {
    let section = image.with_extension("stack-sizes");
    let mut objcopy = toolchain.gnu("objcopy", &["--dump-section"]);
    objcopy.arg(format!(".stack_sizes={}", section.display())).arg(image).arg("/dev/null");
    run(objcopy).map_err(Failure::Failed)?;
    let failed = |what: &str| Failure::Failed(format!("{}: {what}", section.display()));
    let bytes = fs::read(&section).map_err(|error| failed(&error.to_string()))?;
    read(&bytes, symbols).ok_or_else(|| failed("it is not well formed"))
}

fn read(mut section: &[u8], symbols: &str) -> Option<Vec<Frame>> {
    let names = names(symbols);
    let mut frames = Vec::new();
    while let Some((address, rest)) = section.split_first_chunk::<4>() {
        let (bytes, rest) = leb128(rest)?;
        section = rest;
        // A function that the linker has dropped has no name.
        if let Some(name) = names.get(&without_mode(u32::from_le_bytes(*address).into())) {
            frames.push(Frame { name: (*name).to_owned(), bytes });
        }
    }
    frames.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
    section.is_empty().then_some(frames)
}

/// The number at the beginning, and what follows.
fn leb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = 1 + bytes.iter().position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at_checked(length)?;
    let add = |sum: u64, byte: &u8| sum.checked_mul(0x80)?.checked_add(u64::from(byte & 0x7f));
    Some((number.iter().rev().try_fold(0, add)?, rest))
}

/// The names of functions by address.
fn names(symbols: &str) -> BTreeMap<u64, &str> {
    let named = symbols.lines().filter_map(|line| {
        let symbol = flash::Symbol::read(line)?;
        "tTwW".contains(symbol.kind).then_some((without_mode(symbol.address), symbol.name))
    });
    named.collect()
}

/// The address without the bit that says that the code is Thumb.
fn without_mode(address: u64) -> u64 {
    address & !1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "00000010 00000020 t <lightseal_dtls::Connection>::poll\n\
                           00000031 00000008 t footprint::main\n\
                           00000040 00000008 t <alloc::vec::Vec<lightmac::Tag>>::push\n";

    #[test]
    fn frames_are_listed_largest_first_with_the_names_of_their_functions() {
        let section = [0x11, 0, 0, 0, 0x08, 0x31, 0, 0, 0, 0x80, 0x04, 0x99, 0, 0, 0, 0x10];
        let frames = read(&section, SYMBOLS).expect("well formed");
        let listed: Vec<_> =
            frames.iter().map(|frame| (frame.name.as_str(), frame.bytes)).collect();
        assert_eq!(listed, [("footprint::main", 512), ("<lightseal_dtls::Connection>::poll", 8)]);
        assert_eq!(read(&section[..10], SYMBOLS), None, "a number is cut");
        assert_eq!(read(&section[..7], SYMBOLS), None, "an address is cut");
    }

    #[test]
    fn functions_made_for_types_of_our_crates_are_ours() {
        let is_ours = |name: &str| Frame { name: name.into(), bytes: 0 }.is_ours();
        let ours = SYMBOLS.lines().map(|line| is_ours(line.splitn(4, ' ').last().expect("a name")));
        assert_eq!(ours.collect::<Vec<_>>(), [true, false, true]);
        assert!(is_ours("footprint::meter::apart::<footprint::client::Client, main::{closure#0}>"));
    }
}
