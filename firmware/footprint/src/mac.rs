//! Authentication codes alone, and the cipher alone.

use crate::heap;
use crate::machine::{exit, fail};
use crate::meter::measured;
use crate::settings::{PAYLOAD, RECORDS};
use cipher::{BlockCipherEncrypt, KeyInit};
use cmac::Mac;
use core::hint::black_box;

/// A key of this length, which the compiler does not know.
fn key<const N: usize>(first: u8) -> [u8; N] {
    core::array::from_fn(|at| black_box(first).wrapping_add(at as u8))
}

/// Lengths of further messages in bytes, each with the name of its step.
const LENGTHS: [(usize, &str); 6] = [
    (8, "case-8"),
    (16, "case-16"),
    (64, "case-64"),
    (128, "case-128"),
    (256, "case-256"),
    (512, "case-512"),
];

/// Computes tags of messages as long as a record's payload, and one tag of each of these lengths.
/// Making the keys is a step of its own.
fn run<K>(lengths: &[(usize, &str)], new: impl FnOnce() -> K, tag: impl Fn(&K, &[u8]) -> u8) -> ! {
    heap::start();
    let keyed = measured("key", new);
    let mut sum = 0u8;
    for count in 0..RECORDS {
        let message = black_box([count as u8; PAYLOAD]);
        sum = sum.wrapping_add(measured("tag", || tag(&keyed, &message)));
    }
    let message = black_box([0x55; 512]);
    for (length, step) in lengths {
        let Some(message) = message.get(..*length) else { fail("too long") };
        sum = sum.wrapping_add(measured(step, || tag(&keyed, message)));
    }
    black_box(sum);
    exit(0)
}

/// AES-128: one block for a message.
pub fn aes() -> ! {
    run(
        &[],
        || aes::Aes128Enc::new(&key::<16>(1).into()),
        |cipher, message| {
            let Some(first) = message.first_chunk::<16>() else { fail("too short") };
            let mut block = (*first).into();
            cipher.encrypt_block(&mut block);
            block[0]
        },
    )
}

/// LightMAC over a cipher with a counter of `counter` bits.
fn lightmac<C>(keys: [&cipher::Key<C>; 2], counter: u32, tag: u32) -> !
where
    C: BlockCipherEncrypt + KeyInit + 'static,
{
    run(
        &LENGTHS,
        || match lightmac::LightMac::<C>::new(keys[0], keys[1], counter, tag) {
            Ok(mac) => mac,
            Err(_) => fail("no such LightMAC"),
        },
        |mac, message| match mac.tag(&[message]) {
            Ok(tag) => tag.as_bytes().first().copied().unwrap_or_default(),
            Err(_) => fail("the message is too long"),
        },
    )
}

/// LightMAC over AES-128.
pub fn lightmac_aes() -> ! {
    lightmac::<lightmac::Aes128>([&key::<16>(1).into(), &key::<16>(2).into()], 16, 128)
}

/// LightMAC over PRESENT-80.
pub fn lightmac_present() -> ! {
    lightmac::<lightmac::Present80>([&key::<10>(1).into(), &key::<10>(2).into()], 8, 64)
}

/// CMAC over AES-128.
pub fn cmac_aes() -> ! {
    run(
        &LENGTHS,
        || <cmac::Cmac<aes::Aes128Enc> as KeyInit>::new(&key::<16>(1).into()),
        |mac, message| mac.clone().chain_update(message).finalize().into_bytes()[0],
    )
}

/// HMAC with SHA-256.
pub fn hmac_sha256() -> ! {
    run(
        &LENGTHS,
        || <hmac::Hmac<sha2::Sha256> as KeyInit>::new(&key::<64>(1).into()),
        |mac, message| mac.clone().chain_update(message).finalize().into_bytes()[0],
    )
}
