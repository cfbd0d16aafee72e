//! SHA-256 over messages in parts, and keys for HMAC with it.
//!
//! The compression function is that of RustCrypto, which selects the processor's SHA instructions at run
//! time. Messages are divided into blocks here, because a key for HMAC then takes 64 bytes, less than
//! half of what it takes in the crate `hmac`.

use core::slice;
use sha2::block_api::compress256;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// The length of a hash value in bytes.
const OUTPUT: usize = 32;
/// The length of a block in bytes.
const BLOCK: usize = 64;
/// The place of the message's length in the last block.
const LENGTH_AT: usize = BLOCK - 8;

/// The eight words between two blocks (FIPS 180-4, section 6.2).
type State = [u32; 8];

/// The words before the first block (FIPS 180-4, section 5.3.3).
const INITIAL: State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The hash of a message that arrives in parts.
#[derive(Clone, ZeroizeOnDrop)]
pub(super) struct Running256 {
    state: State,
    /// The bytes behind the last whole block, at the front.
    block: [u8; BLOCK],
    /// The length of the message so far in bytes.
    len: u64,
}

impl Running256 {
    pub(super) const fn new() -> Self {
        Self { state: INITIAL, block: [0; BLOCK], len: 0 }
    }

    /// The hash of a message whose first block has led to `state`.
    const fn after_block(state: State) -> Self {
        Self { state, block: [0; BLOCK], len: BLOCK as u64 }
    }

    /// The number of bytes behind the last whole block.
    const fn rest(&self) -> usize {
        self.len as usize % BLOCK
    }

    fn compress_block(&mut self) {
        compress256(&mut self.state, slice::from_ref(&self.block));
    }

    /// Appends a part of the message.
    pub(super) fn update(&mut self, mut part: &[u8]) {
        let at = self.rest();
        self.len += part.len() as u64;
        if at > 0 {
            let free = &mut self.block[at..];
            let (front, behind) = part.split_at(free.len().min(part.len()));
            free[..front.len()].copy_from_slice(front);
            if at + front.len() < BLOCK {
                return;
            }
            self.compress_block();
            part = behind;
        }
        let (blocks, behind) = part.as_chunks();
        compress256(&mut self.state, blocks);
        self.block[..behind.len()].copy_from_slice(behind);
    }

    /// Writes the hash value to `out`, as many bytes as that has. The message is over.
    pub(super) fn finish(&mut self, out: &mut [u8]) {
        let at = self.rest();
        self.block[at] = 0x80;
        self.block[at + 1..].fill(0);
        if at >= LENGTH_AT {
            self.compress_block();
            self.block.fill(0);
        }
        self.block[LENGTH_AT..].copy_from_slice(&(self.len * 8).to_be_bytes());
        self.compress_block();
        for (out, word) in out.chunks_exact_mut(4).zip(self.state) {
            out.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// A key for HMAC (RFC 2104), as what its two padded blocks lead to.
#[derive(Clone, ZeroizeOnDrop)]
pub(super) struct Hmac256 {
    inner: State,
    outer: State,
}

impl Hmac256 {
    /// A key of any length.
    pub(super) fn new(key: &[u8]) -> Self {
        let mut block = Zeroizing::new([0; BLOCK]);
        if key.len() > BLOCK {
            let mut hash = Running256::new();
            hash.update(key);
            hash.finish(&mut block[..OUTPUT]);
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let mut hmac = Self { inner: INITIAL, outer: INITIAL };
        block.iter_mut().for_each(|byte| *byte ^= 0x36);
        compress256(&mut hmac.inner, slice::from_ref(&block));
        block.iter_mut().for_each(|byte| *byte ^= 0x36 ^ 0x5c);
        compress256(&mut hmac.outer, slice::from_ref(&block));
        hmac
    }

    /// Writes the HMAC of a message to `out`, as many bytes as a hash value has.
    pub(super) fn mac(&self, message: &[&[u8]], out: &mut [u8]) {
        let mut running = Running256::after_block(self.inner);
        message.iter().for_each(|part| running.update(part));
        running.finish(out);
        running.state = self.outer;
        running.len = BLOCK as u64;
        running.update(out);
        running.finish(out);
    }
}
