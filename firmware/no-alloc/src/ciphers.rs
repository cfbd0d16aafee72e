//! AES, PRESENT, and LightMAC over both.

use core::hint::black_box;
use lightmac::LightMac;
use lightseal_aes_table::Aes128;
use lightseal_aes_table::cipher::{BlockCipherEncrypt, KeyInit};
use lightseal_present::Present80;

/// Whether the ciphers encrypt as their standards say, and tags are checked.
pub(crate) fn work() -> bool {
    aes() && present() && lightmac()
}

/// FIPS 197, appendix C.1.
fn aes() -> bool {
    let key: [u8; 16] = core::array::from_fn(|i| i as u8);
    let mut block = core::array::from_fn(|i| 0x11 * i as u8).into();
    Aes128::new(&black_box(key).into()).encrypt_block(&mut block);
    block.0 == 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes()
}

/// The first vector of the cipher's paper (CHES 2007).
fn present() -> bool {
    let mut block = [0; 8].into();
    Present80::new(&black_box([0; 10]).into()).encrypt_block(&mut block);
    block.0 == 0x5579_c138_7b22_8445_u64.to_be_bytes()
}

/// Over either cipher, two messages have two tags.
fn lightmac() -> bool {
    let messages = [black_box(b"a message of a device"), b"another one, as long!"];
    let over_aes = LightMac::<Aes128>::new(&[1; 16].into(), &[2; 16].into(), 16, 128);
    let over_present = LightMac::<Present80>::new(&[1; 10].into(), &[2; 10].into(), 8, 64);
    let (Ok(over_aes), Ok(over_present)) = (over_aes, over_present) else { return false };
    let aes = messages.map(|message| over_aes.tag(&[message]));
    let present = messages.map(|message| over_present.tag(&[message]));
    let differ = |tags: [Result<lightmac::Tag, lightmac::MessageTooLong>; 2]| match tags {
        [Ok(one), Ok(other)] => one.as_bytes() != other.as_bytes(),
        _ => false,
    };
    differ(aes) && differ(present)
}
