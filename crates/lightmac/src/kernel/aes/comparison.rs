//! AES kernels for the MACs that LightMAC is compared with, over the registers of LightMAC's own
//! kernels.

/// Implements [`ComparisonKernel`](crate::kernel::comparison::ComparisonKernel) for a kernel.
///
/// The module that calls it lies below the kernel's, whose items it uses, and defines
/// `load_halves()`.
macro_rules! comparison {
    ($name:ident, $features:literal) => {
        impl<const R: usize> ComparisonKernel for $name<R> {
            fn add_halves(
                &self,
                half: Half,
                base: &[u8],
                masks: &[u8],
                pairs: &[u8],
                state: &mut [u8],
            ) {
                let sum_halves = match half {
                    Half::First => sum_halves::<R, FIRST>,
                    Half::Second => sum_halves::<R, SECOND>,
                    Half::Sum => sum_halves::<R, SUM>,
                };
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe { sum_halves(&self.0, base, masks, pairs, state) }
            }

            fn chain(&self, blocks: &[u8], state: &mut [u8]) {
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe { chain(&self.0, blocks, state) }
            }
        }

        /// Implements [`ComparisonKernel::chain`].
        #[target_feature(enable = $features)]
        fn chain<const R: usize>(keys: &RoundKeys<R>, blocks: &[u8], state: &mut [u8]) {
            let mut round_keys = [_mm_setzero_si128(); R];
            for (register, key) in round_keys.iter_mut().zip(keys.iter()) {
                *register = load_one(key);
            }
            let mut chained = load_one(state);
            for block in blocks.chunks_exact(BLOCK) {
                // The first key is added to the message block, so that this addition is not part of
                // the chain's latency.
                chained = _mm_xor_si128(chained, _mm_xor_si128(load_one(block), round_keys[0]));
                for key in &round_keys[1..R - 1] {
                    chained = _mm_aesenc_si128(chained, *key);
                }
                chained = _mm_aesenclast_si128(chained, round_keys[R - 1]);
            }
            store_one(chained, state);
        }

        /// Implements [`ComparisonKernel::add_halves`].
        #[target_feature(enable = $features)]
        fn sum_halves<const R: usize, const HALF: usize>(
            keys: &RoundKeys<R>,
            base: &[u8],
            masks: &[u8],
            pairs: &[u8],
            state: &mut [u8],
        ) {
            let keys = each(keys);
            let count = (pairs.len() / (2 * BLOCK)).min(masks.len() / BLOCK);
            let base = xor(splat(load_one(base)), keys[0]);
            let mut total = zero();
            let mut done = 0;
            macro_rules! take {
                ($width:expr) => {{
                    let mut blocks = [zero(); $width];
                    for register in &mut blocks {
                        // SAFETY: this many pairs and masks are left.
                        let (block, mask) = unsafe {
                            let pairs = pairs.as_ptr().add(2 * BLOCK * done);
                            (load_halves::<HALF>(pairs), load(masks.as_ptr().add(BLOCK * done)))
                        };
                        *register = xor(xor(block, mask), base);
                        done += BLOCKS;
                    }
                    encrypt_registers(&keys, &mut blocks);
                    for register in blocks {
                        total = xor(total, register);
                    }
                }};
            }
            while count - done >= WIDTH * BLOCKS {
                take!(WIDTH);
            }
            while count - done >= BLOCKS {
                take!(1);
            }
            while done < count {
                let (first, second) = pairs[2 * BLOCK * done..].split_at(BLOCK);
                let [first, second] = [load_one(first), load_one(second)];
                let block = match HALF {
                    FIRST => first,
                    SECOND => second,
                    _ => _mm_xor_si128(first, second),
                };
                let block = _mm_xor_si128(block, load_one(&masks[BLOCK * done..]));
                let mut last = [xor(splat(block), base)];
                encrypt_registers(&keys, &mut last);
                total = xor(total, keep(last[0], 1));
                done += 1;
            }
            store_one(_mm_xor_si128(fold(total), load_one(state)), state);
        }
    };
}

pub(super) use comparison;

/// The value of [`Half`](crate::kernel::comparison::Half) as a constant.
pub(super) const FIRST: usize = 0;
pub(super) const SECOND: usize = 1;
pub(super) const SUM: usize = 2;
