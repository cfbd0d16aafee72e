//! Every kernel compared with published vectors, and with single blocks of the portable kernel.

use cipher::{Block, BlockCipherEncrypt, KeyInit};
use lightseal_present::{CounterSum, Kernel, Present80};

type State = Block<Present80>;

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

#[test]
fn blocks_in_bulk() {
    for kernel in Kernel::available() {
        let cipher = Present80::with_kernel(&[0xa5; 10].into(), kernel).unwrap();
        let reference = Present80::with_kernel(&[0xa5; 10].into(), Kernel::Portable).unwrap();
        for count in (0..300).chain([1000, 1023, 1024, 1025]) {
            let blocks: Vec<State> =
                bytes(8 * count).chunks(8).map(|block| block.try_into().unwrap()).collect();
            let mut expected = blocks.clone();
            for block in &mut expected {
                reference.encrypt_block(block);
            }
            let mut in_place = blocks.clone();
            cipher.encrypt_blocks(&mut in_place);
            assert_eq!(in_place, expected, "{kernel}, {count} blocks");
            let mut apart = vec![State::default(); count];
            cipher.encrypt_blocks_b2b(&blocks, &mut apart).unwrap();
            assert_eq!(apart, expected, "{kernel}, {count} blocks elsewhere");
        }
    }
}

/// The vectors of Bogdanov et al., CHES 2007, appendix A.
#[test]
fn published_vectors() {
    let vectors = [
        (0x00, 0x00, 0x5579_c138_7b22_8445),
        (0x00, 0xff, 0xa112_ffc7_2f68_417b),
        (0xff, 0x00, 0xe72c_46c0_f594_5049),
        (0xff, 0xff, 0x3333_dcd3_2132_10d2_u64),
    ];
    for kernel in Kernel::available() {
        for (key, plain, expected) in vectors {
            let cipher = Present80::with_kernel(&[key; 10].into(), kernel).unwrap();
            for count in [1, 2, 9, 33, 129] {
                let mut blocks = vec![State::from([plain; 8]); count];
                cipher.encrypt_blocks(&mut blocks);
                assert!(blocks.iter().all(|block| block.0 == expected.to_be_bytes()), "{kernel}");
            }
        }
    }
}

#[test]
fn kernels_are_known_by_name() {
    for kernel in Kernel::ALL {
        assert_eq!(kernel.to_string().parse(), Ok(*kernel));
    }
    assert!("mmx".parse::<Kernel>().is_err());
    assert!(Kernel::Portable.is_available() && Kernel::best().is_available());
    assert_eq!(Present80::new(&[0; 10].into()).kernel(), Kernel::best());
}

/// LightMAC's tests compare sums with other implementations. Here all kernels agree, up to the last
/// counter, which is written as 0.
#[test]
fn sums_agree() {
    let ciphers = Kernel::available()
        .map(|kernel| Present80::with_kernel(&[0x3c; 10].into(), kernel).expect("available"));
    let ciphers: Vec<_> = ciphers.collect();
    for counter_bytes in 1..=4 {
        let share = 8 - counter_bytes;
        for count in (0..40).chain([127, 128, 129, 200]) {
            let shares = bytes(count * share);
            let first = (1u64 << (8 * counter_bytes)).saturating_sub(count as u64) + 1;
            let mut expected = State::default();
            for (counter, share) in (first..).zip(shares.chunks(share)) {
                let mut block = State::default();
                block[..counter_bytes].copy_from_slice(&counter.to_be_bytes()[share.len()..]);
                block[counter_bytes..].copy_from_slice(share);
                ciphers[0].encrypt_block(&mut block);
                expected.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte);
            }
            for cipher in &ciphers {
                let mut state = State::default();
                cipher.add(counter_bytes, first, &shares, &mut state);
                assert_eq!(state, expected, "{}, {count} blocks", cipher.kernel());
            }
        }
    }
}

#[test]
#[should_panic(expected = "a counter has 1 to 4 bytes")]
fn a_counter_of_a_whole_block_is_refused() {
    Present80::new(&[0; 10].into()).hash(8, b"message", &mut [0; 8]);
}
