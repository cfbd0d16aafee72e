//! The file with LightMAC's two keys.
//!
//! The file has K1 and K2 in hexadecimal with white space between them. Lines
//! that begin with `#` are ignored. Messages never show a key.

use crate::failure::{Context, Failure};
use crate::keys::{decode_hex, refuse_exposed};
use lightseal_cli::ciphers::CipherName;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Maximum length of the file in bytes. Two keys in hexadecimal need at most 130 bytes; the rest is
/// for comments.
const MAX_FILE_BYTES: usize = 4096;

type Key = Zeroizing<Vec<u8>>;

/// K1 and K2, which have the cipher's key length and are different.
pub(crate) struct Keys {
    pub(crate) k1: Key,
    pub(crate) k2: Key,
}

impl Keys {
    /// Reads the file, which may be a pipe.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or does not hold two different keys of the cipher's key length.
    pub(crate) fn read(path: &Path, cipher: CipherName) -> Result<Self, Failure> {
        let name = format!("key file {}", path.display());
        let file = File::open(path).context(&name)?;
        let metadata = file.metadata().context(&name)?;
        refuse_exposed(&name, path, &metadata)?;
        // The buffer has its full size from the beginning: a buffer that grows leaves copies of
        // keys in memory.
        let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES + 1));
        file.take(MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text).context(&name)?;
        if text.len() > MAX_FILE_BYTES {
            return Err(Failure::new(format_args!("{name}: longer than {MAX_FILE_BYTES} bytes")));
        }
        parse(&text, cipher).context(&name)
    }
}

fn parse(text: &str, cipher: CipherName) -> Result<Keys, String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    let mut key = |name| {
        let word = words.next().ok_or(format!("no {name}: K1 and K2 are expected, in hex"))?;
        let key = decode_hex(word).ok_or(format!("{name} is not hexadecimal"))?;
        let (is, needs) = (key.len(), cipher.key_bytes());
        if is == needs {
            Ok(key)
        } else {
            Err(format!("{name} has {is} bytes, and a key of {cipher} has {needs}"))
        }
    };
    let (k1, k2) = (key("K1")?, key("K2")?);
    if words.next().is_some() {
        return Err("more than two keys".into());
    }
    if k1.ct_eq(&k2).into() {
        return Err("K1 and K2 are equal: LightMAC is secure with two independent keys only".into());
    }
    Ok(Keys { k1, k2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const K1: &str = "000102030405060708090A0b0c0d0e0f";
    const K2: &str = "f00102030405060708090a0b0c0d0e0f";

    fn error(text: &str) -> String {
        parse(text, CipherName::Aes128).err().unwrap()
    }

    #[test]
    fn keys_are_found_between_any_white_space_and_comments() {
        for text in [
            format!("{K1} {K2}"),
            format!("# K1\n{K1}\n\n  # K2\n\t{K2}\r\n"),
            format!("{K1}\n{K2}\n"),
        ] {
            let keys = parse(&text, CipherName::Aes128).unwrap();
            assert_eq!(keys.k1[..], (0..16).collect::<Vec<u8>>()[..]);
            assert_eq!(keys.k2[0], 0xf0);
        }
    }

    #[test]
    fn each_mistake_is_named() {
        assert_eq!(error(""), "no K1: K1 and K2 are expected, in hex");
        assert_eq!(error(K1), "no K2: K1 and K2 are expected, in hex");
        assert_eq!(error("xyz"), "K1 is not hexadecimal");
        assert_eq!(error(&format!("{K1} 0")), "K2 is not hexadecimal");
        assert_eq!(error(&format!("{K1} 00")), "K2 has 1 bytes, and a key of aes-128 has 16");
        assert_eq!(error(&format!("{K1}{K2}")), "K1 has 32 bytes, and a key of aes-128 has 16");
        assert_eq!(error(&format!("{K1} {K2} 00")), "more than two keys");
        let equal = error(&format!("{K1} {}", K1.to_lowercase()));
        assert!(equal.starts_with("K1 and K2 are equal"));
    }
}
