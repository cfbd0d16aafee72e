//! `encryption-paper`: a frame's first 32 bytes are encrypted, and nothing authenticates them (the
//! paper's section 4.3). Provided for comparison.
//!
//! ```text
//! | type (1) | receiver index (4) | first 32 bytes of the frame, encrypted | rest of the frame |
//! ```
//!
//! As in the paper, the receiver looks up SCI and AN in the decrypted bytes, and forwards the frame
//! if it knows them. Therefore replayed datagrams are accepted, and nothing behind the 32 bytes is
//! authenticated. Since the SCI is in the second block, an attacker may also replace the first
//! block: the frame then has random addresses, and is forwarded whenever its random AN is a known
//! one.
//!
//! The 32 bytes are the addresses, the SecTAG and the first four bytes of MACsec's ciphertext. This
//! holds only for frames with an SCI and without VLAN tags. A VLAN tag moves the header, so that
//! bytes of the SCI would be sent in clear, or so that the 32 bytes contain nothing that MACsec
//! made unpredictable. A frame without an SCI has nothing to look up. The paper mentions neither
//! case. Such frames are sent sealed here: to drop them would tell nothing about the scheme and
//! would break networks.

use super::identifier::{Unknown, seal_meanwhile};
use super::{Incoming, Outgoing, Scheme, SchemeName, Sealed};
use crate::bridge::PeerIndex;
use crate::codepoints::Type;
use crate::counters::Reason;
use crate::flows::uplink::Way;
use crate::flows::{Flows, Limits, Needs};
use crate::link::SEALING;
use crate::pcbc::COVERED;
use lightseal_core::{Instant, PacketBuf, Random};
use lightseal_macsec::{Header, SciField};

/// Number of bytes before the frame.
pub const PREFIX_LEN: usize = 5;
/// Length of the headers that the paper's 32 bytes are meant for: addresses and a SecTAG with an
/// SCI.
const HEADER_LEN: usize = 28;

/// The configuration of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Limits on the number of flows.
    pub limits: Limits,
    /// How frames are sent whose flow the peer does not know.
    pub unknown: Unknown,
}

impl Default for Settings {
    fn default() -> Self {
        Self { limits: Limits::default(), unknown: Unknown::Hold }
    }
}

/// The scheme `encryption-paper`.
#[derive(Debug)]
pub struct Encryption {
    unknown: Unknown,
    flows: Flows,
}

impl Encryption {
    /// A scheme without flows. The keys of its hash tables are drawn from `random`.
    pub fn new(settings: Settings, random: &mut Random, now: Instant) -> Self {
        // A new AN is a new flow, but packet numbers are not followed.
        let needs = Needs {
            an: true,
            follows: false,
            derivation: None,
            ahead: 0,
            behind: 0,
            beacons: false,
        };
        let flows = Flows::new(needs, settings.limits, random, now);
        Self { unknown: settings.unknown, flows }
    }
}

/// Whether the 32 bytes end as intended in frames with this header.
fn covers(header: &Header) -> bool {
    matches!(header.tag.sci_field, SciField::Explicit(_)) && header.len() == HEADER_LEN
}

impl Scheme for Encryption {
    fn name(&self) -> SchemeName {
        SchemeName::EncryptionPaper
    }

    fn growth(&self, header: &Header) -> isize {
        let sealed = self.unknown == Unknown::Seal || !covers(header);
        if sealed { SEALING as isize } else { PREFIX_LEN as isize }
    }

    fn growth_to(&self, peer: PeerIndex, header: &Header) -> isize {
        if covers(header) && self.flows.is_known_now(peer, header) {
            PREFIX_LEN as isize
        } else {
            self.growth(header)
        }
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<Sealed, Reason> {
        if !covers(to.header) {
            return seal_meanwhile(to, packet);
        }
        match (self.flows.way(to.now, to.link.peer, to.header), self.unknown) {
            (Way::Short(_), _) => {
                let index = to.link.encrypt_blocks(|pcbc| {
                    let blocks = packet.bytes_mut().first_chunk_mut::<COVERED>();
                    blocks.map(|blocks| pcbc.encrypt(blocks))
                })?;
                let [a, b, c, d] = index.to_be_bytes();
                let prefix = [Type::EncryptionPaper as u8, a, b, c, d];
                packet.prepend(&prefix).ok_or(Reason::NoBuffer)?;
                Ok(Sealed::Ready)
            }
            (_, Unknown::Seal) => seal_meanwhile(to, packet),
            (Way::NotYet, Unknown::Hold) => Ok(Sealed::Hold),
            (Way::Over, Unknown::Hold) => Err(Reason::FlowLimit),
        }
    }

    fn open(
        &self,
        from: &Incoming<'_>,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        if from.kind != Type::EncryptionPaper {
            return Err((None, Reason::UnknownType));
        }
        let malformed = (None, Reason::Malformed);
        let prefix = packet.take_front(PREFIX_LEN).ok_or(malformed)?;
        let &[_, a, b, c, d] = prefix.first_chunk().ok_or(malformed)?;
        let blocks = packet.bytes_mut().first_chunk_mut::<COVERED>().ok_or(malformed)?;
        let index = u32::from_be_bytes([a, b, c, d]);
        let peer = from.links.decrypt_blocks(from.now, index, |pcbc| pcbc.decrypt(blocks))?;
        // The positions of these fields in a frame with such a header. As in the paper, the rest of
        // the frame is not checked.
        let unknown = (Some(peer), Reason::UnknownFlow);
        let (&octet, sci) = blocks.get(14).zip(blocks.get(20..28)).ok_or(unknown)?;
        let sci = sci.try_into().map_err(|_| unknown)?;
        if self.flows.downlink().has_channel(peer, sci, octet & 3) {
            Ok(peer)
        } else {
            Err(unknown)
        }
    }

    fn is_strict(&self) -> bool {
        false
    }

    fn table(&self) -> Option<&Flows> {
        Some(&self.flows)
    }
}
