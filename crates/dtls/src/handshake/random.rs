//! The random generator of an association.

use crate::parts::Randomness;
use core::ops::{Deref, DerefMut};
use lightseal_core::Random;
use lightseal_core::parts::PartState;

/// The random generator that an association keeps for what it draws after its first flight. A build
/// that draws nothing then keeps none.
#[derive(Debug)]
pub(crate) struct KeptRandom(PartState<Randomness, Random>);

/// Why a generator that is asked is there.
const KEPT: &str = "every part that draws randomness includes the generator";

impl KeptRandom {
    /// No generator: of an association that is only read.
    pub(crate) const EMPTY: Self = Self(PartState::EMPTY);

    pub(crate) fn new(rng: Random) -> Self {
        Self(PartState::new(Randomness::INCLUDED, |_| rng))
    }

    /// The generator, for the association in another form. This one is only read from now on.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::EMPTY)
    }
}

impl Deref for KeptRandom {
    type Target = Random;

    fn deref(&self) -> &Random {
        self.0.get().expect(KEPT)
    }
}

impl DerefMut for KeptRandom {
    fn deref_mut(&mut self) -> &mut Random {
        self.0.get_mut().expect(KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_may_be_left_out_takes_no_more_memory() {
        assert_eq!(size_of::<KeptRandom>(), size_of::<Random>());
    }
}
