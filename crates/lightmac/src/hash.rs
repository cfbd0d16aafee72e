//! The inner sum of LightMAC: everything except the last cipher call.

use crate::kernel::{Native, Shares};
use crate::limits::{BatchError, MessageTooLong, ParameterError, check_counter, max_message_bits};
use crate::native::native;
use crate::pipeline::{Pipeline, xor};
use crate::single;
use cipher::array::{Array, ArraySize};
use cipher::{Block, BlockCipherEncrypt, Key, KeyInit};
use core::fmt;

/// Blocks in flight within one message, which fill the pipelines of AES-NI and NEON.
pub(crate) const LANES: usize = 8;
/// Blocks in flight within a batch or a long message: one full call of the widest AES backend
/// (VAES-512).
const WIDE_LANES: usize = 64;
/// The longest message in bytes whose parts are copied together before they are hashed.
const GATHERED_BYTES: usize = 128;

/// Computes V, the state of n bits from which the last cipher call makes a tag.
///
/// V is secret: with the states of messages, tags can be forged. A caller needs V only if it makes
/// several tags of one message, or makes tags later.
#[derive(Clone)]
pub struct Hasher<C: BlockCipherEncrypt> {
    cipher: C,
    counter_bits: u32,
}

impl<C: BlockCipherEncrypt + KeyInit> Hasher<C> {
    /// A hasher with the key K1 and a counter of s = `counter_bits` bits.
    ///
    /// # Errors
    ///
    /// Fails if the cipher's block does not have 4 to 16 bytes, or s is not from 1 to n/2.
    pub fn new(k1: &Key<C>, counter_bits: u32) -> Result<Self, ParameterError> {
        Self::from_cipher(C::new(k1), counter_bits)
    }
}

impl<C: BlockCipherEncrypt> Hasher<C> {
    /// A hasher from a cipher that has been set up with K1.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new).
    pub fn from_cipher(cipher: C, counter_bits: u32) -> Result<Self, ParameterError> {
        check_counter(C::block_size(), counter_bits)?;
        Ok(Self { cipher, counter_bits })
    }

    /// The counter length s in bits.
    pub fn counter_bits(&self) -> u32 {
        self.counter_bits
    }

    /// The length of the longest message in bits, 2^s·(n − s).
    pub fn max_message_bits(&self) -> u128 {
        max_message_bits(C::block_size(), self.counter_bits)
    }

    pub(crate) fn cipher(&self) -> &C {
        &self.cipher
    }

    pub(crate) fn check_length(&self, bytes: u128) -> Result<(), MessageTooLong> {
        self.check_bits(bytes.saturating_mul(8))
    }

    pub(crate) fn check_bits(&self, bits: u128) -> Result<(), MessageTooLong> {
        let max_bits = self.max_message_bits();
        if bits > max_bits { Err(MessageTooLong { max_bits }) } else { Ok(()) }
    }
}

impl<C: BlockCipherEncrypt + 'static> Hasher<C> {
    /// V of the message that is the concatenation of `parts`.
    ///
    /// # Errors
    ///
    /// Fails if the message is longer than [`max_message_bits`](Self::max_message_bits).
    pub fn hash_parts(&self, parts: &[&[u8]]) -> Result<Block<C>, MessageTooLong> {
        let mut state = Block::<C>::default();
        self.add_parts(parts, &mut state)?;
        Ok(state)
    }

    /// Writes V of a message to `state`, which must be zero before. A result returned by value
    /// would be copied in pieces, and a cipher that loads the whole block would have to wait for
    /// all of them.
    #[inline]
    pub(crate) fn add_parts(
        &self,
        parts: &[&[u8]],
        state: &mut Block<C>,
    ) -> Result<(), MessageTooLong> {
        let bytes = parts.iter().map(|part| part.len() as u128).sum();
        self.check_length(bytes)?;
        if let Some((native, counter_bytes)) = self.native() {
            add_by_kernel(native, counter_bytes, parts, bytes, state);
            return Ok(());
        }
        // A queue passes each block through memory twice, and remembers whose it is. It is for the
        // ciphers and counters that `single` does not know.
        let sum = if let Some(sum) = single::sum(&self.cipher, self.counter_bits, parts) {
            sum
        } else if bytes <= (LANES * C::block_size()) as u128 {
            self.sum_parts::<LANES>(parts)
        } else {
            self.sum_parts::<WIDE_LANES>(parts)
        };
        xor(state, &sum);
        Ok(())
    }

    fn sum_parts<const L: usize>(&self, parts: &[&[u8]]) -> Block<C> {
        let mut pipeline = Pipeline::<C::BlockSize, L>::new(self.counter_bits);
        let mut state = [Block::<C>::default()];
        for part in parts {
            pipeline.absorb(&self.cipher, &mut state, part);
        }
        pipeline.finish(&mut state);
        pipeline.flush(&self.cipher, &mut state);
        let [state] = state;
        state
    }

    /// Writes V of each of `messages` to `states`, which must have the same length.
    ///
    /// Blocks of all messages share the cipher's pipeline, and a batch of short messages takes
    /// little more time than one long message of their total length.
    ///
    /// # Errors
    ///
    /// Fails if the lengths differ or a message is too long. The states are then unchanged.
    pub fn hash_many(&self, messages: &[&[u8]], states: &mut [Block<C>]) -> Result<(), BatchError> {
        if messages.len() != states.len() {
            return Err(BatchError::LengthsDiffer);
        }
        for message in messages {
            self.check_length(message.len() as u128)?;
        }
        if let Some((native, counter_bytes)) = self.native() {
            states.fill(Block::<C>::default());
            native.hash_many(counter_bytes, messages, flat::<C>(states));
            return Ok(());
        }
        let mut pipeline = Pipeline::<C::BlockSize, WIDE_LANES>::new(self.counter_bits);
        // Owners have 32 bits. A longer batch is divided, which changes no result.
        for (messages, states) in
            messages.chunks(u32::MAX as usize).zip(states.chunks_mut(u32::MAX as usize))
        {
            states.fill(Block::<C>::default());
            for (owner, message) in (0u32..).zip(messages) {
                pipeline.start(owner);
                pipeline.absorb(&self.cipher, states, message);
                pipeline.finish(states);
            }
            pipeline.flush(&self.cipher, states);
        }
        Ok(())
    }

    /// The cipher's kernel and the counter's length in bytes, if the cipher has a kernel and the
    /// counter has whole bytes.
    pub(crate) fn native(&self) -> Option<(&dyn Native, usize)> {
        let whole = self.counter_bits.is_multiple_of(8);
        native(&self.cipher)
            .filter(|_| whole)
            .map(|native| (native, self.counter_bits as usize / 8))
    }
}

/// Does the work of [`Hasher::add_parts`] by a kernel. The message has `bytes` bytes in total.
#[inline]
fn add_by_kernel<N: ArraySize>(
    native: &dyn Native,
    counter_bytes: usize,
    parts: &[&[u8]],
    bytes: u128,
    state: &mut Array<u8, N>,
) {
    if let [message] = parts {
        native.hash(counter_bytes, message, state);
    } else if bytes <= GATHERED_BYTES as u128 {
        let mut gathered = [0; GATHERED_BYTES];
        let mut at = 0;
        for part in parts {
            gathered[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        native.hash(counter_bytes, &gathered[..at], state);
    } else {
        let mut shares = Shares::<N>::new(counter_bytes);
        for part in parts {
            shares.absorb(native, state, part);
        }
        shares.finish(state, 0, 0);
    }
}

/// The bytes of blocks.
fn flat<C: BlockCipherEncrypt>(blocks: &mut [Block<C>]) -> &mut [u8] {
    Array::slice_as_flattened_mut(blocks)
}

impl<C: BlockCipherEncrypt> fmt::Debug for Hasher<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("counter_bits", &self.counter_bits).finish_non_exhaustive()
    }
}
