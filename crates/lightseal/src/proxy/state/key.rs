//! The key under which associations are sealed in the store.

use crate::failure::{Context, Failure};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use hkdf::Hkdf;
use sha2::Sha256;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use zeroize::Zeroizing;

/// What a key file has before the hexadecimal digits of the key.
const LABEL: &str = "state-key:";
/// The longest key file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 10;

const SALT: usize = 16;
const TAG: usize = 16;

/// The key of a store.
pub(crate) struct StateKey {
    /// The key under which rows are sealed.
    seals: Zeroizing<[u8; 32]>,
    /// A key under which some rows are still sealed.
    former: Option<Zeroizing<[u8; 32]>>,
}

impl StateKey {
    /// Makes a file with a new key, which only this user can read.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or exists already.
    pub(crate) fn make(path: &Path) -> Result<(), Failure> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *key).context("no randomness")?;
        let mut line = Zeroizing::new(String::with_capacity(LABEL.len() + 65));
        line.push_str(LABEL);
        for byte in key.iter() {
            for digit in [byte >> 4, byte & 15] {
                line.push(char::from_digit(digit.into(), 16).expect("a hexadecimal digit"));
            }
        }
        line.push('\n');
        crate::keys::store(path, line.as_bytes())
    }

    /// Reads files that [`make`](Self::make) has made: that of the key, and that of a former one under
    /// which some rows are still sealed.
    ///
    /// # Errors
    ///
    /// If one cannot be read, other users can read it, or it holds no key, or both hold one key.
    pub(crate) fn read(path: &Path, former: Option<&Path>) -> Result<Self, Failure> {
        let seals = read_file(&format!("--state-key {}", path.display()), path)?;
        let Some(path) = former else { return Ok(Self { seals, former: None }) };
        let name = format!("--former-state-key {}", path.display());
        let former = read_file(&name, path)?;
        if former == seals {
            return Err(Failure::new(format_args!("{name}: it is the key of --state-key, too")));
        }
        Ok(Self { seals, former: Some(former) })
    }
}

/// Reads one key.
fn read_file(name: &str, path: &Path) -> Result<Zeroizing<[u8; 32]>, Failure> {
    let file = File::open(path).context(name)?;
    crate::keys::refuse_exposed(name, path, &file.metadata().context(name)?)?;
    let mut text = Zeroizing::new(String::with_capacity(MOST_BYTES as usize + 1));
    file.take(MOST_BYTES).read_to_string(&mut text).context(name)?;
    parse(&text).ok_or_else(|| {
        Failure::new(format_args!("{name}: no key as `lightseal proxy state-key FILE` makes it"))
    })
}

fn parse(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let digits = text.strip_suffix('\n').unwrap_or(text).strip_prefix(LABEL)?.as_bytes();
    let mut key = Zeroizing::new([0; 32]);
    if digits.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(key)
}

fn derive(key: &[u8; 32], salt: &[u8], info: &[u8], out: &mut [u8]) {
    let hkdf = Hkdf::<Sha256>::new(Some(salt), key);
    hkdf.expand(info, out).expect("as long as a hash value at most");
}

fn check_value(key: &[u8; 32]) -> [u8; 16] {
    let mut value = [0; 16];
    derive(key, &[], b"lightseal proxy state: check value", &mut value);
    value
}

/// The cipher for one sealing. Each has a key of its own, so that the nonce is always zero.
fn cipher(key: &[u8; 32], salt: &[u8]) -> Aes256Gcm {
    let mut of_row = Zeroizing::new([0; 32]);
    derive(key, salt, b"lightseal proxy state: row", &mut *of_row);
    Aes256Gcm::new((&*of_row).into())
}

fn open(key: &[u8; 32], id: u64, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (salt, rest) = sealed.split_at_checked(SALT)?;
    let (text, tag) = rest.split_at_checked(rest.len().checked_sub(TAG)?)?;
    let tag: &[u8; TAG] = tag.try_into().ok()?;
    let mut state = Zeroizing::new(text.to_vec());
    let text = state.as_mut_slice().into();
    cipher(key, salt)
        .decrypt_inout_detached(&Default::default(), &id.to_be_bytes(), text, tag.into())
        .ok()?;
    Some(state)
}

impl StateKey {
    /// Tells the key under which rows are sealed from others, and nothing else about it.
    pub(super) fn check_value(&self) -> [u8; 16] {
        check_value(&self.seals)
    }

    /// Tells the former key from others, if there is one.
    pub(super) fn former_check_value(&self) -> Option<[u8; 16]> {
        self.former.as_deref().map(check_value)
    }

    /// Seals the state of the association with this number: `salt (16) | ciphertext | tag (16)`. The tag
    /// is also over the number. The state names the epochs, and the engine restores no association whose
    /// marks name others, so that neither can be exchanged.
    ///
    /// # Errors
    ///
    /// If there is no randomness.
    pub(super) fn seal(&self, id: u64, state: &[u8]) -> Result<Vec<u8>, getrandom::Error> {
        let mut sealed = vec![0; SALT];
        getrandom::fill(&mut sealed)?;
        let cipher = cipher(&self.seals, &sealed);
        sealed.reserve_exact(state.len() + TAG);
        sealed.extend_from_slice(state);
        let (_, text) = sealed.split_at_mut(SALT);
        let tag = cipher
            .encrypt_inout_detached(&Default::default(), &id.to_be_bytes(), text.into())
            .expect("far below the limit of 2^36 bytes");
        sealed.extend_from_slice(&tag);
        Ok(sealed)
    }

    /// Opens what [`seal`](Self::seal) has sealed, under this key or the former one; `None` if it is
    /// anything else.
    pub(super) fn open(&self, id: u64, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let former = || open(self.former.as_deref()?, id, sealed);
        open(&self.seals, id, sealed).or_else(former)
    }

    /// Whether it is sealed under this key, and not under the former one.
    pub(super) fn is_current(&self, id: u64, sealed: &[u8]) -> bool {
        open(&self.seals, id, sealed).is_some()
    }
}

/// Never the key.
impl std::fmt::Debug for StateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: &str) -> StateKey {
        let seals = parse(&format!("state-key:{}\n", digit.repeat(64))).unwrap();
        StateKey { seals, former: None }
    }

    #[test]
    fn what_is_sealed_opens_under_its_key_and_number_alone() {
        let (one, other) = (key("1"), key("2"));
        assert_ne!(one.check_value(), other.check_value());
        let sealed = one.seal(7, b"a secret").unwrap();
        assert_eq!(sealed.len(), 8 + SALT + TAG);
        assert_ne!(sealed, one.seal(7, b"a secret").unwrap(), "a new salt each time");
        assert_eq!(one.open(7, &sealed).unwrap().as_slice(), b"a secret");
        assert!(one.open(8, &sealed).is_none() && other.open(7, &sealed).is_none());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(one.open(7, &changed).is_none(), "{at}");
            assert!(one.open(7, &sealed[..at]).is_none(), "{at}");
        }
    }

    #[test]
    fn a_key_file_has_one_form() {
        let digits = "5a".repeat(32);
        assert!(parse(&format!("state-key:{digits}")).is_some());
        for wrong in [
            digits.clone(),
            format!("state-key:{digits}00"),
            format!("state-key:{}", &digits[1..]),
            format!("state-key:{}zz", &digits[2..]),
            format!("state-key:{digits}\n\n"),
            String::new(),
        ] {
            assert!(parse(&wrong).is_none(), "{wrong}");
        }
    }
}
