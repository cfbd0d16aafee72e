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

use super::identifier::{UnknownFlow, seal_until_known};
use super::{Incoming, Outgoing, Scheme, SchemeName, SealOutcome};
use crate::codepoints::DatagramType;
use crate::counters::Reason;
use crate::flows::uplink::SendForm;
use crate::flows::{FlowLimits, FlowOptions, Flows};
use crate::link::SEAL_OVERHEAD;
use crate::pcbc::COVERED;
use crate::stations::PeerIndex;
use lightseal_core::{Instant, PacketBuf, Random};
use lightseal_macsec::{Header, SciField};

/// Number of bytes before the frame.
pub const PREFIX_LEN: usize = 5;
/// Length of the headers that the paper's 32 bytes are meant for: addresses and a SecTAG with an
/// SCI.
const HEADER_LEN: usize = 28;

/// The configuration of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptionConfig {
    /// Limits on the number of flows.
    pub limits: FlowLimits,
    /// How frames are sent whose flow the peer does not know.
    pub unknown: UnknownFlow,
}

impl Default for EncryptionConfig {
    fn default() -> Self {
        Self { limits: FlowLimits::default(), unknown: UnknownFlow::Hold }
    }
}

/// The scheme `encryption-paper`.
#[derive(Debug)]
pub struct Encryption {
    unknown: UnknownFlow,
    flows: Flows,
}

impl Encryption {
    /// A scheme without flows. The keys of its hash tables are drawn from `random`.
    pub fn new(settings: EncryptionConfig, random: &mut Random, now: Instant) -> Self {
        // A new AN is a new flow, but packet numbers are not followed.
        let options = FlowOptions {
            an: true,
            follows: false,
            derivation: None,
            ahead: 0,
            behind: 0,
            beacons: false,
        };
        let flows = Flows::new(options, settings.limits, random, now);
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

    fn max_overhead(&self, header: &Header) -> isize {
        let sealed = self.unknown == UnknownFlow::Seal || !covers(header);
        if sealed { SEAL_OVERHEAD as isize } else { PREFIX_LEN as isize }
    }

    fn overhead_to(&self, peer: PeerIndex, header: &Header) -> isize {
        if covers(header) && self.flows.is_known_or_register(peer, header) {
            PREFIX_LEN as isize
        } else {
            self.max_overhead(header)
        }
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        if !covers(to.header) {
            return seal_until_known(to, packet);
        }
        match (self.flows.send_form(to.now, to.link.peer, to.header), self.unknown) {
            (SendForm::Short(_), _) => {
                let index = to.link.encrypt_blocks(|pcbc| {
                    let blocks = packet.bytes_mut().first_chunk_mut::<COVERED>();
                    blocks.map(|blocks| pcbc.encrypt(blocks))
                })?;
                let [a, b, c, d] = index.to_be_bytes();
                let prefix = [DatagramType::EncryptionPaper as u8, a, b, c, d];
                packet.prepend(&prefix).ok_or(Reason::NoBuffer)?;
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
        if from.kind != DatagramType::EncryptionPaper {
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
        if self.flows.downlink().has_association(peer, sci, octet & 3) {
            Ok(peer)
        } else {
            Err(unknown)
        }
    }

    fn requires_valid_frames(&self) -> bool {
        false
    }

    fn flow_table(&self) -> Option<&Flows> {
        Some(&self.flows)
    }
}
