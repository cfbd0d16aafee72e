//! The schemes of a published MACsec tunnel, **with their faults**, for comparison. No program that
//! operators install has them.
//!
//! | scheme | what an observer learns about a flow | which forgeries a gateway forwards |
//! |---|---|---|
//! | [`identifier-paper`](identifier) | TCI and SL | junk under an identifier it overtook; each guess costs a lookup |
//! | [`encryption-paper`](encryption) | nothing | replays, and frames with random addresses |
//!
//! Both implement [`Scheme`] on the flows of `lightseal-gateway`, and so run in its engine. A frame
//! whose flow the peer does not know yet is held. The tests of this crate carry out each attack on
//! these schemes and on those of `lightseal-gateway`. `lightseal-lab gateway` runs a gateway with one
//! of these schemes.

#![forbid(unsafe_code)]

pub mod encryption;
pub mod identifier;
pub mod pcbc;

use lightseal_core::{Instant, Random};
use lightseal_gateway::config::ConfigError;
use lightseal_gateway::flows::FlowLimits;
use lightseal_gateway::schemes::Scheme;

/// The names of the paper's schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaperScheme {
    /// The paper's rotating identifiers.
    Identifier,
    /// The paper's encryption.
    Encryption,
}

impl PaperScheme {
    /// Every scheme of the paper.
    pub const ALL: [Self; 2] = [Self::Identifier, Self::Encryption];

    /// The name of the scheme.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identifier => identifier::NAME,
            Self::Encryption => encryption::NAME,
        }
    }

    /// The scheme with the name `name`.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.as_str() == name)
    }

    /// The scheme as in the paper, without flows.
    ///
    /// # Errors
    /// If the limits are invalid.
    pub fn make(
        self,
        limits: FlowLimits,
        random: &mut Random,
        now: Instant,
    ) -> Result<Box<dyn Scheme>, ConfigError> {
        Ok(match self {
            Self::Identifier => Box::new(identifier::IdentifierPaper::new(limits, random, now)?),
            Self::Encryption => Box::new(encryption::EncryptionPaper::new(limits, random, now)?),
        })
    }
}
