//! Encrypts blocks with PRESENT-80 on every kernel that this processor supports.
//!
//! Run it with `cargo run --release --example kernels`.

use lightseal_present::cipher::{Block, BlockCipherEncrypt};
use lightseal_present::{Kernel, Present80};

fn main() {
    for kernel in Kernel::available() {
        let cipher = Present80::with_kernel(&[0x11; 10].into(), kernel).expect("it is available");
        // Many blocks in one call take little more time than a few.
        let mut blocks: Vec<Block<Present80>> =
            (0u64..1000).map(|number| number.to_be_bytes().into()).collect();
        cipher.encrypt_blocks(&mut blocks);
        let last = blocks.last().expect("there are blocks");
        println!("{kernel}: the last block is {:016x}", u64::from_be_bytes(last.0));
    }
}
