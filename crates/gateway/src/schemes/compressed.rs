//! `sealed` with short headers: in place of a frame's header, the datagram has the number of the
//! frame's flow and the header fields that differ from frame to frame, encrypted.
//!
//! ```text
//! | prefix (14) | number (3) | TCI, AN (1) | SL (1) | PN (4) | secure data | ICV (16) | tag (16) |
//!               |<------------- encrypted -------------->|
//! ```
//!
//! A flow outlives changes of AN, since the octet is transmitted. Frames have whole headers until
//! the peer has acknowledged their flow, and if there are too many flows. An observer sees which of
//! the two forms a datagram has, and nothing else.

use super::{Outgoing, Scheme, SchemeCode, SchemeName, SealOutcome, prepend_header};
use crate::codepoints::DatagramType;
use crate::config::ConfigError;
use crate::counters::Reason;
use crate::flows::uplink::{SendForm, ShortForm};
use crate::flows::{FlowLimits, FlowOptions, Flows};
use crate::link::SEAL_OVERHEAD;
use crate::peer_set::PeerIndex;
use lightseal_core::{Decode, DecodeError, Instant, PacketBuf, Random, Reader};
use lightseal_macsec::Header;

/// Length of a short header in bytes.
pub const SHORT_LEN: usize = 9;

/// The scheme with short headers.
#[derive(Debug)]
pub struct Compressed {
    flows: Flows,
}

impl Compressed {
    /// A scheme without flows. The keys of its hash tables are drawn from `random`.
    ///
    /// # Errors
    /// If the limits are invalid.
    pub fn new(limits: FlowLimits, random: &mut Random, now: Instant) -> Result<Self, ConfigError> {
        let options = FlowOptions::default();
        Ok(Self { flows: Flows::new(options, limits, random, now)? })
    }

    fn shorten(header: &Header, known: &ShortForm, packet: &mut PacketBuf<'_>) -> Option<()> {
        let mut short = [0; SHORT_LEN];
        short[..3].copy_from_slice(&known.number.to_be_bytes()[1..]);
        short[3] = header.tag.tci_an();
        short[4] = header.tag.short_length.get();
        short[5..].copy_from_slice(&header.tag.pn.to_be_bytes());
        packet.take_front(header.len())?;
        packet.prepend(&short)
    }
}

/// The fields of a short header.
struct Short {
    number: u32,
    octet: u8,
    short_length: u8,
    pn: u32,
}

impl<'a> Decode<'a> for Short {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            number: reader.u24()?,
            octet: reader.u8()?,
            short_length: reader.u8()?,
            pn: reader.u32()?,
        })
    }
}

impl Scheme for Compressed {
    fn name(&self) -> &'static str {
        SchemeName::Sealed.as_str()
    }

    fn code(&self) -> SchemeCode {
        SchemeName::Sealed.code()
    }

    fn overhead_to(&self, peer: PeerIndex, header: &Header) -> isize {
        if self.flows.is_known_or_register(peer, header) {
            (SEAL_OVERHEAD + SHORT_LEN) as isize - header.len() as isize
        } else {
            self.max_overhead(header)
        }
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        match self.flows.send_form(to.now, to.link.peer(), to.header) {
            SendForm::Short(known) => {
                Self::shorten(to.header, &known, packet).ok_or(Reason::NoBuffer)?;
                to.link.seal(to.lane, DatagramType::Compressed, SHORT_LEN as u8, packet)?;
            }
            // The header has at most 36 bytes, which fits the length byte.
            SendForm::Registering | SendForm::NoFlow => {
                to.link.seal(to.lane, DatagramType::Sealed, to.header.len() as u8, packet)?;
            }
        }
        Ok(SealOutcome::Ready)
    }

    fn expand(&self, peer: PeerIndex, packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        let short = packet.take_front(SHORT_LEN).ok_or(Reason::Malformed)?;
        let short = Short::decode(short).map_err(|_| Reason::Malformed)?;
        let restored = self.flows.downlink().find(peer, short.number)?.restore(
            short.octet,
            short.short_length,
            short.pn,
        );
        prepend_header(&restored.ok_or(Reason::Malformed)?, packet)
    }

    fn flow_table(&self) -> Option<&Flows> {
        Some(&self.flows)
    }
}
