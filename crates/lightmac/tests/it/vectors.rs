//! Published vectors and our own, with their sources.

use crate::reference;

use cipher::{Block, BlockCipherEncrypt, Key, KeyInit};
use digest::Mac;
use lightmac::aes::Kernel;
use lightmac::{
    Aes128, Aes256, Hasher, LightMac, LightMacStream, Present80, Present128, Stream, Tag,
};
use reference::speck::Speck32;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex digits"))
        .collect()
}

fn present_block<C: BlockCipherEncrypt + KeyInit>(key: u8, plain: u8) -> String {
    let mut key_bytes = Key::<C>::default();
    key_bytes.fill(key);
    let mut block = Block::<C>::default();
    block.fill(plain);
    C::new(&key_bytes).encrypt_block(&mut block);
    block.iter().map(|b| format!("{b:02x}")).collect()
}

/// PRESENT (CHES 2007), appendix I, and the designers' vectors for 128-bit keys.
#[test]
fn present_encrypts_as_published() {
    let expected = [
        (0x00, 0x00, "5579c1387b228445", "96db702a2e6900af"),
        (0x00, 0xff, "a112ffc72f68417b", "3c6019e5e5edd563"),
        (0xff, 0x00, "e72c46c0f5945049", "13238c710272a5d8"),
        (0xff, 0xff, "3333dcd3213210d2", "628d9fbd4218e5b4"),
    ];
    for (key, plain, with_80, with_128) in expected {
        assert_eq!(present_block::<Present80>(key, plain), with_80);
        assert_eq!(present_block::<Present128>(key, plain), with_128);
    }
}

fn light_present(k1: &str, k2: &str, counter_bits: u32) -> LightMac<Present128> {
    let key = |text| Key::<Present128>::try_from(hex(text).as_slice()).expect("16 bytes");
    LightMac::new(&key(k1), &key(k2), counter_bits, 64).expect("valid parameters")
}

/// The vectors of LightMAC's authors for PRESENT-128 with s = 8 and t = 64.
#[test]
fn authors_vectors_with_a_short_counter() {
    let (k1, k2) = ("00112233445566778899aabbccddeeff", "833d3433009f389f2398e64f417acf39");
    let mac = light_present(k1, k2, 8);
    for (length, tag) in [
        (0, "c3c863d3e954788b"),
        (1, "021dff180cad82f9"),
        (7, "0870a1d98336d9fe"),
        (63, "431f7d967c0bc59e"),
    ] {
        let message: Vec<u8> = (0..length).collect();
        assert_eq!(mac.tag(&[&message]).unwrap().as_bytes(), hex(tag));
        let key = [hex(k1), hex(k2)].concat();
        let mut stream = LightMacStream::<Present128, 8>::new_from_slice(&key).unwrap();
        for byte in &message {
            stream.update(core::slice::from_ref(byte));
        }
        assert_eq!(stream.finalize().into_bytes().as_slice(), hex(tag));
    }
}

/// The vectors of LightMAC's authors for PRESENT-128 with s = 32 and t = 64, for messages of 257·i
/// bytes.
#[test]
fn authors_vectors_with_a_long_counter() {
    let mac =
        light_present("0123456789abcdeffedcba9876543210", "9cf35e82f26719c4f91cf900cc2cbcc1", 32);
    let bytes: Vec<u8> = (0u16..1100).flat_map(u16::to_be_bytes).collect();
    let tags = [
        "8634d35bbcdbbeb9",
        "d60a9a8890c26393",
        "f93128dab71ecf5c",
        "e9067e6c774de5e2",
        "774d44bb7ce920a4",
        "38a9c37100b908ff",
        "c88d0fb732647299",
        "d2a1a6183daacd78",
        "481dd001e71a3585",
    ];
    let messages: Vec<&[u8]> = (0..tags.len()).map(|i| &bytes[..257 * i]).collect();
    for (message, tag) in messages.iter().zip(tags) {
        assert_eq!(mac.tag(&[message]).unwrap().as_bytes(), hex(tag), "length {}", message.len());
    }
    let mut blocks = vec![Block::<Present128>::default(); tags.len()];
    mac.tag_many(&messages, &mut blocks).unwrap();
    for (block, tag) in blocks.iter().zip(tags) {
        assert_eq!(block.as_slice(), hex(tag));
    }
}

/// Checks every interface that makes tags against the cases of `group`, with ciphers that `new`
/// makes.
fn check<C: BlockCipherEncrypt + Clone + 'static>(
    group: &serde_json::Value,
    new: impl Fn(&[u8]) -> C,
) {
    let number = |field: &str| group[field].as_u64().expect("a number") as u32;
    let (s, t) = (number("counterBits"), number("tagSize"));
    for test in group["tests"].as_array().expect("a list") {
        let (id, field) = (&test["tcId"], |name: &str| hex(test[name].as_str().expect("text")));
        let (key, message, tag) = (field("key"), field("msg"), field("tag"));
        assert_eq!(key.len() as u32 * 8, number("keySize"), "tcId {id}");
        let (k1, k2) = key.split_at(key.len() / 2);
        let (k1, k2) = (new(k1), new(k2));
        let hasher = Hasher::from_cipher(k1, s).expect("a valid counter length");
        let mac = LightMac::from_parts(hasher.clone(), k2.clone(), t).expect("a valid tag length");
        let valid = test["result"] == "valid";
        assert_eq!(mac.verify(&[&message], &tag).is_ok(), valid, "tcId {id}");
        let too_long = test["flags"][0] == "TooLong";
        assert_eq!(mac.tag(&[&message]).is_err(), too_long, "tcId {id}");
        if !valid {
            continue;
        }
        assert_eq!(mac.tag(&[&message]).expect("not too long").as_bytes(), tag, "tcId {id}");
        let mut blocks = vec![Block::<C>::default(); 3];
        mac.tag_many(&[&message, &[], &message], &mut blocks).expect("not too long");
        let mut stream = Stream::new(hasher, k2);
        for piece in message.chunks(23) {
            stream.update(piece).expect("not too long");
        }
        for block in [&blocks[0], &blocks[2], &stream.finalize()] {
            assert_eq!(Tag::leading(block, t).as_bytes(), tag, "tcId {id}");
        }
    }
}

fn new<C: KeyInit>(key: &[u8]) -> C {
    C::new_from_slice(key).expect("the cipher's key size")
}

fn check_file(text: &str, check: impl Fn(&serde_json::Value)) {
    let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let groups = file["testGroups"].as_array().expect("a list");
    groups.iter().for_each(check);
    let count = |group: &serde_json::Value| group["tests"].as_array().map_or(0, Vec::len);
    let counted = groups.iter().map(count).sum::<usize>();
    assert_eq!(file["numberOfTests"], counted);
    assert!(counted > 0);
}

/// The vectors of `../vectors/lightmac.py`, an independent implementation.
#[test]
fn a_second_implementation_agrees_over_aes() {
    check_file(include_str!("../../vectors/lightmac_aes.json"), |group| {
        match group["keySize"].as_u64() {
            Some(256) => check(group, new::<aes::Aes128>),
            Some(384) => check(group, new::<aes::Aes192>),
            Some(512) => check(group, new::<aes::Aes256>),
            other => panic!("key size {other:?}"),
        }
        for kernel in Kernel::available() {
            let there = "the kernel is available";
            match group["keySize"].as_u64() {
                Some(256) => check(group, |key| {
                    let key = key.try_into().expect("16 bytes");
                    Aes128::with_kernel(key, kernel).expect(there)
                }),
                Some(512) => check(group, |key| {
                    let key = key.try_into().expect("32 bytes");
                    Aes256::with_kernel(key, kernel).expect(there)
                }),
                _ => {}
            }
        }
    });
}

/// Vectors of the same implementation for every counter length of a 32-bit cipher.
#[test]
fn a_second_implementation_agrees_over_speck() {
    check_file(include_str!("../../vectors/lightmac_speck.json"), |group| {
        check(group, new::<Speck32>);
    });
}

/// The MAC of one record of AES-128-CTR + LightMAC with the secret 00..1f, the context 01 10 00,
/// number 5, header 2305, type 23 and payload "0123456789". `vectors/lightmac.py` derives K1 and K2
/// from the secret.
#[test]
fn the_record_construction() {
    let message = hex("000000000005022305ac58e56910f2bbf2df7cd9");
    let key = |text| Key::<Aes128>::try_from(hex(text).as_slice()).expect("16 bytes");
    let mac = LightMac::<Aes128>::new(
        &key("8cb247bc7594b7e455ea6486ab27fe90"),
        &key("e668617c2922f7f58fafbfc17fa2d1df"),
        16,
        128,
    );
    let tag = mac.unwrap().tag(&[&message[..6], &message[6..9], &message[9..]]).unwrap();
    assert_eq!(tag.as_bytes(), hex("9f10b647c2072b846a4f8fb2622380fb"));
}
