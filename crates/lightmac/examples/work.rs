//! Does one piece of work a number of times and nothing else, for a counter of instructions:
//! `cargo run --example work -- CIPHER KERNEL FORM BYTES TIMES`.
//!
//! CIPHER is `aes-128` or `present-80`, KERNEL a name of one of its kernels, and FORM one of
//!
//! - `bulk`: encrypts BYTES bytes;
//! - `alone`: the LightMAC tag of a message of BYTES bytes, with a counter of 16 bits;
//! - `batch`: the tags of 64 such messages in one call.
//!
//! The last line of the output is a byte of the result, so that no work can be left out.

use cipher::{Block, BlockCipherEncrypt, Key, KeyInit};
use lightmac::{Aes128, Hasher, LightMac, Present80};
use std::env;
use std::hint::black_box;
use std::process::ExitCode;

/// Number of messages in a batch.
const MESSAGES: usize = 64;
/// Length of the counter, in bits.
const COUNTER_BITS: u32 = 16;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match work(&arguments) {
        Some(byte) => {
            println!("{byte}");
            ExitCode::SUCCESS
        }
        None => {
            eprintln!(
                "work: expected aes-128|present-80 KERNEL bulk|alone|batch BYTES TIMES, with a \
                 kernel that this processor has"
            );
            ExitCode::FAILURE
        }
    }
}

fn work(arguments: &[String]) -> Option<u8> {
    let [cipher, kernel, form, bytes, times] = arguments else { return None };
    let (bytes, times) = (bytes.parse().ok()?, times.parse().ok()?);
    match cipher.as_str() {
        "aes-128" => {
            let kernel = kernel.parse().ok()?;
            run(|key| Aes128::with_kernel(key, kernel), form, bytes, times)
        }
        "present-80" => {
            let kernel = kernel.parse().ok()?;
            run(|key| Present80::with_kernel(key, kernel), form, bytes, times)
        }
        _ => None,
    }
}

fn run<C: BlockCipherEncrypt + KeyInit + 'static>(
    new: impl Fn(&Key<C>) -> Option<C>,
    form: &str,
    bytes: usize,
    times: usize,
) -> Option<u8> {
    let mut key = Key::<C>::default();
    key.fill(0x4b);
    let first = new(&key)?;
    key.fill(0xb4);
    let last = new(&key)?;
    let message: Vec<u8> = (0..bytes).map(|i| ((i * 167) >> 3) as u8).collect();
    let mut result = 0;
    if form == "bulk" {
        let mut blocks = vec![Block::<C>::default(); bytes / C::block_size()];
        for _ in 0..times {
            first.encrypt_blocks(black_box(&mut blocks));
            result ^= blocks.first()?[0];
        }
        return Some(result);
    }
    let hasher = Hasher::from_cipher(first, COUNTER_BITS).ok()?;
    let mac = LightMac::from_parts(hasher, last, 64).ok()?;
    match form {
        "alone" => {
            for _ in 0..times {
                result ^= mac.tag(black_box(&[&message])).ok()?.as_bytes()[0];
            }
        }
        "batch" => {
            let messages = vec![&message[..]; MESSAGES];
            let mut blocks = vec![Block::<C>::default(); MESSAGES];
            for _ in 0..times {
                mac.tag_many(black_box(&messages), &mut blocks).ok()?;
                result ^= blocks[0][0];
            }
        }
        _ => return None,
    }
    Some(result)
}
