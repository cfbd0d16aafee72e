//! `identifier`: in place of its header a frame has an identifier that
//! changes with every frame and that only the receiver can predict.
//!
//! ```text
//! | type (1) | ridf (8) | TCI (1) | SL (1) | secure data | ICV (16) |
//! ```
//!
//! The TCI byte has no AN, since the AN belongs to the flow. TCI and SL are masked with bytes that are
//! derived together with ridf. Frames whose flow the peer does not know, and frames over a limit, are
//! sent sealed.
//!
//! An identifier proves nothing but that its frame is new. An attacker who copies a fresh
//! identifier onto junk and is faster than the true datagram gets the junk onto the LAN, where
//! MACsec devices reject it; the true frame is dropped as already received. `sealed` has no such
//! race.

use super::{Incoming, Outgoing, Scheme, SchemeCode, SchemeName, SealOutcome, prepend_header};
use crate::codepoints::DatagramType;
use crate::config::ConfigError;
use crate::counters::Reason;
use crate::flows::uplink::{SendForm, ShortForm};
use crate::flows::{Derivation, FlowLimits, FlowOptions, Flows, keyed};
use crate::link::SEAL_OVERHEAD;
use crate::peer_set::PeerIndex;
use lightseal_core::{Instant, PacketBuf, Random};
use lightseal_macsec::Header;

/// Number of bytes in place of the frame's header.
pub const SHORT_LEN: usize = 11;

/// The settings of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentifierSettings {
    /// Limits on the number of flows.
    pub limits: FlowLimits,
    /// How many packet numbers ahead of the highest one have identifiers in the receiver's table.
    /// This many frames may be lost in a row before the next frame is not recognised.
    pub ahead: u64,
    /// How many packet numbers behind the highest one have identifiers in the receiver's table,
    /// that is by how many frames a frame may be overtaken.
    pub behind: u64,
}

impl Default for IdentifierSettings {
    fn default() -> Self {
        Self { limits: FlowLimits::default(), ahead: 1536, behind: 512 }
    }
}

/// The scheme `identifier`.
#[derive(Debug)]
pub struct Identifier {
    flows: Flows,
}

impl Identifier {
    /// A scheme without flows. Base identifiers and the keys of hash tables are drawn from `random`.
    ///
    /// # Errors
    /// If the limits are invalid, or the identifiers of a flow do not fit them.
    pub fn new(
        settings: IdentifierSettings,
        random: &mut Random,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let IdentifierSettings { limits, ahead, behind } = settings;
        let options = FlowOptions {
            an: true,
            follows: true,
            derivation: Some(keyed),
            ahead,
            behind,
            beacons: true,
        };
        Ok(Self { flows: Flows::new(options, limits, random, now)? })
    }
}

/// Replaces the header of a frame by the first byte `kind`, the identifier and the masked octets.
/// `None` if the flow has no base identifier or the packet has no room.
pub fn shorten(
    kind: u8,
    derive: Derivation,
    header: &Header,
    known: &ShortForm,
    packet: &mut PacketBuf<'_>,
) -> Option<()> {
    let an = header.tag.an.get();
    let rotating = derive(known.secret.as_ref()?, known.pn, an);
    let mut short = [kind; SHORT_LEN];
    short[1..9].copy_from_slice(&rotating.identifier);
    short[9] = (header.tag.tci_an() ^ an) ^ rotating.mask[0];
    short[10] = header.tag.short_length.get() ^ rotating.mask[1];
    packet.take_front(header.len())?;
    packet.prepend(&short)
}

/// Restores the header that [`shorten`] replaced, and says which peer sent the datagram.
///
/// # Errors
/// If the first byte is not `kind`, and as for [`Flows::take_identifier`].
pub fn restore(
    kind: u8,
    flows: &Flows,
    from: &Incoming<'_>,
    packet: &mut PacketBuf<'_>,
) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
    if from.kind != kind {
        return Err((None, Reason::UnknownType));
    }
    let malformed = (None, Reason::Malformed);
    let &short: &[u8; SHORT_LEN] = packet.bytes().first_chunk().ok_or(malformed)?;
    let [_, i0, i1, i2, i3, i4, i5, i6, i7, tci, sl] = short;
    let ridf = [i0, i1, i2, i3, i4, i5, i6, i7];
    let rest = packet.len() - SHORT_LEN;
    let (peer, header) = flows.take_identifier(from.now, ridf, [tci, sl], rest)?;
    packet.take_front(SHORT_LEN).ok_or(malformed)?;
    prepend_header(&header, packet).map_err(|reason| (Some(peer), reason))?;
    Ok(peer)
}

impl Scheme for Identifier {
    fn name(&self) -> &'static str {
        SchemeName::Identifier.as_str()
    }

    fn code(&self) -> SchemeCode {
        SchemeName::Identifier.code()
    }

    fn overhead_to(&self, peer: PeerIndex, header: &Header) -> isize {
        if self.flows.is_known_or_register(peer, header) {
            SHORT_LEN as isize - header.len() as isize
        } else {
            self.max_overhead(header)
        }
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        match self.flows.send_form(to.now, to.link.peer(), to.header) {
            SendForm::Short(known)
                if !known.should_report_pn || packet.len() + SEAL_OVERHEAD > to.link.payload() =>
            {
                shorten(DatagramType::Identifier as u8, keyed, to.header, &known, packet)
                    .ok_or(Reason::NoBuffer)?;
                Ok(SealOutcome::Ready)
            }
            _ => to.seal_whole(packet),
        }
    }

    fn open(
        &self,
        from: &Incoming<'_>,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        restore(DatagramType::Identifier as u8, &self.flows, from, packet)
    }

    fn note_sealed_frame(&self, peer: PeerIndex, header: &Header) {
        self.flows.note_sealed_frame(peer, header);
    }

    fn poll_beacon(&self, _now: Instant) -> Option<(PeerIndex, Vec<u8>)> {
        self.flows.poll_beacon()
    }

    fn handle_beacon(&self, now: Instant, peer: PeerIndex, content: &[u8]) {
        self.flows.handle_beacon(now, peer, content);
    }

    fn flow_table(&self) -> Option<&Flows> {
        Some(&self.flows)
    }
}
