//! `lightseal mac ciphers`: lightweight block ciphers, their sizes, and the names of those that
//! `lightseal mac` supports.

use crate::failure::{Context, Failure};
use clap::Args;
use lightseal_cli::ciphers::{CIPHERS, Cipher};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

#[derive(Clone, Debug, Args)]
pub(crate) struct CiphersArgs {
    /// Print also where each cipher was published.
    #[arg(long)]
    sources: bool,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

/// Prints the table, or JSON.
pub(crate) fn run(args: &CiphersArgs) -> Result<(), Failure> {
    let text = if args.json {
        serde_json::to_string_pretty(&as_json()).context("ciphers")? + "\n"
    } else {
        as_text(args.sources)
    };
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}

fn as_text(sources: bool) -> String {
    let mut out = String::from("cipher       block  key bits           taken as\n");
    for (block_bits, cipher) in by_block() {
        let sizes = || cipher.sizes.iter().filter(|size| size.block_bits == block_bits);
        let keys: Vec<_> = sizes().map(|size| size.key_bits.to_string()).collect();
        let taken: Vec<_> = sizes().filter_map(|size| size.taken_as).collect();
        let (keys, taken) = (keys.join(", "), taken.join(", "));
        let line = format!("{:12} {block_bits:>5}  {keys:18} {taken}", cipher.name);
        let _ = writeln!(out, "{}", line.trim_end());
        if sources {
            let _ = writeln!(out, "    {}", cipher.source);
        }
    }
    out
}

fn as_json() -> Value {
    let rows = by_block().into_iter().flat_map(|(block_bits, cipher)| {
        let sizes = cipher.sizes.iter().filter(move |size| size.block_bits == block_bits);
        sizes.map(|size| {
            json!({
                "cipher": cipher.name,
                "block_bits": size.block_bits,
                "key_bits": size.key_bits,
                "taken_as": size.taken_as,
                "source": cipher.source,
            })
        })
    });
    rows.collect()
}

/// Each cipher with each of its block lengths, the longest blocks first.
fn by_block() -> Vec<(u32, &'static Cipher)> {
    let mut rows = Vec::new();
    for cipher in CIPHERS {
        for size in cipher.sizes {
            if rows.last().is_none_or(|(block_bits, last): &(u32, &Cipher)| {
                *block_bits != size.block_bits || last.name != cipher.name
            }) {
                rows.push((size.block_bits, cipher));
            }
        }
    }
    rows.sort_by_key(|(block_bits, _)| std::cmp::Reverse(*block_bits));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use lightseal_cli::ciphers::CipherName;

    #[test]
    fn exactly_what_mac_takes_is_said_to_be_taken() {
        let mut taken = Vec::new();
        for size in CIPHERS.iter().flat_map(|cipher| cipher.sizes) {
            if let Some(name) = size.taken_as {
                let cipher = CipherName::from_str(name, false).expect(name);
                assert_eq!(size.block_bits, cipher.block_bits(), "{name}");
                assert_eq!(size.key_bits as usize, cipher.key_bytes() * 8, "{name}");
                taken.push(cipher);
            }
        }
        assert_eq!(taken, CipherName::value_variants());
    }

    #[test]
    fn text_and_json_have_every_size() {
        let sizes = CIPHERS.iter().map(|cipher| cipher.sizes.len()).sum::<usize>();
        assert_eq!(as_json().as_array().map(Vec::len), Some(sizes));
        let text = as_text(true);
        assert!(text.lines().any(|line| line.split_whitespace().eq([
            "PRESENT",
            "64",
            "80,",
            "128",
            "present-80,",
            "present-128"
        ])));
        assert!(text.lines().any(|line| line.split_whitespace().eq(["KATAN", "32", "80"])));
    }
}
