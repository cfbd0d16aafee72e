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
use lightseal_gateway::counters::Reason;
use lightseal_gateway::flows::uplink::{SendForm, ShortForm};
use lightseal_gateway::flows::{BaseIdentifier, FlowLimits, FlowOptions, Flows, Rotating};
use lightseal_gateway::schemes::identifier::SHORT_LEN;
use lightseal_gateway::schemes::{
    Incoming, Outgoing, Scheme, SchemeCode, SealOutcome, prepend_header,
};
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
    pub fn new(limits: FlowLimits, random: &mut Random, now: Instant) -> Self {
        let options = FlowOptions {
            an: true,
            follows: true,
            derivation: Some(derive),
            ahead: WINDOW,
            behind: WINDOW,
            beacons: false,
        };
        Self { flows: Flows::new(options, limits, random, now) }
    }
}

fn shorten(header: &Header, known: &ShortForm, packet: &mut PacketBuf<'_>) -> Option<()> {
    let an = header.tag.an.get();
    let mut short = [TYPE; SHORT_LEN];
    short[1..9].copy_from_slice(&derive(known.secret.as_ref()?, known.pn, an).identifier);
    short[9] = header.tag.tci_an() ^ an;
    short[10] = header.tag.short_length.get();
    packet.take_front(header.len())?;
    packet.prepend(&short)
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
        match self.flows.send_form(to.now, to.link.peer, to.header) {
            SendForm::Short(known) => {
                shorten(to.header, &known, packet).ok_or(Reason::NoBuffer)?;
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
        if from.kind != TYPE {
            return Err((None, Reason::UnknownType));
        }
        let malformed = (None, Reason::Malformed);
        let &short: &[u8; SHORT_LEN] = packet.bytes().first_chunk().ok_or(malformed)?;
        let [_, i0, i1, i2, i3, i4, i5, i6, i7, tci, sl] = short;
        let ridf = [i0, i1, i2, i3, i4, i5, i6, i7];
        let rest = packet.len() - SHORT_LEN;
        let (peer, header) = self.flows.take_identifier(from.now, ridf, [tci, sl], rest)?;
        packet.take_front(SHORT_LEN).ok_or(malformed)?;
        prepend_header(&header, packet).map_err(|reason| (Some(peer), reason))?;
        Ok(peer)
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
