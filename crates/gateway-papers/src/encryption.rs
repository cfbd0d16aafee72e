//! `encryption-paper`: a frame's first 32 bytes are encrypted, and nothing authenticates them (the
//! paper's section 4.3).
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

use crate::pcbc::{COVERED, Pcbc};
use lightseal_core::{Instant, PacketBuf, Random};
use lightseal_gateway::config::ConfigError;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::flows::uplink::SendForm;
use lightseal_gateway::flows::{FlowLimits, FlowOptions, Flows};
use lightseal_gateway::keys::DirectionSecret;
use lightseal_gateway::link::{FrameCipher, SEAL_OVERHEAD};
use lightseal_gateway::schemes::{Forwarded, Incoming, Outgoing, Scheme, SchemeCode, SealOutcome};
use lightseal_gateway::stations::PeerIndex;
use lightseal_macsec::{Header, SciField};

/// The name of the scheme.
pub const NAME: &str = "encryption-paper";
/// The first byte of datagrams.
pub const TYPE: u8 = 0x53;
/// The label of the key of [`Pcbc`].
pub const LABEL: &[u8] = b"ls tun pcbc";
/// Number of bytes before the frame.
pub const PREFIX_LEN: usize = 5;
/// Length of the headers that the paper's 32 bytes are meant for: addresses and a SecTAG with an
/// SCI.
const HEADER_LEN: usize = 28;

/// The scheme `encryption-paper`.
#[derive(Debug)]
pub struct EncryptionPaper {
    flows: Flows,
}

impl EncryptionPaper {
    /// A scheme without flows. The keys of its hash tables are drawn from `random`.
    ///
    /// # Errors
    /// If the limits are invalid.
    pub fn new(limits: FlowLimits, random: &mut Random, now: Instant) -> Result<Self, ConfigError> {
        let mut options = FlowOptions::default();
        // A new AN is a new flow, but packet numbers are not followed.
        options.an = true;
        Ok(Self { flows: Flows::new(options, limits, random, now)? })
    }
}

/// The bytes of a frame that are encrypted.
fn blocks<'a>(packet: &'a mut PacketBuf<'_>) -> Option<&'a mut [u8; COVERED]> {
    packet.bytes_mut().first_chunk_mut()
}

impl FrameCipher for Pcbc {
    fn encrypt(&self, packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        Self::encrypt(self, blocks(packet).ok_or(Reason::Malformed)?);
        Ok(())
    }

    fn decrypt(&self, packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        Self::decrypt(self, blocks(packet).ok_or(Reason::Malformed)?);
        Ok(())
    }
}

/// Whether the 32 bytes end as intended in frames with this header.
fn covers(header: &Header) -> bool {
    matches!(header.tag.sci_field, SciField::Explicit(_)) && header.len() == HEADER_LEN
}

impl Scheme for EncryptionPaper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn code(&self) -> SchemeCode {
        SchemeCode(4)
    }

    fn cipher(&self, secret: &DirectionSecret<'_>) -> Option<Box<dyn FrameCipher>> {
        Some(Box::new(Pcbc::new(&secret.derive(LABEL))))
    }

    fn max_overhead(&self, header: &Header) -> isize {
        if covers(header) { PREFIX_LEN as isize } else { SEAL_OVERHEAD as isize }
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        if !covers(to.header) {
            return to.seal_whole(packet);
        }
        match self.flows.send_form(to.now, to.link.peer(), to.header) {
            SendForm::Short(_) => {
                let [a, b, c, d] = to.link.encrypt(packet)?.to_be_bytes();
                packet.prepend(&[TYPE, a, b, c, d]).ok_or(Reason::NoBuffer)?;
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
        let prefix = packet.take_front(PREFIX_LEN).ok_or(malformed)?;
        let &[_, a, b, c, d] = prefix.first_chunk().ok_or(malformed)?;
        let index = u32::from_be_bytes([a, b, c, d]);
        let peer = from.links.decrypt(from.now, index, packet)?;
        // The positions of these fields in a frame with such a header. As in the paper, the rest of
        // the frame is not checked.
        let unknown = (Some(peer), Reason::UnknownFlow);
        let bytes = packet.bytes();
        let (&octet, sci) = bytes.get(14).zip(bytes.get(20..28)).ok_or(unknown)?;
        let sci = sci.try_into().map_err(|_| unknown)?;
        if self.flows.downlink().has_association(peer, sci, octet & 3) {
            Ok(peer)
        } else {
            Err(unknown)
        }
    }

    fn forwarded(&self) -> Forwarded {
        Forwarded::Unchecked
    }

    fn flow_table(&self) -> Option<&Flows> {
        Some(&self.flows)
    }
}
