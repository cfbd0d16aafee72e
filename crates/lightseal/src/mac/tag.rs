//! Tags of files and of standard input, computed in bounded memory.

use crate::failure::{Context, Failure};
use crate::keys::decode_hex;
use crate::mac::key_file::Keys;
use crate::progress::Progress;
use ::cipher::{BlockCipherEncrypt, KeyInit};
use clap::Args;
use lightmac::{Hasher, MessageTooLong, Present80, Present128, Stream, Tag, max_message_bits};
use lightseal_cli::ciphers::CipherName;
use serde_json::json;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code for a tag that does not belong to the message.
const MISMATCH: u8 = 1;

/// Number of bytes that are read at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// Maximum length of a tag file in bytes. A tag has at most 16 bytes, which are 32 digits; the rest
/// is for white space.
const MAX_TAG_FILE_BYTES: u64 = 1024;

/// The flags that `tag` and `verify` share.
#[derive(Clone, Debug, Args)]
pub(crate) struct MacArgs {
    /// Block cipher.
    #[arg(long, value_enum, default_value_t)]
    cipher: CipherName,
    /// Length s of the block counter in bits, from 1 to half a block. Messages may have up to
    /// 2^s·(n − s) bits, where n is the block length in bits.
    #[arg(long, value_name = "S", default_value_t = 16)]
    counter_bits: u32,
    /// Length t of the tag in bits, from 1 to a whole block [default: a whole block].
    #[arg(long, value_name = "T")]
    tag_bits: Option<u32>,
    /// File with K1 and K2 in hexadecimal, with white space between them.
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// File with the message; - is standard input.
    #[arg(value_name = "MESSAGE-FILE", default_value = "-")]
    message: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TagArgs {
    #[command(flatten)]
    mac: MacArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    mac: MacArgs,
    /// Expected tag, in hexadecimal.
    #[arg(long, value_name = "HEX", required_unless_present = "tag_file")]
    tag: Option<String>,
    /// File with the expected tag in hexadecimal.
    #[arg(long, value_name = "FILE", conflicts_with = "tag")]
    tag_file: Option<PathBuf>,
}

/// Prints the tag of the message.
pub(crate) fn tag(args: &TagArgs, quiet: bool) -> Result<ExitCode, Failure> {
    let MacArgs { cipher, counter_bits, json, .. } = args.mac;
    args.mac.check()?;
    let (tag, message_bytes) = args.mac.compute(quiet)?;
    let tag_bits = tag.bits();
    let tag = Hex(tag.as_bytes());
    let line = if json {
        json!({
            "cipher": cipher.to_string(),
            "counter_bits": counter_bits,
            "message_bytes": message_bytes,
            "tag": tag.to_string(),
            "tag_bits": tag_bits,
        })
        .to_string()
    } else {
        tag.to_string()
    };
    writeln!(io::stdout(), "{line}").context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Compares the tag of the message with the expected tag.
pub(crate) fn verify(args: &VerifyArgs, quiet: bool) -> Result<ExitCode, Failure> {
    args.mac.check()?;
    let expected = args.expected()?;
    let (tag, message_bytes) = args.mac.compute(quiet)?;
    let valid = tag == expected;
    let name = args.mac.message_name();
    if args.mac.json {
        let line = json!({ "message_bytes": message_bytes, "valid": valid });
        writeln!(io::stdout(), "{line}").context("standard output")?;
    } else if valid && !quiet {
        writeln!(io::stdout(), "{name}: ok").context("standard output")?;
    }
    if valid {
        return Ok(ExitCode::SUCCESS);
    }
    // If standard error is closed, the exit code still tells.
    let _ = writeln!(io::stderr(), "lightseal: {name}: this is not the message's tag");
    Ok(ExitCode::from(MISMATCH))
}

impl VerifyArgs {
    /// The expected tag, which must have exactly the expected length.
    fn expected(&self) -> Result<Tag, Failure> {
        let (name, text) = match &self.tag_file {
            Some(path) => {
                let name = format!("tag file {}", path.display());
                let mut text = String::new();
                let file = File::open(path).context(&name)?;
                file.take(MAX_TAG_FILE_BYTES).read_to_string(&mut text).context(&name)?;
                (name, text)
            }
            None => ("--tag".into(), self.tag.clone().unwrap_or_default()),
        };
        parse_tag(text.trim(), self.mac.tag_bits()).context(name)
    }
}

/// Parses a tag of `bits` bits from ⌈bits/8⌉ bytes in hexadecimal.
fn parse_tag(text: &str, bits: u32) -> Result<Tag, String> {
    let bytes = decode_hex(text).ok_or("not a tag in hexadecimal")?;
    let needs = bits.div_ceil(8) as usize;
    if bytes.len() != needs {
        let is = bytes.len();
        return Err(format!("{is} bytes, and a tag of {bits} bits has {needs}; see --tag-bits"));
    }
    let tag = Tag::leading(&bytes, bits);
    if tag.as_bytes() != &bytes[..] {
        return Err(format!("the last byte has bits set behind the tag's {bits}"));
    }
    Ok(tag)
}

impl MacArgs {
    fn tag_bits(&self) -> u32 {
        self.tag_bits.unwrap_or(self.cipher.block_bits())
    }

    fn message_name(&self) -> String {
        if self.is_stdin() { "standard input".into() } else { self.message.display().to_string() }
    }

    fn is_stdin(&self) -> bool {
        self.message == Path::new("-")
    }

    /// Checks the lengths of counter and tag before anything is read.
    fn check(&self) -> Result<(), Failure> {
        let (cipher, n) = (self.cipher, self.cipher.block_bits());
        let check = |flag, given: u32, most| {
            if (1..=most).contains(&given) {
                Ok(())
            } else {
                Err(Failure::new(format_args!("{flag} {given}: {cipher} allows 1 to {most} bits")))
            }
        };
        check("--counter-bits", self.counter_bits, n / 2)?;
        check("--tag-bits", self.tag_bits(), n)
    }

    /// The tag of the message, and the message's length in bytes.
    fn compute(&self, quiet: bool) -> Result<(Tag, u64), Failure> {
        let keys = Keys::read(&self.key_file, self.cipher)?;
        match self.cipher {
            CipherName::Aes128 => self.compute_with::<lightmac::Aes128>(&keys, quiet),
            CipherName::Aes256 => self.compute_with::<lightmac::Aes256>(&keys, quiet),
            CipherName::Present80 => self.compute_with::<Present80>(&keys, quiet),
            CipherName::Present128 => self.compute_with::<Present128>(&keys, quiet),
        }
    }

    fn compute_with<C>(&self, keys: &Keys, quiet: bool) -> Result<(Tag, u64), Failure>
    where
        C: BlockCipherEncrypt + KeyInit + 'static,
    {
        let cipher = |key: &[u8]| C::new_from_slice(key).context("key");
        let hasher = Hasher::from_cipher(cipher(&keys.k1)?, self.counter_bits);
        let mut stream = Stream::new(hasher.context("--counter-bits")?, cipher(&keys.k2)?);
        let name = self.message_name();
        let (mut input, size): (Box<dyn Read>, _) = if self.is_stdin() {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(&self.message).context(&name)?;
            let metadata = file.metadata().context(&name)?;
            let size = metadata.is_file().then_some(metadata.len());
            (Box::new(file), size)
        };
        // A message whose length is known to be too long is refused at once, not after hours.
        if let Some(size) = size {
            self.check_length(size).context(&name)?;
        }
        let progress = Progress::bytes(size, quiet);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut taken = 0;
        loop {
            let count = match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::new(format_args!("{name}: {error}"))),
            };
            let refused = |_: MessageTooLong| self.too_long(None);
            stream.update(&chunk[..count]).map_err(refused).context(&name)?;
            taken += count as u64;
            progress.set_bytes(taken);
        }
        Ok((Tag::leading(&stream.finalize(), self.tag_bits()), taken))
    }

    fn check_length(&self, bytes: u64) -> Result<(), String> {
        let most = max_message_bits(self.cipher.block_bits() as usize / 8, self.counter_bits);
        if u128::from(bytes) * 8 > most { Err(self.too_long(Some(bytes))) } else { Ok(()) }
    }

    /// The error for a message that is too long for the counter. `bytes` is its length if that is
    /// known.
    fn too_long(&self, bytes: Option<u64>) -> String {
        let (cipher, s, n) = (self.cipher, self.counter_bits, self.cipher.block_bits());
        let most = |s| max_message_bits(n as usize / 8, s) / 8;
        let fits = |s: &u32| bytes.is_none_or(|bytes| most(*s) >= bytes.into());
        let advice = match (s + 1..=n / 2).find(fits) {
            Some(enough) => format!("; --counter-bits {enough} or more allows it"),
            None => String::new(),
        };
        let advice = if bytes.is_some() { advice } else { "; see --counter-bits".into() };
        let most = most(s);
        format!("longer than the {most} bytes that {s} counter bits allow with {cipher}{advice}")
    }
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::cipher::{BlockSizeUser, KeySizeUser};

    #[test]
    fn a_tag_has_its_length_to_the_bit() {
        assert_eq!(parse_tag("ffe0", 11).unwrap().as_bytes(), [0xff, 0xe0]);
        assert!(parse_tag("fff0", 11).unwrap_err().contains("bits set behind"));
        assert!(parse_tag("ff", 11).unwrap_err().contains("has 2; see --tag-bits"));
        assert!(parse_tag("ff", 8).is_ok());
        assert!(parse_tag("ffe", 11).unwrap_err().contains("hexadecimal"));
        assert!(parse_tag("", 11).is_err());
    }

    fn sizes<C: BlockSizeUser + KeySizeUser>() -> (u32, usize) {
        (C::block_size() as u32 * 8, C::key_size())
    }

    #[test]
    fn sizes_are_those_of_the_ciphers() {
        for (name, expected) in [
            (CipherName::Aes128, sizes::<lightmac::Aes128>()),
            (CipherName::Aes256, sizes::<lightmac::Aes256>()),
            (CipherName::Present80, sizes::<Present80>()),
            (CipherName::Present128, sizes::<Present128>()),
        ] {
            assert_eq!((name.block_bits(), name.key_bytes()), expected, "{name}");
        }
    }
}
