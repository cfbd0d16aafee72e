//! A reversed hash chain: a cheap filter before the signature check, and nothing else.
//!
//! The controller distributes the end of a chain, its *anchor*, and each rekey message carries an
//! earlier element of the chain. An attacker that has not received the message cannot compute the
//! element, so forged messages are dropped after a few hashes. The element proves nothing about the
//! message's content, because anybody can copy it into another message: that is the task of the
//! signature. And it is never used as key material, because from one element all elements released
//! before it can be computed.
//!
//! ```text
//! H(x) = the first 16 bytes of SHA-256("lightseal rekey chain" ‖ 0 ‖ group ‖ x)
//! ```

use core::fmt;
use lightseal_core::Random;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::GroupId;

/// An element of a chain.
pub type Element = [u8; 16];

/// The maximum number of hashes that lead from an element to the anchor.
pub const MAX_STEPS: u32 = 64;
/// The number of elements in a chain. One message for each chain is 16 bytes longer, because it
/// carries the next chain's anchor. The controller computes at most this many hashes for one
/// element.
pub const LENGTH: u32 = 256;

fn hash(group: &GroupId, element: &Element) -> Element {
    let mut hash = Sha256::new();
    hash.update(b"lightseal rekey chain\0");
    hash.update(group.0);
    hash.update(element);
    let full: [u8; 32] = hash.finalize().into();
    core::array::from_fn(|i| full[i])
}

/// Whether `anchor` results from `element` by at least one and at most [`MAX_STEPS`] hashes.
pub fn leads_to(group: &GroupId, element: &Element, anchor: &Element) -> bool {
    let mut at = *element;
    (0..MAX_STEPS).any(|_| {
        at = hash(group, &at);
        at == *anchor
    })
}

/// The controller's hash chain, with the elements that were not released yet.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Chain {
    seed: Element,
    /// The number of elements left, at least 1.
    left: u32,
}

impl Chain {
    /// A new chain.
    pub fn new(rng: &mut Random) -> Self {
        Self { seed: rng.array(), left: LENGTH }
    }

    /// A chain from storage, with its stored [`seed`](Self::seed) and [`left`](Self::left). `None`
    /// unless `left` is 1 to [`LENGTH`].
    pub const fn restore(seed: Element, left: u32) -> Option<Self> {
        if left >= 1 && left <= LENGTH { Some(Self { seed, left }) } else { None }
    }

    /// The secret from which all elements are computed, for storage.
    pub const fn seed(&self) -> &Element {
        &self.seed
    }

    /// The number of elements left.
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// The value that the next element is checked against: the last element released, or the end of
    /// the chain.
    pub fn anchor(&self, group: &GroupId) -> Element {
        (0..self.left).fold(self.seed, |at, _| hash(group, &at))
    }

    /// Releases the next element. After the last one, a new chain replaces this one, and its anchor
    /// is returned as well.
    pub fn release(&mut self, group: &GroupId, rng: &mut Random) -> (Element, Option<Element>) {
        self.left -= 1;
        let element = self.anchor(group);
        if self.left > 0 {
            return (element, None);
        }
        *self = Self::new(rng);
        (element, Some(self.anchor(group)))
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_leads_to_the_one_before_it_and_no_other_way() {
        let (group, mut rng) = (GroupId([1; 16]), Random::insecure(1));
        let mut chain = Chain::new(&mut rng);
        let mut anchor = chain.anchor(&group);
        for released in 1..=2 * LENGTH + 1 {
            let (element, next) = chain.release(&group, &mut rng);
            assert!(leads_to(&group, &element, &anchor));
            assert!(!leads_to(&group, &anchor, &element));
            assert!(!leads_to(&group, &element, &element));
            assert!(!leads_to(&GroupId([2; 16]), &element, &anchor));
            assert_eq!(next.is_some(), released % LENGTH == 0);
            anchor = next.unwrap_or(element);
            assert_eq!(anchor, chain.anchor(&group));
        }
    }

    #[test]
    fn sixty_four_steps_are_followed_and_no_more() {
        let (group, mut rng) = (GroupId([1; 16]), Random::insecure(2));
        let mut chain = Chain::new(&mut rng);
        let anchor = chain.anchor(&group);
        for step in 1..=MAX_STEPS + 3 {
            let (element, _) = chain.release(&group, &mut rng);
            assert_eq!(leads_to(&group, &element, &anchor), step <= MAX_STEPS, "step {step}");
        }
    }

    #[test]
    fn a_stored_chain_goes_on() {
        let (group, mut rng) = (GroupId([1; 16]), Random::insecure(3));
        let mut chain = Chain::new(&mut rng);
        chain.release(&group, &mut rng);
        let mut again = Chain::restore(*chain.seed(), chain.left()).unwrap();
        assert_eq!(again.release(&group, &mut rng), chain.release(&group, &mut rng));
        assert!(Chain::restore([0; 16], 0).is_none());
        assert!(Chain::restore([0; 16], LENGTH + 1).is_none());
    }
}
