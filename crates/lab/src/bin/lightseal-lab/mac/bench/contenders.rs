//! The MACs and ciphers that are measured. Their keys are set up before the measurement, and every
//! result goes through `black_box`, so that the compiler cannot leave work out.

use super::{BenchArgs, ModeName};
use ::cipher::{Block, BlockCipherEncrypt, Key};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use digest::{FixedOutputReset, KeyInit, Mac};
use hmac::HmacReset;
use lightmac::{Hasher, LightMac, max_message_bytes};
use lightseal_mac_papers::{Emac, PmacParity};
use lightseal_measure::Contender;
use sha2::Sha256;
use std::hint::black_box;

/// Number of bytes that a cipher alone encrypts at a time. They fit into the first-level cache.
const BULK_BYTES: usize = 8192;

/// Total length in bytes of the messages in a batch, unless [`MAX_BATCH`] limits it.
const BATCH_BYTES: usize = 16 * 1024;

/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 256;

/// The algorithm that turns a message into a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// No MAC: the cipher alone.
    Ecb,
    /// LightMAC with a counter of this many bits.
    LightMac(u32),
    Emac,
    PmacParity,
    Cmac,
    Pmac,
    HmacSha256,
    Gmac,
}

/// How messages follow each other in a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageOrder {
    /// One call per message. The processor may begin a message before the last one is done.
    BackToBack,
    /// All messages in one call.
    Batch,
    /// One call per message, which begins only when the last message is done.
    Alone,
}

/// A contender, and what one repetition of it does.
pub(super) struct Measurement<'a> {
    pub(super) mode: Mode,
    pub(super) form: MessageOrder,
    /// Length of a message in bytes.
    pub(super) bytes: usize,
    /// Number of messages in one repetition.
    pub(super) messages: f64,
    pub(super) contender: Box<dyn Contender + 'a>,
}

/// A cipher that can be measured.
pub(super) trait BenchCipher: BlockCipherEncrypt + KeyInit + Clone + 'static {
    /// The names of all its kernels, and of the kernels for which this processor has instructions.
    /// Both lists begin with the slowest.
    fn kernels() -> (Vec<&'static str>, Vec<&'static str>);

    /// The cipher on a kernel of [`kernels`](Self::kernels); `None` for any other name.
    fn with_kernel(key: &Key<Self>, kernel: &str) -> Option<Self>;

    /// RustCrypto's CMAC or PMAC over this cipher.
    fn peer<'a>(self, mode: Mode, data: &'a [u8], bytes: usize) -> Vec<Measurement<'a>>;
}

/// A cipher with four different keys.
pub(super) type KeyedCiphers<C> = [C; 4];

/// The cipher with four keys, on a kernel that is available.
pub(super) fn keys<C: BenchCipher>(kernel: &str) -> KeyedCiphers<C> {
    [0x11u8, 0x22, 0x33, 0x44].map(|byte| {
        let mut key = Key::<C>::default();
        key.fill(byte);
        C::with_kernel(&key, kernel).expect("only kernels of this machine are asked for")
    })
}

/// Message data, long enough for all measurements with messages of `bytes` bytes.
pub(super) fn data(bytes: usize) -> Vec<u8> {
    (0..bytes * batch(bytes)).map(|i| (i % 251) as u8).collect()
}

/// Number of messages in a batch.
fn batch(bytes: usize) -> usize {
    (BATCH_BYTES / bytes).clamp(2, MAX_BATCH)
}

/// The counter lengths of the paper for blocks of `n` bits: n/2, the multiple of 8 that is nearest
/// to n/3, and 8.
pub(super) fn counter_lengths(n: u32) -> [u32; 3] {
    [n / 2, (n + 12) / 24 * 8, 8]
}

/// The cipher alone, on many independent blocks.
pub(super) fn bulk<'a, C: BenchCipher>(keys: &KeyedCiphers<C>) -> Measurement<'a> {
    let cipher = keys[0].clone();
    let mut blocks = vec![Block::<C>::default(); BULK_BYTES / C::block_size()];
    let run = move || cipher.encrypt_blocks(black_box(&mut blocks));
    entry(Mode::Ecb, MessageOrder::Batch, BULK_BYTES, run)
}

/// The cipher alone, where each block is the encryption of the one before.
pub(super) fn serial<'a, C: BenchCipher>(keys: &KeyedCiphers<C>) -> Measurement<'a> {
    let cipher = keys[0].clone();
    let mut block = Block::<C>::default();
    let run = move || cipher.encrypt_block(black_box(&mut block));
    entry(Mode::Ecb, MessageOrder::Alone, C::block_size(), run)
}

/// The cipher alone, and after it all MACs that are asked for, with messages of `bytes` bytes from
/// `data`.
pub(super) fn all<'a, C: BenchCipher>(
    args: &BenchArgs,
    keys: &KeyedCiphers<C>,
    data: &'a [u8],
    bytes: usize,
) -> Vec<Measurement<'a>> {
    let mut entries = vec![bulk(keys)];
    let [a, b, c, d] = keys.clone();
    if args.wants(ModeName::Lightmac) {
        for s in counter_lengths(C::block_size() as u32 * 8) {
            // A counter length whose longest message is shorter than `bytes` is left out.
            if max_message_bytes(C::block_size(), s) >= bytes as u64 {
                entries.extend(lightmac(&a, &b, s, data, bytes));
            }
        }
    }
    if args.wants(ModeName::Emac) {
        let mac = Emac::from_ciphers(a.clone(), b.clone());
        entries.extend(each(Mode::Emac, data, bytes, move |m| mac.tag(m), |tag| tag[0]));
    }
    if args.wants(ModeName::PmacParity) {
        let mac = PmacParity::from_ciphers([a, b, c], d);
        entries.extend(each(Mode::PmacParity, data, bytes, move |m| mac.tag(m), |tag| tag[0]));
    }
    for (name, mode) in [(ModeName::Cmac, Mode::Cmac), (ModeName::Pmac, Mode::Pmac)] {
        if args.wants(name) {
            entries.extend(keys[0].clone().peer(mode, data, bytes));
        }
    }
    if args.wants(ModeName::HmacSha256) {
        let mac = <HmacReset<Sha256> as KeyInit>::new(&Key::<HmacReset<Sha256>>::default());
        entries.extend(streaming(Mode::HmacSha256, mac, data, bytes));
    }
    if args.wants(ModeName::Gmac) {
        match (C::block_size(), C::key_size()) {
            (16, 16) => entries.extend(gmac::<Aes128Gcm>(data, bytes)),
            (16, 32) => entries.extend(gmac::<Aes256Gcm>(data, bytes)),
            _ => {}
        }
    }
    entries
}

fn lightmac<'a, C: BenchCipher>(
    first: &C,
    last: &C,
    s: u32,
    data: &'a [u8],
    bytes: usize,
) -> Vec<Measurement<'a>> {
    let fits = "lengths are checked before";
    let hasher = Hasher::from_cipher(first.clone(), s).expect("the paper's counter lengths");
    let tag_bits = C::block_size() as u32 * 8;
    let mac = LightMac::from_parts(hasher, last.clone(), tag_bits).expect("a whole block");
    let batched = mac.clone();
    let tag = move |message: &[u8]| mac.tag(&[message]).expect(fits);
    let mut entries = each(Mode::LightMac(s), data, bytes, tag, |tag| tag.as_bytes()[0]);
    let messages: Vec<&[u8]> = data.chunks_exact(bytes).collect();
    let mut tags = vec![Block::<C>::default(); messages.len()];
    let count = messages.len();
    let run = move || {
        batched.tag_many(black_box(&messages), &mut tags).expect(fits);
        black_box(&tags);
    };
    let batch = entry(Mode::LightMac(s), MessageOrder::Batch, bytes, run);
    entries.push(Measurement { messages: count as f64, ..batch });
    entries
}

/// A MAC of another library, which is reset for each message without a new key setup.
pub(super) fn streaming<M: Mac + FixedOutputReset + Clone + 'static>(
    mode: Mode,
    mut mac: M,
    data: &[u8],
    bytes: usize,
) -> Vec<Measurement<'_>> {
    let tag = move |message: &[u8]| {
        Mac::update(&mut mac, message);
        mac.finalize_reset().into_bytes()
    };
    each(mode, data, bytes, tag, |tag| tag[0])
}

fn gmac<A: AeadInOut + KeyInit + Clone + 'static>(
    data: &[u8],
    bytes: usize,
) -> Vec<Measurement<'_>> {
    let mut key = Key::<A>::default();
    key.fill(0x11);
    let cipher = <A as KeyInit>::new(&key);
    let nonce = aes_gcm::aead::Nonce::<A>::default();
    let tag = move |message: &[u8]| {
        let nothing: &mut [u8] = &mut [];
        cipher.encrypt_inout_detached(&nonce, message, nothing.into()).expect("a short message")
    };
    each(Mode::Gmac, data, bytes, tag, |tag| tag[0])
}

/// A MAC on messages back to back, and on messages one after the other. `first` returns a byte of
/// the tag.
fn each<'a, T: 'a>(
    mode: Mode,
    data: &'a [u8],
    bytes: usize,
    tag: impl FnMut(&[u8]) -> T + Clone + 'a,
    first: impl Fn(&T) -> u8 + 'a,
) -> Vec<Measurement<'a>> {
    let message = &data[..bytes];
    let mut one = tag.clone();
    let back_to_back = move || {
        black_box(one(black_box(message)));
    };
    // As far as the processor can see, the place of the next message depends on the last tag.
    let mut one = tag;
    let (mut at, none) = (0, black_box(0u8));
    let alone = move || {
        let tag = one(&data[at..at + bytes]);
        at = usize::from(first(&tag) & none);
    };
    vec![
        entry(mode, MessageOrder::BackToBack, bytes, back_to_back),
        entry(mode, MessageOrder::Alone, bytes, alone),
    ]
}

fn entry<'a>(
    mode: Mode,
    form: MessageOrder,
    bytes: usize,
    run: impl FnMut() + 'a,
) -> Measurement<'a> {
    Measurement { mode, form, bytes, messages: 1.0, contender: Box::new(run) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_counter_lengths() {
        assert_eq!(counter_lengths(128), [64, 40, 8]);
        assert_eq!(counter_lengths(64), [32, 24, 8]);
    }

    #[test]
    fn a_batch_has_room() {
        for bytes in [1, 8, 8192, 1 << 20] {
            assert!(batch(bytes) >= 2 && data(bytes).len() >= 2 * bytes);
        }
    }
}
