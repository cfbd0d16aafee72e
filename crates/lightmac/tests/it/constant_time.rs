//! No secret, be it a key, a message or a tag, determines a branch or an address.
//!
//! On x86-64 the tracer decodes the processor's instructions and steps through them with Linux's
//! ptrace. On aarch64 QEMU runs the tests with a plugin (`under_the_emulator`). Each test prints how
//! much it compared (`cargo test -p lightmac --test it constant_time -- --nocapture`).
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use cipher::{Block, BlockCipherEncrypt, KeyInit, KeySizeUser};
use digest::Mac;
use lightmac::{
    Aes128, Aes256, Hasher, LightMac, LightMacStream, Present80, Present128, Stream, Tag,
};
use std::hint::black_box;
use tracer::{What, alike, compare, secrets};

/// A cipher for the tests: its name, its key length and how to make it.
struct Maker<F> {
    name: String,
    key_bytes: usize,
    new: F,
}

impl<C: BlockCipherEncrypt + 'static, F: Fn(&[u8]) -> C> Maker<F> {
    /// Two secrets, each with K1, K2 and `bytes` more bytes.
    fn secrets(&self, bytes: usize) -> [Vec<u8>; 2] {
        secrets(2 * self.key_bytes + bytes)
    }

    fn parts<'s>(&self, secret: &'s [u8], counter_bits: u32) -> (Hasher<C>, C, &'s [u8]) {
        let (k1, rest) = secret.split_at(self.key_bytes);
        let (k2, rest) = rest.split_at(self.key_bytes);
        let hasher = Hasher::from_cipher((self.new)(k1), counter_bits).expect("valid counter");
        (hasher, (self.new)(k2), rest)
    }

    fn mac<'s>(&self, secret: &'s [u8], counter_bits: u32) -> (LightMac<C>, &'s [u8]) {
        let (hasher, last, rest) = self.parts(secret, counter_bits);
        let bits = C::block_size() as u32 * 8;
        (LightMac::from_parts(hasher, last, bits).expect("valid tag length"), rest)
    }

    fn key_schedule(&self) {
        let name = format!("{}, key schedule", self.name);
        alike(&name, &secrets(self.key_bytes), <[u8]>::to_vec, |key| (self.new)(key));
    }

    fn tag(&self, counter_bits: u32, bytes: usize) {
        let prepare = |secret: &[u8]| {
            let (mac, message) = self.mac(secret, counter_bits);
            (mac, message.to_vec())
        };
        let name = format!("{}, tag with s = {counter_bits} of {bytes} bytes", self.name);
        alike(&name, &self.secrets(bytes), prepare, |(mac, message)| mac.tag(&[message]));
    }

    fn tag_many(&self, counter_bits: u32, lengths: &[usize]) {
        let prepare = |secret: &[u8]| {
            let (mac, mut rest) = self.mac(secret, counter_bits);
            let mut messages = Vec::new();
            for &length in lengths {
                let (message, others) = rest.split_at(length);
                messages.push(message.to_vec().leak() as &[u8]);
                rest = others;
            }
            (mac, messages, vec![Block::<C>::default(); lengths.len()])
        };
        let name = format!("{}, batch with s = {counter_bits} of {lengths:?} bytes", self.name);
        let all = self.secrets(lengths.iter().sum());
        alike(&name, &all, prepare, |(mac, messages, blocks)| mac.tag_many(messages, blocks));
    }

    /// Which byte of a tag is wrong, and whether one is, changes only the result.
    fn verify(&self) {
        const BYTES: usize = 17;
        let prepare = |secret: &[u8]| {
            let (mac, rest) = self.mac(secret, 16);
            let (message, wrong) = rest.split_at(BYTES);
            let mut tag = mac.tag(&[message]).expect("short").as_bytes().to_vec();
            tag.iter_mut().zip(wrong).for_each(|(byte, wrong)| *byte ^= wrong);
            (mac, message.to_vec(), tag)
        };
        let [one, other] = self.secrets(BYTES);
        let block = C::block_size();
        let with = |secret: &[u8], at: Option<usize>| {
            let wrong = (0..block).map(|i| u8::from(Some(i) == at));
            secret.iter().copied().chain(wrong).collect::<Vec<_>>()
        };
        let cases = [
            with(&one, Some(0)),
            with(&other, Some(block - 1)),
            with(&other, Some(block / 2)),
            with(&one, None),
        ];
        let name = format!("{}, verify {BYTES} bytes", self.name);
        alike(&name, &cases, prepare, |(mac, message, tag)| mac.verify(&[message], tag).is_ok());
    }

    fn stream(&self, counter_bits: u32, bytes: usize) {
        let prepare = |secret: &[u8]| {
            let (hasher, last, message) = self.parts(secret, counter_bits);
            (Some(Stream::new(hasher, last)), message.to_vec())
        };
        let run = |(stream, message): &mut (Option<Stream<C>>, Vec<u8>)| {
            let mut stream = stream.take().expect("run once");
            for piece in message.chunks(9) {
                stream.update(piece).expect("short");
            }
            stream.finalize_bits(0x5a, if counter_bits.is_multiple_of(8) { 0 } else { 3 })
        };
        let name = format!("{}, stream with s = {counter_bits} of {bytes} bytes", self.name);
        alike(&name, &self.secrets(bytes), prepare, run);
    }

    /// The operations that may depend on the key's length.
    fn keyed(&self) {
        self.key_schedule();
        self.tag(16, 13);
        self.verify();
    }

    /// All operations, on short messages.
    fn all(&self) {
        self.keyed();
        for bytes in [0, 29] {
            self.tag(16, bytes);
        }
        self.tag(8, 15);
        self.tag(13, 7);
        self.stream(13, 7);
        self.tag_many(16, &[3, 0, 16, 14]);
    }
}

/// Makes one of our own ciphers on one of its kernels.
macro_rules! maker {
    ($cipher:ident, $kernel:expr) => {{
        let kernel = $kernel;
        Maker {
            name: format!("{} {kernel}", stringify!($cipher)),
            key_bytes: <$cipher>::key_size(),
            new: move |key: &[u8]| {
                let key = key.try_into().expect("the cipher's key size");
                <$cipher>::with_kernel(key, kernel).expect("the kernel is available")
            },
        }
    }};
}

/// Runs the other tests of this file under QEMU's plugin.
#[cfg(target_arch = "aarch64")]
#[test]
fn under_the_emulator() {
    tracer::run_ignored("constant_time::");
}

#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
fn aes_on_every_kernel() {
    for kernel in lightmac::aes::Kernel::available() {
        let small = maker!(Aes128, kernel);
        small.all();
        for (counter_bits, bytes) in [(16, 100), (8, 120), (40, 60), (13, 20)] {
            small.tag(counter_bits, bytes);
        }
        small.tag_many(16, &[16; 9]);
        small.stream(24, 60);
        // Long messages use other loops. Without instructions for AES they take tens of thousands
        // of steps, through loops that the batch above has covered.
        if kernel != lightmac::aes::Kernel::Portable {
            for (counter_bits, bytes) in [(16, 255), (16, 2100), (8, 1000), (40, 300)] {
                small.tag(counter_bits, bytes);
            }
            small.tag_many(16, &[60; 9]);
        }
        maker!(Aes256, kernel).keyed();
    }
}

#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
fn present_on_every_kernel() {
    for kernel in lightmac::present::Kernel::available() {
        maker!(Present80, kernel).key_schedule();
        let large = maker!(Present128, kernel);
        large.all();
        large.tag(8, 70);
        large.tag_many(16, &[7; 9]);
        // Many blocks at a time. The portable kernel takes tens of thousands of steps for them.
        if kernel != lightmac::present::Kernel::Portable {
            large.tag(16, 1000);
        }
    }
}

/// A cipher of another crate, which has no kernel here.
#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
fn aes_of_another_crate() {
    let new = |key: &[u8]| aes::Aes128::new_from_slice(key).expect("16 bytes");
    let maker = Maker { name: "the crate aes".into(), key_bytes: 16, new };
    maker.all();
}

/// LightMAC through RustCrypto's traits, which also verify truncated tags.
#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
fn mac_traits() {
    type Light = LightMacStream<Aes128, 16>;
    let prepare = |secret: &[u8]| {
        let (key, rest) = secret.split_at(32);
        Some((Light::new_from_slice(key).expect("32 bytes"), rest.to_vec()))
    };
    alike("AES-128, digest::Mac", &secrets(32 + 50), prepare, |prepared| {
        let (mut mac, message) = prepared.take().expect("run once");
        mac.update(&message[..40]);
        mac.verify_truncated_left(&message[40..]).is_ok()
    });
}

#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
fn tag_equality() {
    let [zero, other] = secrets(16);
    let pair = |a: &[u8], b: &[u8]| [a, b].concat();
    let mut last = other.clone();
    last[15] ^= 1;
    let cases = [pair(&zero, &zero), pair(&zero, &other), pair(&other, &last)];
    for bits in [128, 64, 33] {
        let prepare = |pair: &[u8]| [0, 16].map(|at| Tag::leading(&pair[at..at + 16], bits));
        alike(&format!("Tag of {bits} bits"), &cases, prepare, |[a, b]| a == b);
    }
    alike("Tag::leading", &cases, <[u8]>::to_vec, |block| Tag::leading(&block[..16], 77));
}

/// The tracer detects operations that are not constant time.
mod caught {
    use super::*;

    /// The leak of an operation on 16 secret bytes.
    fn leak<R>(operation: impl Fn(&mut Vec<u8>) -> R) -> What {
        let leak =
            compare(&secrets(16), <[u8]>::to_vec, operation).expect_err("the operation leaks");
        println!("{leak}");
        leak.what
    }

    #[test]
    #[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
    fn a_look_up_at_a_secret_place() {
        let table: [u8; 256] = std::array::from_fn(|i| (i as u8).wrapping_mul(167));
        let table = black_box(&table);
        let substitute = |state: &mut Vec<u8>| {
            for byte in state {
                *byte = table[usize::from(*byte)];
            }
        };
        assert_eq!(leak(substitute), What::Address);
    }

    #[test]
    #[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
    fn a_comparison_that_ends_early() {
        let tag = black_box(&[0u8; 16]);
        let equal = |given: &mut Vec<u8>| {
            for (a, b) in given.iter().zip(tag) {
                if black_box(a) != b {
                    return false;
                }
            }
            true
        };
        assert_eq!(leak(equal), What::Path);
    }

    #[test]
    #[cfg_attr(target_arch = "aarch64", ignore = "`under_the_emulator` runs it")]
    fn a_comparison_that_ends_early_where_both_tags_are_wrong() {
        let [zero, _] = secrets(16);
        let wrong_at = |at: usize| {
            let mut tag = zero.clone();
            tag[at] = 1;
            tag
        };
        let equal = |given: &mut Vec<u8>| given.iter().all(|byte| black_box(*byte) == 0);
        let cases = [wrong_at(14), wrong_at(15)];
        assert_eq!(compare(&cases, <[u8]>::to_vec, equal).unwrap_err().what, What::Path);
    }

    // QEMU's plugin does not see operands.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_division_of_a_secret() {
        // 32 bits: a division of 64 bits would contain a branch, because the compiler first asks
        // whether fewer bits would do.
        let by = black_box(7u32);
        assert_eq!(leak(|key| u32::from(key[0]) / black_box(by)), What::Division);
    }
}
