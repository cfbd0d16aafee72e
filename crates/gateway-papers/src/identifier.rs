//! `identifier-paper`: in place of its header a frame has an identifier that changes with every frame
//! (the paper's section 4.2).
//!
//! ```text
//! | type (1) | ridf (8) | TCI (1) | SL (1) | secure data | ICV (16) |
//! ```
//!
//! TCI and SL are in clear. The receiver's window of [`WINDOW`] identifiers moves only when a frame
//! arrives whose identifier is in it: after the loss of as many frames in a row the flow stalls for
//! good.

use lightseal_core::{Instant, PacketBuf, Random};
use lightseal_gateway::config::ConfigError;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::flows::uplink::SendForm;
use lightseal_gateway::flows::{BaseIdentifier, FlowLimits, FlowOptions, Flows, Rotating};
use lightseal_gateway::schemes::identifier::{SHORT_LEN, restore, shorten};
use lightseal_gateway::schemes::{Incoming, Outgoing, Scheme, SchemeCode, SealOutcome};
use lightseal_gateway::stations::PeerIndex;
use lightseal_macsec::Header;
use siphasher::sip;

/// The name of the scheme.
pub const NAME: &str = "identifier-paper";
/// The first byte of datagrams.
pub const TYPE: u8 = 0x52;
/// How many packet numbers ahead of the highest one, and how many behind it, have identifiers in the
/// receiver's table.
pub const WINDOW: u64 = 64;

/// The paper's derivation (section 5): SipHash-2-4 keyed with the PN, as a 128-bit number, over bidf.
/// A keyed hash function is not a PRF of its message when the key is known, so only the secrecy of
/// the 128-bit input protects identifiers against guesses.
pub fn derive(base: &BaseIdentifier, pn: u64, _an: u8) -> Rotating {
    let key = u128::from(pn as u32).to_be_bytes();
    let hash = sip::SipHasher24::new_with_key(&key).hash(base.expose());
    Rotating { identifier: hash.to_le_bytes(), mask: [0; 2] }
}

/// The scheme `identifier-paper`.
#[derive(Debug)]
pub struct IdentifierPaper {
    flows: Flows,
}

impl IdentifierPaper {
    /// A scheme without flows. Base identifiers and the keys of hash tables are drawn from `random`.
    ///
    /// # Errors
    /// If the limits are invalid.
    pub fn new(limits: FlowLimits, random: &mut Random, now: Instant) -> Result<Self, ConfigError> {
        let mut options = FlowOptions::default();
        (options.an, options.follows) = (true, true);
        options.derivation = Some(derive);
        (options.ahead, options.behind) = (WINDOW, WINDOW);
        Ok(Self { flows: Flows::new(options, limits, random, now)? })
    }
}

impl Scheme for IdentifierPaper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn code(&self) -> SchemeCode {
        SchemeCode(3)
    }

    fn max_overhead(&self, header: &Header) -> isize {
        SHORT_LEN as isize - header.len() as isize
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        match self.flows.send_form(to.now, to.link.peer(), to.header) {
            SendForm::Short(known) => {
                shorten(TYPE, derive, to.header, &known, packet).ok_or(Reason::NoBuffer)?;
                Ok(SealOutcome::Ready)
            }
            SendForm::Registering => Ok(SealOutcome::Hold),
            SendForm::NoFlow => Err(Reason::FlowLimit),
        }
    }

    fn open(
        &self,
        from: &Incoming<'_>,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        restore(TYPE, &self.flows, from, packet)
    }

    fn flow_table(&self) -> Option<&Flows> {
        Some(&self.flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_repeat_after_a_round_of_packet_numbers_and_under_another_an() {
        let base = BaseIdentifier::new([3; 16]);
        let one = derive(&base, 1, 0);
        assert_eq!(one, derive(&base, 1 << 32 | 1, 1));
        assert_ne!(one, derive(&base, 2, 0));
        assert_ne!(one, lightseal_gateway::flows::keyed(&base, 1, 0));
    }
}
