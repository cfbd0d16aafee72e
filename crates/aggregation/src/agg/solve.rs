//! Chooses one candidate of each number so that their shares XOR to a target.

use crate::definition::SetSize;
use crate::prf::is_zero;
use crate::tuning::HELD_PER_NUMBER;

/// The largest number of record numbers in one choice.
pub(crate) const NUMBERS: usize = SetSize::MAX.get() as usize;

/// The largest number of difference vectors, which all numbers but the last have.
const ROWS: usize = (NUMBERS - 1) * (HELD_PER_NUMBER - 1);

// At least 96 bits of security must remain with the most candidates that may be held, and a
// combination of rows must fit a u64.
const _: () = assert!(NUMBERS * HELD_PER_NUMBER.ilog2() as usize <= 32);
const _: () = assert!(HELD_PER_NUMBER.is_power_of_two() && (NUMBERS - 1) * HELD_PER_NUMBER <= 64);

/// The shares of one number's candidates.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shares {
    pub(crate) values: [u128; HELD_PER_NUMBER],
    /// Number of candidates. A choice exists only if it is at least 1.
    pub(crate) count: usize,
}

/// A difference vector, and a bit mask of the original rows that were added to make it.
#[derive(Clone, Copy, Default)]
struct Row {
    vector: u128,
    combination: u64,
}

/// For each number, the index of the candidate to take so that the chosen shares XOR to `target`;
/// `None` if none is found.
///
/// This is linear algebra over GF(2). The sum of the first candidates is the start; choosing
/// another candidate adds a difference vector. A sum of difference vectors that closes the gap to
/// the target is a choice, unless it takes two vectors of one number. The last number's candidates
/// are tried one by one: they may differ in the carried tag alone, which the sender of junk
/// chooses. All other differences are outputs of the pseudorandom function, and at most 45 of them
/// in 128 dimensions are independent except with a probability of 2^-83.
///
/// The time depends on the number of candidates, never on their shares.
pub(crate) fn choose(numbers: &[Shares], target: u128) -> Option<[usize; NUMBERS]> {
    let (last, others) = numbers.split_last()?;
    let mut start = target;
    let mut rows = [Row::default(); ROWS];
    let mut used = 0;
    for shares in others {
        start ^= shares.values[0];
        for value in shares.values.get(1..shares.count)? {
            rows[used] = Row { vector: value ^ shares.values[0], combination: 1 << used };
            used += 1;
        }
    }
    let mut gaps = last.values.map(|value| Row { vector: start ^ value, combination: 0 });
    eliminate(&mut rows[..used], &mut gaps);
    let gaps = gaps.iter().take(last.count).enumerate();
    gaps.filter(|(_, gap)| is_zero(gap.vector).into())
        .find_map(|(choice, gap)| decode(others, gap.combination, choice))
}

/// Reduces `gaps` by the span of `rows`. A gap within the span becomes 0, and its combination says
/// which rows close it.
fn eliminate(rows: &mut [Row], gaps: &mut [Row]) {
    if rows.is_empty() {
        return;
    }
    let mut spent = 0u64;
    for bit in 0..u128::BITS as usize {
        let mut pivot = Row::default();
        let mut found = 0u64;
        for (i, row) in rows.iter().enumerate() {
            let take = bit_of(row, bit) & !(spent >> i) & !found & 1;
            pivot.vector |= row.vector & wide_mask(take);
            pivot.combination |= row.combination & mask(take);
            spent |= take << i;
            found |= take;
        }
        for (i, row) in rows.iter_mut().enumerate() {
            add(row, &pivot, bit_of(row, bit) & !(spent >> i) & 1);
        }
        for gap in gaps.iter_mut() {
            add(gap, &pivot, bit_of(gap, bit));
        }
    }
}

/// The bit with this index of a row's vector. It is read from its byte, because a shift of 128 bits
/// takes many instructions on small processors.
const fn bit_of(row: &Row, bit: usize) -> u64 {
    (row.vector.to_le_bytes()[bit / 8] >> (bit % 8) & 1) as u64
}

fn add(row: &mut Row, pivot: &Row, bit: u64) {
    row.vector ^= pivot.vector & wide_mask(bit);
    row.combination ^= pivot.combination & mask(bit);
}

fn mask(bit: u64) -> u64 {
    bit.wrapping_neg()
}

fn wide_mask(bit: u64) -> u128 {
    u128::from(bit).wrapping_neg()
}

/// Turns a combination of rows into one choice for each number; `None` if it takes two rows of one
/// number.
fn decode(others: &[Shares], mut combination: u64, last: usize) -> Option<[usize; NUMBERS]> {
    let mut choice = [0; NUMBERS];
    for (chosen, shares) in choice.iter_mut().zip(others) {
        let rows = shares.count - 1;
        let taken = combination & ((1 << rows) - 1);
        combination >>= rows;
        *chosen = match taken.count_ones() {
            0 => 0,
            1 => taken.trailing_zeros() as usize + 1,
            _ => return None,
        };
    }
    choice[others.len()] = last;
    Some(choice)
}

#[cfg(all(test, feature = "rivals"))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn shares(values: &[u128]) -> Shares {
        let mut shares = Shares { count: values.len(), ..Shares::default() };
        shares.values[..values.len()].copy_from_slice(values);
        shares
    }

    fn sum(numbers: &[Shares], choice: &[usize]) -> u128 {
        numbers.iter().zip(choice).fold(0, |sum, (shares, &i)| sum ^ shares.values[i])
    }

    #[test]
    fn two_of_one_number_is_no_choice() {
        let numbers = [shares(&[1, 2, 4]), shares(&[0])];
        assert_eq!(choose(&numbers, 2).map(|choice| choice[0]), Some(1));
        // 7 = 1 ⊕ 2 ⊕ 4 needs all three.
        assert_eq!(choose(&numbers, 7), None);
    }

    #[test]
    fn junk_that_differs_in_the_tag_alone_hides_nothing() {
        // The fourth value is the XOR of the others, so it is linearly dependent, as an attacker
        // might choose it.
        let numbers = [shares(&[0x90, 0xc0]), shares(&[1, 2, 4, 7])];
        for (i, last) in [1, 2, 4, 7].into_iter().enumerate() {
            let choice = choose(&numbers, 0xc0 ^ last).expect("a choice exists");
            assert_eq!((choice[0], choice[1]), (1, i));
        }
    }

    #[test]
    fn a_full_set_with_three_rivals_each() {
        let mut numbers = [Shares { count: 4, ..Shares::default() }; 16];
        // Any generator of pseudorandom numbers serves here; this is a Weyl sequence with a
        // finalizer.
        let mut x = 0u128;
        for value in numbers.iter_mut().flat_map(|shares| &mut shares.values) {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let y = (x ^ x >> 67).wrapping_mul(0xda94_2042_e4dd_58b5_9e37_79b9_7f4a_7c15);
            *value = y ^ y >> 61;
        }
        let wanted: [usize; 16] = core::array::from_fn(|i| (i * 7 + 3) % 4);
        let target = sum(&numbers, &wanted);
        assert_eq!(choose(&numbers, target), Some(wanted));
        assert_eq!(choose(&numbers, target ^ 1), None);
    }

    proptest! {
        /// Compares `choose` with trying every combination. With shares of 16 bits, accidental sums
        /// and dependent rows are common. Every choice found must therefore be right, but a choice
        /// must be found only if the rows are independent.
        #[test]
        fn agrees_with_trying_everything(
            values in prop::collection::vec(prop::collection::vec(any::<u16>(), 1..4), 1..6),
            target in any::<u16>(),
            planted in any::<prop::sample::Index>(),
            plant in any::<bool>(),
        ) {
            let spread = |v: u16| u128::from(v) * 0x0001_0000_0001_0000_0001_0000_0001;
            let numbers: Vec<Shares> = values
                .iter()
                .map(|v| shares(&v.iter().map(|&v| spread(v)).collect::<Vec<_>>()))
                .collect();
            let ways: usize = numbers.iter().map(|n| n.count).product();
            let nth = |mut way: usize| -> Vec<usize> {
                numbers.iter().map(|n| { let i = way % n.count; way /= n.count; i }).collect()
            };
            let target = if plant { sum(&numbers, &nth(planted.index(ways))) } else { spread(target) };
            let solutions: Vec<Vec<usize>> =
                (0..ways).map(nth).filter(|choice| sum(&numbers, choice) == target).collect();
            match choose(&numbers, target) {
                Some(choice) => prop_assert_eq!(sum(&numbers, &choice), target),
                None if solutions.is_empty() => {}
                None => {
                    let mut rows: Vec<u128> = numbers[..numbers.len() - 1]
                        .iter()
                        .flat_map(|n| n.values[1..n.count].iter().map(|v| v ^ n.values[0]))
                        .collect();
                    let all = rows.len();
                    let mut rank = 0;
                    while let Some(pivot) = rows.pop() {
                        if pivot != 0 {
                            rank += 1;
                            let low = pivot & pivot.wrapping_neg();
                            for row in rows.iter_mut().filter(|row| **row & low != 0) {
                                *row ^= pivot;
                            }
                        }
                    }
                    prop_assert!(rank < all, "a choice was missed");
                }
            }
        }
    }
}
