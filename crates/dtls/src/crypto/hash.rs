//! Hash functions with HMAC and HKDF, which a cipher suite names and a provider implements.
//!
//! A suite gets another implementation with
//! [`CipherSuite::with_hash`](super::CipherSuite::with_hash); without one it uses the portable
//! [`Sha256`](super::Sha256).

use super::blocks256::{Hmac256, Running256};
use crate::heap::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};
#[cfg(feature = "sha384")]
use hmac::{Hmac, KeyInit, Mac};
#[cfg(feature = "sha384")]
use sha2::Digest;
use zeroize::{Zeroize, Zeroizing};

/// The longest output of a hash algorithm in bytes.
pub(crate) const LONGEST_OUTPUT: usize = if cfg!(feature = "sha384") { 48 } else { 32 };
/// The longest block of a hash algorithm in bytes.
pub(crate) const LONGEST_BLOCK: usize = if cfg!(feature = "sha384") { 128 } else { 64 };
/// The largest number of parts between the first and the last part of a message.
const MIDDLE_PARTS: usize = 6;

/// A hash value, or a secret of that length. In a build with one hash algorithm it is as large as
/// its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Zeroize)]
pub struct HashValue {
    /// Zeros follow the value.
    bytes: [u8; LONGEST_OUTPUT],
    #[cfg(feature = "sha384")]
    len: u8,
}

impl HashValue {
    /// The value that `write` fills in, with the length of an output of `algorithm`.
    pub(crate) fn new(algorithm: HashAlgorithm, write: impl FnOnce(&mut [u8])) -> Self {
        let mut value = Self {
            bytes: [0; LONGEST_OUTPUT],
            #[cfg(feature = "sha384")]
            len: algorithm.output_len() as u8,
        };
        debug_assert_eq!(value.len(), algorithm.output_len());
        write(&mut value);
        value
    }

    /// A value with these bytes; `None` if no algorithm has outputs of their length.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut algorithms = HashAlgorithm::ALL.iter();
        let algorithm = algorithms.find(|algorithm| algorithm.output_len() == bytes.len())?;
        Some(Self::new(*algorithm, |out| out.copy_from_slice(bytes)))
    }
}

impl Deref for HashValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        #[cfg(feature = "sha384")]
        return &self.bytes[..usize::from(self.len)];
        #[cfg(not(feature = "sha384"))]
        return &self.bytes;
    }
}

impl DerefMut for HashValue {
    fn deref_mut(&mut self) -> &mut [u8] {
        #[cfg(feature = "sha384")]
        return &mut self.bytes[..usize::from(self.len)];
        #[cfg(not(feature = "sha384"))]
        return &mut self.bytes;
    }
}

impl dyn Hash {
    /// Whether this is an implementation of `algorithm`. The answer is known without a call in a
    /// build with one algorithm.
    pub(crate) fn is(&self, algorithm: HashAlgorithm) -> bool {
        HashAlgorithm::ALL.len() == 1 || self.algorithm() == algorithm
    }
}

/// The hash algorithm of a cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    #[cfg(feature = "sha384")]
    Sha384,
}

impl HashAlgorithm {
    /// Every algorithm of this build.
    const ALL: &[Self] = &[
        Self::Sha256,
        #[cfg(feature = "sha384")]
        Self::Sha384,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            #[cfg(feature = "sha384")]
            Self::Sha384 => "SHA-384",
        }
    }

    /// The length of a hash value in bytes.
    pub const fn output_len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            #[cfg(feature = "sha384")]
            Self::Sha384 => 48,
        }
    }

    /// The length in bytes of the blocks in which the algorithm processes a message.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Sha256 => 64,
            #[cfg(feature = "sha384")]
            Self::Sha384 => 128,
        }
    }
}

/// An implementation of a hash algorithm, and of HMAC (RFC 2104) and HKDF (RFC 5869) over it.
///
/// A message comes in parts, of which some may be empty. `out` has the length of a hash value,
/// unless a function says otherwise. An implementation must leave no secret in memory that it gives
/// back.
///
/// Only the first three functions are required. A device whose hardware computes HKDF, or that
/// loads an HMAC key faster than it hashes one, implements more of them.
pub trait Hash: Send + Sync {
    /// The algorithm.
    fn algorithm(&self) -> HashAlgorithm;

    /// Writes the hash of a message to `out`.
    fn digest(&self, message: &[&[u8]], out: &mut [u8]);

    /// Writes the HMAC of a message under `key`, which may have any length, to `out`.
    fn hmac(&self, key: &[u8], message: &[&[u8]], out: &mut [u8]);

    /// HKDF-Extract: writes the pseudorandom key to `out`.
    fn extract(&self, salt: &[u8], ikm: &[u8], out: &mut [u8]) {
        self.hmac(salt, &[ikm], out);
    }

    /// HKDF-Expand: fills `out`, at most 255 hash values, from a pseudorandom key. `info` has at
    /// most six parts.
    fn expand(&self, prk: &[u8], info: &[&[u8]], out: &mut [u8]) {
        let len = self.algorithm().output_len();
        expand_with(len, &|message, out| self.hmac(prk, message, out), info, out);
    }

    /// A key for HMAC whose blocks are already hashed. By default there is none, and
    /// [`hmac`](Self::hmac) gets the key for each message.
    fn hmac_state(&self, key: &[u8]) -> Option<HmacState> {
        let _ = key;
        None
    }

    /// Begins the hash of a message that arrives over time, such as a handshake. By default it is
    /// the portable implementation.
    fn start(&self) -> RunningHash {
        RunningHash::portable(self.algorithm())
    }
}

impl fmt::Debug for dyn Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm().name())
    }
}

/// Writes the HMAC of a message to an output, under a key that it knows.
type HmacFn<'a> = dyn Fn(&[&[u8]], &mut [u8]) + 'a;

/// HKDF-Expand with HMAC under the pseudorandom key.
// It is there once, whatever computes the HMAC.
fn expand_with(len: usize, hmac: &HmacFn<'_>, info: &[&[u8]], out: &mut [u8]) {
    let mut block = [0; LONGEST_OUTPUT];
    let block = &mut block[..len];
    let mut next = [0; LONGEST_OUTPUT];
    for (chunk, counter) in out.chunks_mut(len).zip(1..=u8::MAX) {
        let previous = if counter == 1 { &[][..] } else { &block[..] };
        hmac(Parts::new(previous, info, &[counter]).list(), &mut next[..len]);
        block.copy_from_slice(&next[..len]);
        chunk.copy_from_slice(&block[..chunk.len()]);
    }
    block.zeroize();
    next.zeroize();
}

/// The parts of a message: one, at most six in the middle, and one more.
pub(crate) struct Parts<'a> {
    list: [&'a [u8]; MIDDLE_PARTS + 2],
    len: usize,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(first: &'a [u8], middle: &[&'a [u8]], last: &'a [u8]) -> Self {
        let mut list = [&[][..]; MIDDLE_PARTS + 2];
        list[0] = first;
        list[1..=middle.len()].copy_from_slice(middle);
        list[middle.len() + 1] = last;
        Self { list, len: middle.len() + 2 }
    }

    pub(crate) fn list(&self) -> &[&'a [u8]] {
        &self.list[..self.len]
    }
}

/// A key for HMAC whose blocks are already hashed.
#[derive(Clone)]
pub struct HmacState(PortableHmac);

#[derive(Clone)]
enum PortableHmac {
    Sha256(Hmac256),
    /// In a box, so that the keys of other suites take no more memory.
    #[cfg(feature = "sha384")]
    Sha384(Box<Hmac<sha2::Sha384>>),
}

impl HmacState {
    /// The portable implementation.
    pub fn portable(algorithm: HashAlgorithm, key: &[u8]) -> Self {
        match algorithm {
            HashAlgorithm::Sha256 => Self(PortableHmac::Sha256(Hmac256::new(key))),
            #[cfg(feature = "sha384")]
            HashAlgorithm::Sha384 => Self(PortableHmac::Sha384(Box::new(keyed(key)))),
        }
    }

    pub(crate) fn mac(&self, message: &[&[u8]], out: &mut [u8]) {
        match &self.0 {
            PortableHmac::Sha256(state) => state.mac(message, out),
            #[cfg(feature = "sha384")]
            PortableHmac::Sha384(state) => mac(Hmac::clone(state), message, out),
        }
    }
}

#[cfg(feature = "sha384")]
fn keyed<M: KeyInit>(key: &[u8]) -> M {
    M::new_from_slice(key).expect("HMAC takes any key")
}

#[cfg(feature = "sha384")]
fn mac<M: Mac>(mut state: M, message: &[&[u8]], out: &mut [u8]) {
    message.iter().for_each(|part| state.update(part));
    move_to(out, &mut state.finalize().into_bytes());
}

/// Moves a hash value, which may be a key, so that no copy of it stays in memory.
#[cfg(feature = "sha384")]
fn move_to(out: &mut [u8], value: &mut [u8]) {
    out.copy_from_slice(value);
    value.zeroize();
}

/// A key for HMAC under which several messages are authenticated, or several keys derived. It is
/// zeroized when dropped.
#[derive(Clone)]
pub struct HmacKey {
    hash: &'static dyn Hash,
    form: KeyForm,
}

#[derive(Clone)]
enum KeyForm {
    Hashed(HmacState),
    /// A key longer than a block is replaced by its hash value (RFC 2104, section 2).
    Raw {
        block: Zeroizing<[u8; LONGEST_BLOCK]>,
        len: usize,
    },
}

impl HmacKey {
    /// A key of any length.
    pub fn new(hash: &'static dyn Hash, key: &[u8]) -> Self {
        if let Some(state) = hash.hmac_state(key) {
            return Self { hash, form: KeyForm::Hashed(state) };
        }
        let mut block = Zeroizing::new([0; LONGEST_BLOCK]);
        let algorithm = hash.algorithm();
        let len = if key.len() > algorithm.block_len() {
            hash.digest(&[key], &mut block[..algorithm.output_len()]);
            algorithm.output_len()
        } else {
            block[..key.len()].copy_from_slice(key);
            key.len()
        };
        Self { hash, form: KeyForm::Raw { block, len } }
    }

    /// The hash function.
    pub const fn hash(&self) -> &'static dyn Hash {
        self.hash
    }

    /// Writes the HMAC of a message to `out`, which has the length of a hash value.
    pub fn mac(&self, message: &[&[u8]], out: &mut [u8]) {
        match &self.form {
            KeyForm::Hashed(state) => state.mac(message, out),
            KeyForm::Raw { block, len } => self.hash.hmac(&block[..*len], message, out),
        }
    }

    /// HKDF-Expand with this key as the pseudorandom key, as [`Hash::expand`].
    pub(crate) fn expand(&self, info: &[&[u8]], out: &mut [u8]) {
        match &self.form {
            KeyForm::Hashed(state) => {
                let len = self.hash.algorithm().output_len();
                expand_with(len, &|message, out| state.mac(message, out), info, out);
            }
            KeyForm::Raw { block, len } => self.hash.expand(&block[..*len], info, out),
        }
    }
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey(..)")
    }
}

/// The hash of a message that is not complete yet.
#[derive(Clone)]
pub struct RunningHash(Running);

enum Running {
    Sha256(Running256),
    #[cfg(feature = "sha384")]
    Sha384(Box<sha2::Sha384>),
    Custom(Box<dyn CustomRunningHash>),
}

/// An implementation of [`RunningHash`].
pub trait CustomRunningHash: Send + Sync {
    /// Appends a part of the message.
    fn update(&mut self, part: &[u8]);

    /// Writes the hash value of the message so far to `out`. Further parts may follow.
    fn value(&self, out: &mut [u8]);

    /// A copy, to which other parts may be appended.
    fn fork(&self) -> Box<dyn CustomRunningHash>;
}

impl Clone for Running {
    fn clone(&self) -> Self {
        match self {
            Self::Sha256(running) => Self::Sha256(running.clone()),
            #[cfg(feature = "sha384")]
            Self::Sha384(running) => Self::Sha384(running.clone()),
            Self::Custom(running) => Self::Custom(running.fork()),
        }
    }
}

impl RunningHash {
    /// The portable implementation.
    pub fn portable(algorithm: HashAlgorithm) -> Self {
        match algorithm {
            HashAlgorithm::Sha256 => Self(Running::Sha256(Running256::new())),
            #[cfg(feature = "sha384")]
            HashAlgorithm::Sha384 => Self(Running::Sha384(Box::default())),
        }
    }

    /// Another implementation.
    pub const fn custom(running: Box<dyn CustomRunningHash>) -> Self {
        Self(Running::Custom(running))
    }

    /// Appends a part of the message.
    pub fn update(&mut self, part: &[u8]) {
        match &mut self.0 {
            Running::Sha256(running) => running.update(part),
            #[cfg(feature = "sha384")]
            Running::Sha384(running) => Digest::update(&mut **running, part),
            Running::Custom(running) => running.update(part),
        }
    }

    /// Writes the hash value of the message so far to `out`. Further parts may follow.
    pub fn value(&self, out: &mut [u8]) {
        match &self.0 {
            Running::Sha256(running) => running.clone().finish(out),
            #[cfg(feature = "sha384")]
            Running::Sha384(running) => move_to(out, &mut running.clone().finalize()),
            Running::Custom(running) => running.value(out),
        }
    }
}

impl fmt::Debug for RunningHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunningHash(..)")
    }
}
