//! `identifier` and `identifier-paper`: in place of its header a frame has an identifier that
//! changes with every frame and that only the receiver can predict.
//!
//! ```text
//! | type (1) | ridf (8) | TCI (1) | SL (1) | secure data | ICV (16) |
//! ```
//!
//! The TCI byte has no AN, since the AN belongs to the flow. Under `identifier` TCI and SL are
//! masked with bytes that are derived together with ridf; under `identifier-paper` they are in
//! clear.
//!
//! An identifier proves nothing but that its frame is new. An attacker who copies a fresh
//! identifier onto junk and is faster than the true datagram gets the junk onto the LAN, where
//! MACsec devices reject it; the true frame is dropped as already received. `sealed` has no such
//! race.

use super::{Incoming, Outgoing, Scheme, SchemeName, SealOutcome};
use crate::codepoints::DatagramType;
use crate::counters::Reason;
use crate::flows::uplink::{SendForm, ShortForm};
use crate::flows::{Derivation, FlowLimits, FlowOptions, Flows};
use crate::link::SEAL_OVERHEAD;
use crate::stations::PeerIndex;
use lightseal_core::{Encode, Instant, PacketBuf, Random, Writer};
use lightseal_macsec::Header;

/// Number of bytes in place of the frame's header.
pub const SHORT_LEN: usize = 11;

/// How frames are sent whose flow the peer does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFlow {
    /// They are sent sealed, as under the scheme `sealed`; so are frames over a limit.
    Seal,
    /// They are held until the peer knows the flow; frames over a limit are dropped.
    Hold,
}

/// The configuration of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentifierConfig {
    /// Limits on the number of flows.
    pub limits: FlowLimits,
    /// How frames are sent whose flow the peer does not know.
    pub unknown: UnknownFlow,
    /// How many packet numbers ahead of the highest one have identifiers in the receiver's table.
    /// This many frames may be lost in a row before the next frame is not recognised.
    pub ahead: u64,
    /// How many packet numbers behind the highest one have identifiers in the receiver's table,
    /// that is by how many frames a frame may be overtaken.
    pub behind: u64,
}

impl Default for IdentifierConfig {
    /// The defaults of `identifier`.
    fn default() -> Self {
        Self { limits: FlowLimits::default(), unknown: UnknownFlow::Seal, ahead: 1536, behind: 512 }
    }
}

impl IdentifierConfig {
    /// The defaults of `identifier-paper`.
    pub fn as_in_paper() -> Self {
        Self { unknown: UnknownFlow::Hold, ahead: 64, behind: 64, ..Self::default() }
    }
}

/// The scheme, in both forms.
#[derive(Debug)]
pub struct Identifier {
    name: SchemeName,
    kind: DatagramType,
    unknown: UnknownFlow,
    flows: Flows,
}

impl Identifier {
    /// The scheme `identifier`. Base identifiers and the keys of hash tables are drawn from
    /// `random`.
    pub fn new(settings: IdentifierConfig, random: &mut Random, now: Instant) -> Self {
        Self::with(settings, Derivation::Keyed, random, now)
    }

    /// The scheme `identifier-paper`: unchanged from the paper, for comparison.
    pub fn paper(settings: IdentifierConfig, random: &mut Random, now: Instant) -> Self {
        Self::with(settings, Derivation::Paper, random, now)
    }

    fn with(
        settings: IdentifierConfig,
        how: Derivation,
        random: &mut Random,
        now: Instant,
    ) -> Self {
        let IdentifierConfig { limits, unknown, ahead, behind } = settings;
        let ours = how == Derivation::Keyed;
        let derivation = Some(how);
        let options =
            FlowOptions { an: true, follows: true, derivation, ahead, behind, beacons: ours };
        let flows = Flows::new(options, limits, random, now);
        let (name, kind) = match how {
            Derivation::Keyed => (SchemeName::Identifier, DatagramType::Identifier),
            Derivation::Paper => (SchemeName::IdentifierPaper, DatagramType::IdentifierPaper),
        };
        Self { name, kind, unknown, flows }
    }

    fn shorten(
        &self,
        header: &Header,
        known: &ShortForm,
        packet: &mut PacketBuf<'_>,
    ) -> Option<()> {
        let (how, secret) = self.flows.options().derivation.zip(known.secret.as_ref())?;
        let an = header.tag.an.get();
        let rotating = how.derive(secret, known.pn, an);
        let mut short = [0; SHORT_LEN];
        short[0] = self.kind as u8;
        short[1..9].copy_from_slice(&rotating.identifier);
        short[9] = (header.tag.tci_an() ^ an) ^ rotating.mask[0];
        short[10] = header.tag.short_length.get() ^ rotating.mask[1];
        packet.take_front(header.len())?;
        packet.prepend(&short)
    }
}

/// Sends a frame as under `sealed`, if it fits a datagram.
pub(super) fn seal_until_known(
    to: &Outgoing<'_>,
    packet: &mut PacketBuf<'_>,
) -> Result<SealOutcome, Reason> {
    if packet.len() + SEAL_OVERHEAD > to.link.payload() {
        return Err(Reason::TooLong);
    }
    // The header has at most 36 bytes, which fits the length byte.
    to.link.seal(to.lane, DatagramType::Sealed, to.header.len() as u8, packet)?;
    Ok(SealOutcome::Ready)
}

/// Puts a header before the rest of a frame.
pub(super) fn put_header(header: &Header, packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
    let mut bytes = [0; Header::MAX_LEN];
    let mut writer = Writer::new(&mut bytes);
    header.write(&mut writer).map_err(|_| Reason::NoBuffer)?;
    packet.prepend_slice(writer.written()).ok_or(Reason::NoBuffer)
}

impl Scheme for Identifier {
    fn name(&self) -> SchemeName {
        self.name
    }

    fn max_overhead(&self, header: &Header) -> isize {
        match self.unknown {
            UnknownFlow::Seal => SEAL_OVERHEAD as isize,
            UnknownFlow::Hold => SHORT_LEN as isize - header.len() as isize,
        }
    }

    fn overhead_to(&self, peer: PeerIndex, header: &Header) -> isize {
        if self.flows.is_known_or_register(peer, header) {
            SHORT_LEN as isize - header.len() as isize
        } else {
            self.max_overhead(header)
        }
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        let form = self.flows.send_form(to.now, to.link.peer, to.header);
        match (form, self.unknown) {
            (SendForm::Short(known), _) => {
                if known.should_report_pn && packet.len() + SEAL_OVERHEAD <= to.link.payload() {
                    return seal_until_known(to, packet);
                }
                self.shorten(to.header, &known, packet).ok_or(Reason::NoBuffer)?;
                Ok(SealOutcome::Ready)
            }
            (_, UnknownFlow::Seal) => seal_until_known(to, packet),
            (SendForm::Registering, UnknownFlow::Hold) => Ok(SealOutcome::Hold),
            (SendForm::NoFlow, UnknownFlow::Hold) => Err(Reason::FlowLimit),
        }
    }

    fn open(
        &self,
        from: &Incoming<'_>,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        if from.kind != self.kind {
            return Err((None, Reason::UnknownType));
        }
        let malformed = (None, Reason::Malformed);
        let &short: &[u8; SHORT_LEN] = packet.bytes().first_chunk().ok_or(malformed)?;
        let [_, i0, i1, i2, i3, i4, i5, i6, i7, tci, sl] = short;
        let ridf = [i0, i1, i2, i3, i4, i5, i6, i7];
        let rest = packet.len() - SHORT_LEN;
        let (peer, header) = self.flows.take_identifier(from.now, ridf, [tci, sl], rest)?;
        packet.take_front(SHORT_LEN).ok_or(malformed)?;
        put_header(&header, packet).map_err(|reason| (Some(peer), reason))?;
        Ok(peer)
    }

    fn note_sealed_frame(&self, peer: PeerIndex, header: &Header) {
        if self.flows.options().beacons {
            self.flows.note_sealed_frame(peer, header);
        }
    }

    fn poll_beacon(&self, _now: Instant) -> Option<(PeerIndex, Vec<u8>)> {
        self.flows.poll_beacon()
    }

    fn handle_beacon(&self, now: Instant, peer: PeerIndex, content: &[u8]) {
        if self.flows.options().beacons {
            self.flows.handle_beacon(now, peer, content);
        }
    }

    fn flow_table(&self) -> Option<&Flows> {
        Some(&self.flows)
    }
}
