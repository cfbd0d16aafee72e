//! Hashing in the style of PMAC with Parity, after Yasuda's "PMAC with Parity: Minimizing the
//! Query-Length Influence" (CT-RSA 2012).
//!
//! It has the properties that the authors of LightMAC name: four keys, and three cipher calls for
//! two blocks, all independent of each other. Its exact masks and its rule for an odd number of
//! blocks were not available to us, so those are our own, and its tags are not those of PMAC with
//! Parity. The amount of computation is the same.

use crate::xor;
use cipher::array::{Array, ArraySize};
use cipher::typenum::Unsigned;
use cipher::{Block, BlockCipherEncrypt, Key, KeyInit};
use core::fmt;
use lightmac::internals::{ComparisonKernel, Half, comparison_kernel};
use zeroize::Zeroize;

/// Number of pairs of blocks in flight, which fills the widest kernels.
const WIDTH: usize = 64;
/// Number of pairs in flight within a short message.
const SHORT: usize = 8;
/// Length of the largest block, in bytes.
const MAX_BLOCK: usize = 16;
/// The binary logarithm of [`WIDTH`].
const WIDTH_BITS: usize = WIDTH.trailing_zeros() as usize;
/// Number of stored multiples of the mask's unit: enough for 2^63 pairs.
const DOUBLINGS: usize = 64;

/// A MAC in the style of PMAC with Parity, over a cipher with blocks of 64 or 128 bits, with tags
/// of a whole block.
///
/// With n-bit blocks M\[1\], M\[2\] … and the n-bit field's element x, written 2:
///
/// ```text
/// L ← E_K1(0ⁿ);  Δ_i ← L ⊕ γ_i·2L,   γ_i = i ⊕ ⌊i/2⌋ the i-th Gray code, from i = 0
/// Σ ← ⊕ E_K1(M[2i+1] ⊕ Δ_i) ⊕ E_K2(M[2i+2] ⊕ Δ_i) ⊕ E_K3(M[2i+1] ⊕ M[2i+2] ⊕ Δ_i)
/// a whole block that is left over adds E_K1(M[2i+1] ⊕ Δ_i)
/// tag ← E_K4( Σ ⊕ ( the 0 to n − 1 bits left ‖ 1 ‖ 0 … 0 ) )
/// ```
///
/// ```
/// use lightmac::Present80;
/// use lightseal_mac_papers::PmacParity;
///
/// let mac = PmacParity::<Present80>::new([1, 2, 3, 4].map(|i| [i; 10].into()).each_ref());
/// assert_ne!(mac.tag(b"message"), mac.tag(b"message\x80"));
/// ```
#[derive(Clone)]
pub struct PmacParity<C: BlockCipherEncrypt> {
    ciphers: [C; 3],
    last: C,
    masks: Masks<C>,
}

impl<C: BlockCipherEncrypt + KeyInit + 'static> PmacParity<C> {
    /// A MAC with the keys K1 … K4, which must be independent. A cipher whose block has neither 64
    /// nor 128 bits fails to compile.
    pub fn new(keys: [&Key<C>; 4]) -> Self {
        let [first, second, parity, last] = keys.map(C::new);
        Self::from_ciphers([first, second, parity], last)
    }
}

impl<C: BlockCipherEncrypt + 'static> PmacParity<C> {
    /// A MAC from ciphers that have been set up with K1 to K3 and with K4.
    pub fn from_ciphers(ciphers: [C; 3], last: C) -> Self {
        let masks = Masks::new(&ciphers[0]);
        Self { ciphers, last, masks }
    }

    /// The tag of `message`.
    pub fn tag(&self, message: &[u8]) -> Block<C> {
        if let [Some(first), Some(second), Some(parity)] =
            self.ciphers.each_ref().map(comparison_kernel)
        {
            return self.tag_by_kernels([first, second, parity], message);
        }
        // A smaller buffer takes less time to clear.
        if message.len() < 2 * SHORT * C::BlockSize::USIZE {
            self.tag_staged::<SHORT>(message)
        } else {
            self.tag_staged::<WIDTH>(message)
        }
    }

    /// The tag, computed by each cipher's kernel in turn over all pairs, so that round keys stay in
    /// registers.
    fn tag_by_kernels(&self, kernels: [&dyn ComparisonKernel; 3], message: &[u8]) -> Block<C> {
        let (blocks, rest) = Block::<C>::slice_as_chunks(message);
        let (pairs, single) = blocks.split_at(blocks.len() / 2 * 2);
        let mut sum = Block::<C>::default();
        let mut base = self.masks.first.clone();
        let within = Array::slice_as_flattened(&self.masks.within);
        for (number, group) in (1..).zip(pairs.chunks(2 * WIDTH)) {
            for (kernel, half) in kernels.iter().zip([Half::First, Half::Second, Half::Sum]) {
                let group = Array::slice_as_flattened(group);
                kernel.add_halves(half, &base, within, group, &mut sum);
            }
            if group.len() == 2 * WIDTH {
                self.masks.advance(&mut base, number);
            }
        }
        if let [single] = single {
            let mut block = add(single, &add(&base, &self.masks.within[pairs.len() / 2 % WIDTH]));
            self.ciphers[0].encrypt_block(&mut block);
            sum = add(&sum, &block);
        }
        xor(&mut sum, rest);
        sum[rest.len()] ^= 0x80;
        self.last.encrypt_block(&mut sum);
        sum
    }

    /// The tag, computed with `L` pairs at a time: all pairs of a short message, or [`WIDTH`].
    #[inline(always)]
    fn tag_staged<const L: usize>(&self, message: &[u8]) -> Block<C> {
        let (blocks, rest) = Block::<C>::slice_as_chunks(message);
        let (pairs, single) = blocks.as_chunks::<2>();
        let mut sum = Block::<C>::default();
        let mut base = self.masks.first.clone();
        let mut room = [[[0; MAX_BLOCK]; L]; 3];
        let [firsts, seconds, parities] = room
            .each_mut()
            .map(|room| &mut Block::<C>::slice_as_chunks_mut(room.as_flattened_mut()).0[..L]);
        let mut groups = pairs.chunks_exact(L);
        for (number, group) in (1..).zip(&mut groups) {
            self.stage(group, &base, firsts, seconds, parities);
            for (cipher, blocks) in
                self.ciphers.iter().zip([&mut *firsts, &mut *seconds, &mut *parities])
            {
                cipher.encrypt_blocks(blocks);
                add_all(&mut sum, blocks);
            }
            self.masks.advance(&mut base, number);
        }
        let group = groups.remainder();
        let count = group.len();
        self.stage(group, &base, firsts, seconds, parities);
        // A block without a partner is encrypted like the first block of a pair.
        for (lane, block) in firsts[count..].iter_mut().zip(single) {
            *lane = add(block, &add(&base, &self.masks.within[count]));
        }
        for (cipher, blocks) in self.ciphers.iter().zip([
            &mut firsts[..count + single.len()],
            &mut seconds[..count],
            &mut parities[..count],
        ]) {
            cipher.encrypt_blocks(blocks);
            add_all(&mut sum, blocks);
        }
        xor(&mut sum, rest);
        sum[rest.len()] ^= 0x80;
        self.last.encrypt_block(&mut sum);
        sum
    }

    /// Writes the inputs of the three ciphers for at most [`WIDTH`] pairs.
    #[inline(always)]
    fn stage(
        &self,
        pairs: &[[Block<C>; 2]],
        base: &Block<C>,
        firsts: &mut [Block<C>],
        seconds: &mut [Block<C>],
        parities: &mut [Block<C>],
    ) {
        let lanes = firsts.iter_mut().zip(seconds).zip(parities);
        for ((((first, second), parity), mask), [one, two]) in
            lanes.zip(&self.masks.within).zip(pairs)
        {
            let mask = add(base, mask);
            *first = add(one, &mask);
            *second = add(two, &mask);
            *parity = add(one, second);
        }
    }
}

/// The sum of two blocks, computed in words of fixed size so that they stay in registers.
#[inline(always)]
fn add<N: ArraySize>(a: &Array<u8, N>, b: &Array<u8, N>) -> Array<u8, N> {
    let mut sum = Array::<u8, N>::default();
    let (words, a, b) = (sum.as_chunks_mut::<8>().0, a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for ((word, a), b) in words.iter_mut().zip(a).zip(b) {
        *word = (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)).to_ne_bytes();
    }
    sum
}

#[inline(always)]
fn add_all<N: ArraySize>(sum: &mut Array<u8, N>, blocks: &[Array<u8, N>]) {
    *sum = blocks.iter().fold(sum.clone(), |sum, block| add(&sum, block));
}

impl<C: BlockCipherEncrypt> fmt::Debug for PmacParity<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PmacParity").finish_non_exhaustive()
    }
}

/// The masks. Pair i = g·[`WIDTH`] + j has the mask Δ_i, which is the base of group g plus
/// `within[j]`: the high and the low part of a Gray code.
#[derive(Clone)]
struct Masks<C: BlockCipherEncrypt> {
    /// L, the base of the first group.
    first: Block<C>,
    /// γ_j·2L for each pair of a group.
    within: [Block<C>; WIDTH],
    /// 2^j·2L for each bit of a Gray code.
    doublings: [Block<C>; DOUBLINGS],
}

impl<C: BlockCipherEncrypt> Masks<C> {
    const VALID: () = assert!(
        C::BlockSize::USIZE == 8 || C::BlockSize::USIZE == 16,
        "PMAC/P: blocks of 64 or 128 bits"
    );

    fn new(cipher: &C) -> Self {
        const { Self::VALID };
        let mut first = Block::<C>::default();
        cipher.encrypt_block(&mut first);
        let mut doublings = [(); DOUBLINGS].map(|()| Block::<C>::default());
        let mut doubled = first.clone();
        for slot in &mut doublings {
            doubled = double::<C>(&doubled);
            slot.clone_from(&doubled);
        }
        doubled.as_mut_slice().zeroize();
        let mut within = [(); WIDTH].map(|()| Block::<C>::default());
        for j in 1..WIDTH {
            // A single bit changes from one Gray code to the next.
            let (before, at) = within.split_at_mut(j);
            at[0].clone_from(&before[j - 1]);
            xor(&mut at[0], &doublings[j.trailing_zeros() as usize]);
        }
        Self { first, within, doublings }
    }

    /// Changes the base of group `number` − 1 to that of group `number`, which is at least 1. With
    /// k = ntz(number), the number of trailing zeros, the Gray codes of the groups' first pairs
    /// differ in the bits WIDTH_BITS + k and WIDTH_BITS − 1.
    fn advance(&self, base: &mut Block<C>, number: usize) {
        xor(base, &self.doublings[WIDTH_BITS + number.trailing_zeros() as usize]);
        xor(base, &self.doublings[WIDTH_BITS - 1]);
    }
}

impl<C: BlockCipherEncrypt> Drop for Masks<C> {
    fn drop(&mut self) {
        self.first.as_mut_slice().zeroize();
        Array::slice_as_flattened_mut(&mut self.within).zeroize();
        Array::slice_as_flattened_mut(&mut self.doublings).zeroize();
    }
}

/// Multiplies a block by x in the field of 2^64 (x^64 + x^4 + x^3 + x + 1) or of 2^128 elements
/// (x^128 + x^7 + x^2 + x + 1), in constant time.
fn double<C: BlockCipherEncrypt>(block: &Block<C>) -> Block<C> {
    let (bits, polynomial) = if block.len() == 8 { (64, 0x1b) } else { (128, 0x87) };
    let number = block.iter().fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
    let carry = number >> (bits - 1) & 1;
    let doubled = ((number << 1) ^ (carry * polynomial)) << (128 - bits);
    let mut out = Block::<C>::default();
    out.copy_from_slice(&doubled.to_be_bytes()[..block.len()]);
    out
}
