//! Encrypts a block: `cargo run --example encrypt [KEY [BLOCK]]`, both as 32 hexadecimal digits.

use lightseal_aes_table::Aes128;
use lightseal_aes_table::cipher::{BlockCipherEncrypt, KeyInit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| {
        let digits = arguments.next().unwrap_or_else(|| default.into());
        u128::from_str_radix(&digits, 16).map_err(|error| format!("{digits}: {error}"))
    };
    let key = next("000102030405060708090a0b0c0d0e0f")?;
    let mut block = next("00112233445566778899aabbccddeeff")?.to_be_bytes().into();
    Aes128::new(&key.to_be_bytes().into()).encrypt_block(&mut block);
    println!("{:032x}", u128::from_be_bytes(block.0));
    Ok(())
}
