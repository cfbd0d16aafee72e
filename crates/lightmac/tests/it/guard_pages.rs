//! No kernel accesses a byte outside of its arguments: messages, states and blocks lie at the edges
//! of memory whose neighbouring pages are inaccessible.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use cipher::{Block, BlockCipherEncrypt, Key, KeyInit};
use lightmac::internals::{Half, comparison_kernel};
use lightmac::{Aes128, Aes256, Hasher, LightMac, Present80, Present128, Stream, aes, present};
use tracer::Guarded;

/// A cipher with several kernels. The first is the one that the others are compared with.
trait Kernels: BlockCipherEncrypt + KeyInit + Clone + 'static {
    fn by_kernel(key: u8) -> Vec<(&'static str, Self)>;
}

macro_rules! kernels {
    ($($cipher:ident of $family:ident),*) => {$(
        impl Kernels for $cipher {
            fn by_kernel(key: u8) -> Vec<(&'static str, Self)> {
                let mut bytes = Key::<Self>::default();
                bytes.fill(key);
                let with = |kernel: $family::Kernel| {
                    (kernel.name(), $cipher::with_kernel(&bytes, kernel).expect("available"))
                };
                $family::Kernel::available().map(with).collect()
            }
        }
    )*};
}

kernels!(Aes128 of aes, Aes256 of aes, Present80 of present, Present128 of present);

/// The bytes as blocks.
fn blocks<C: BlockCipherEncrypt>(bytes: &mut [u8]) -> &mut [Block<C>] {
    Block::<C>::slice_as_chunks_mut(bytes).0
}

/// Lengths up to more than the one at which every kernel has all its registers in flight.
fn lengths(counter_bits: u32, block: usize) -> impl Iterator<Item = usize> + Clone {
    let most = lightmac::max_message_bytes(block, counter_bits);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    (0..=700).chain(890..=912).chain(1270..=1280).filter(move |length| *length <= most)
}

fn light_mac<C: Kernels>(counters: impl Iterator<Item = u32>) {
    let memory = Guarded::new(2048);
    let size = C::block_size();
    let [first, last] = [C::by_kernel(0x4b), C::by_kernel(0xb4)];
    for s in counters {
        let messages: Vec<&[u8]> =
            lengths(s, size).flat_map(|length| memory.edges(length)).collect();
        let mac = |at: usize| {
            let hasher = Hasher::from_cipher(first[at].1.clone(), s).unwrap();
            LightMac::from_parts(hasher, last[at].1.clone(), size as u32 * 8).unwrap()
        };
        let mut expected = vec![Block::<C>::default(); messages.len()];
        mac(0).tag_many(&messages, &mut expected).unwrap();
        for (at, (kernel, _)) in first.iter().enumerate() {
            let mac = mac(at);
            let mut room = Guarded::new(messages.len() * size);
            for at_end in [false, true] {
                let tags = blocks::<C>(room.edge_mut(messages.len() * size, at_end));
                mac.tag_many(&messages, tags).unwrap();
                assert!(tags == expected, "{kernel}, s = {s}, in a batch");
            }
            let stream = Stream::new(mac.hasher().clone(), last[at].1.clone());
            for (message, expected) in messages.iter().zip(&expected) {
                let tag = mac.tag(&[message]).unwrap();
                let length = message.len();
                assert_eq!(tag.as_bytes(), &expected[..], "{kernel}, s = {s}, {length} bytes");
                let mut stream = stream.clone();
                for part in [&message[..length / 3], &message[length / 3..]] {
                    stream.update(part).unwrap();
                }
                assert_eq!(&stream.finalize(), expected, "{kernel}, s = {s}, {length} in a stream");
            }
        }
    }
}

/// The kernels for the MACs that LightMAC is compared with.
fn comparison_kernels<C: Kernels>() {
    const MOST: usize = 70;
    let size = C::block_size();
    let memory = Guarded::new((2 * MOST + 1) * size);
    let masks_memory = Guarded::new(MOST * size);
    let ciphers = C::by_kernel(0x4b);
    let encrypt = |block: &mut [u8]| ciphers[0].1.encrypt_blocks(blocks::<C>(block));
    let add = |to: &mut [u8], block: &[u8]| to.iter_mut().zip(block).for_each(|(a, b)| *a ^= b);
    let start = vec![0xa5; size];
    for (count, at_end) in (0..=MOST).flat_map(|count| [(count, 0), (count, 1)]) {
        let pairs = memory.edges(2 * count * size)[at_end];
        let masks = masks_memory.edges(count * size)[at_end];
        let base = memory.edges(size)[at_end];
        let mut chained = start.clone();
        for block in pairs.chunks(size) {
            add(&mut chained, block);
            encrypt(&mut chained);
        }
        let mut sums = [Half::First, Half::Second, Half::Sum].map(|half| (half, start.clone()));
        for (pair, mask) in pairs.chunks(2 * size).zip(masks.chunks(size)) {
            for (half, sum) in &mut sums {
                let from = if *half == Half::Second { size } else { 0 };
                let mut block = pair[from..from + size].to_vec();
                if *half == Half::Sum {
                    add(&mut block, &pair[size..]);
                }
                add(&mut block, mask);
                add(&mut block, base);
                encrypt(&mut block);
                add(sum, &block);
            }
        }
        for (name, cipher) in &ciphers {
            let Some(kernel) = comparison_kernel(cipher) else { continue };
            let mut state = Guarded::new(size);
            let state = state.edge_mut(size, at_end == 1);
            state.copy_from_slice(&start);
            kernel.chain(pairs, state);
            assert_eq!(state, chained, "{name}, a chain of {count} pairs");
            for (half, sum) in &sums {
                state.copy_from_slice(&start);
                kernel.add_halves(*half, base, masks, pairs, state);
                assert_eq!(state, sum, "{name}, {half:?} of {count} pairs");
            }
        }
    }
}

fn bulk<C: Kernels>() {
    const MOST: usize = 260;
    let size = C::block_size();
    let mut from = Guarded::new(MOST * size);
    let mut to = Guarded::new(MOST * size);
    let ciphers = C::by_kernel(0x77);
    for count in (0..=140).chain(250..=MOST) {
        for at_end in [false, true] {
            let original = from.edges(count * size)[usize::from(at_end)].to_vec();
            let mut expected = original.clone();
            for block in blocks::<C>(&mut expected) {
                ciphers[0].1.encrypt_block(block);
            }
            for (kernel, cipher) in &ciphers {
                let input = blocks::<C>(from.edge_mut(count * size, at_end));
                let output = blocks::<C>(to.edge_mut(count * size, at_end));
                cipher.encrypt_blocks_b2b(input, output).unwrap();
                assert!(*output == *blocks::<C>(&mut expected), "{kernel}, {count} blocks");
                // The output is written to the address of the input, after another address above.
                cipher.encrypt_blocks(input);
                assert!(*input == *output, "{kernel}, {count} blocks in place");
                from.edge_mut(count * size, at_end).copy_from_slice(&original);
            }
        }
    }
    for (kernel, cipher) in &ciphers {
        for at_end in [false, true] {
            let [input] = blocks::<C>(from.edge_mut(size, at_end)) else { unreachable!() };
            let [output] = blocks::<C>(to.edge_mut(size, at_end)) else { unreachable!() };
            cipher.encrypt_block_b2b(input, output);
            cipher.encrypt_block(input);
            assert_eq!(input, output, "{kernel}, one block");
        }
    }
}

#[test]
fn light_mac_over_aes() {
    light_mac::<Aes128>((8..=64).step_by(8).chain([9, 27, 63]));
    light_mac::<Aes256>([16].into_iter());
}

#[test]
fn light_mac_over_present() {
    light_mac::<Present80>((8..=32).step_by(8).chain([5, 31]));
    light_mac::<Present128>([16].into_iter());
}

#[test]
fn the_kernels_for_comparison() {
    comparison_kernels::<Aes128>();
    comparison_kernels::<Aes256>();
}

#[test]
fn blocks_in_bulk() {
    bulk::<Aes128>();
    bulk::<Aes256>();
    bulk::<Present80>();
}
