//! The flash and the static RAM of an image without instruments.

use crate::Failure;
use crate::process::capture;
use crate::toolchain::Toolchain;
use std::collections::BTreeMap;
use std::path::Path;

/// The sizes of an image in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    /// Code, constants and the first values of variables.
    pub(super) flash: u64,
    /// Variables.
    pub(super) statics: u64,
    pub(super) crates: Vec<Share>,
}

/// The flash of one crate, as far as symbols tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) name: String,
    /// Functions and constants that are defined in the crate, with what the compiler inlined into
    /// them.
    pub(super) own: u64,
    /// Functions of `core` and `alloc` that were made for types of the crate.
    pub(super) generics: u64,
}

/// What has no name of a crate: outlined pieces of code, helpers of the compiler, C.
const NAMELESS: &str = "(compiler)";
/// What has no symbol: strings and tables without a name, alignment.
const UNNAMED: &str = "(without a symbol)";
/// Crates whose generic functions are counted for the crate of their types.
const LIBRARIES: [&str; 2] = ["alloc", "core"];

/// The symbols of an image, as `nm` lists them.
pub(super) fn symbols(toolchain: &Toolchain, image: &Path) -> Result<String, Failure> {
    let path = image.to_string_lossy();
    capture(toolchain.gnu("nm", &["--size-sort", "-S", "-C", &path])).map_err(Failure::Failed)
}

/// Sizes an image.
pub(super) fn sizes(toolchain: &Toolchain, image: &Path) -> Result<Sizes, Failure> {
    let path = image.to_string_lossy();
    let size = capture(toolchain.gnu("size", &[&path])).map_err(Failure::Failed)?;
    read(&size, &symbols(toolchain, image)?)
        .ok_or_else(|| Failure::Failed(format!("size printed something unexpected: {size}")))
}

/// A line of `nm`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol<'a> {
    pub(super) address: u64,
    size: u64,
    /// A letter, which is small if the symbol is local.
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
}

impl<'a> Symbol<'a> {
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(4, ' ');
        let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
        let (address, size) = (number()?, number()?);
        Some(Self { address, size, kind: fields.next()?, name: fields.next()? })
    }
}

fn read(size: &str, symbols: &str) -> Option<Sizes> {
    let mut fields = size.lines().nth(1)?.split_whitespace().map(str::parse::<u64>);
    let mut field = || fields.next()?.ok();
    let [text, data, bss] = [field()?, field()?, field()?];
    // A device has as many of these as it has interrupts, and the images of peers have none.
    let vectors: u64 = symbols.lines().filter_map(interrupts).sum();
    let text = text.saturating_sub(vectors);
    let mut crates = shares(symbols);
    let named: u64 = crates.iter().map(|share| share.own + share.generics).sum();
    let own = (text + data).saturating_sub(named);
    crates.push(Share { name: UNNAMED.into(), own, generics: 0 });
    crates.sort_by_key(|share| std::cmp::Reverse(share.own + share.generics));
    Some(Sizes { flash: text + data, statics: data + bss, crates })
}

/// The table of handlers for interrupts in which cortex-m-rt has room for all that a processor can
/// have.
const INTERRUPTS: &str = "__INTERRUPTS";

/// The bytes of that table, if this is its symbol.
fn interrupts(symbol: &str) -> Option<u64> {
    Symbol::read(symbol).filter(|symbol| symbol.name == INTERRUPTS).map(|symbol| symbol.size)
}

/// The symbols of flash, by crate.
fn shares(symbols: &str) -> Vec<Share> {
    let mut shares = BTreeMap::<String, Share>::new();
    for symbol in symbols.lines().filter_map(Symbol::read) {
        if symbol.kind.eq_ignore_ascii_case("b") || symbol.name == INTERRUPTS {
            continue;
        }
        let crate_name = accountable(symbol.name);
        let share = shares.entry(crate_name.to_owned()).or_default();
        let is_own = crate_name == owner(symbol.name);
        *(if is_own { &mut share.own } else { &mut share.generics }) += symbol.size;
    }
    let named = shares.into_iter().map(|(name, share)| Share { name, ..share });
    named.collect()
}

/// The crate in which a function is defined: the first path in its name. A method of a primitive
/// type, such as `<[u8] as Trait>::method`, belongs to the crate of the trait.
fn owner(symbol: &str) -> &str {
    paths(symbol).next().unwrap_or(NAMELESS)
}

/// The crate for which a function counts: the one that defines it, or the one for whose types a
/// function of a library was made.
pub(super) fn accountable(symbol: &str) -> &str {
    let owner = owner(symbol);
    let is_other = |name: &&str| LIBRARIES.contains(&owner) && !LIBRARIES.contains(name);
    paths(symbol).find(is_other).unwrap_or(owner)
}

/// The crates of all paths in a demangled name, in order.
fn paths(symbol: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    symbol.match_indices("::").filter_map(move |(at, _)| {
        let before = &symbol[..at];
        let word = before.trim_end_matches(is_word);
        let name = &before[word.len()..];
        let begins = !word.ends_with("::") && !name.is_empty();
        (begins && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_belongs_to_the_crate_that_defines_it() {
        assert_eq!(owner("<engine::Connection>::poll::<core::net::IpAddr>"), "engine");
        assert_eq!(owner("<[u8] as engine::wire::Encode>::write"), "engine");
        assert_eq!(owner("<&engine::Tag as core::fmt::Debug>::fmt"), "engine");
        assert_eq!(owner("OUTLINED_FUNCTION_12"), NAMELESS);
        assert_eq!(owner("compiler_builtins::int::shift::__lshrdi3"), "compiler_builtins");
    }

    #[test]
    fn library_code_is_counted_for_the_types_it_was_made_for() {
        let symbols = "00000010 00000020 t <engine::Connection>::poll\n\
                       00000030 00000008 t <alloc::vec::Vec<engine::Tag>>::push\n\
                       00000040 00000004 t <alloc::raw_vec::RawVec<u8>>::grow\n\
                       00000040 000003c0 R __INTERRUPTS\n\
                       20000000 00000028 b footprint::heap::ALLOCATOR\n";
        let sizes = read("text data bss\n 1060 2 40 x", symbols).expect("both are well formed");
        assert_eq!((sizes.flash, sizes.statics), (102, 42));
        let share = |name: &str, own, generics| Share { name: name.into(), own, generics };
        assert_eq!(
            sizes.crates,
            [share(UNNAMED, 58, 0), share("engine", 32, 8), share("alloc", 4, 0)]
        );
    }
}
