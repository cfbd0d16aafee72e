//! `sealed`: the header is encrypted, all of the frame is authenticated, and the payload,
//! which MACsec encrypted already, is not encrypted twice.

use super::{Incoming, Outgoing, Scheme, SchemeName, Sealed as Outcome};
use crate::bridge::PeerIndex;
use crate::codepoints::Type;
use crate::counters::Reason;
use crate::link::SEALING;
use macsec::Header;
use vocabulary::{DecodeError, Instant, PacketBuf};

/// The scheme, without short headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sealed;

impl Scheme for Sealed {
    fn name(&self) -> SchemeName {
        SchemeName::Sealed
    }

    fn growth(&self, _header: &Header) -> isize {
        SEALING as isize
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<Outcome, Reason> {
        // At most 36 bytes, of 255.
        let sealed = to.header.len() as u8;
        to.link.seal(to.lane, Type::Sealed, sealed, packet)?;
        Ok(Outcome::Ready)
    }

    fn open(
        &self,
        _from: &Incoming<'_>,
        _packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        // All types of this scheme are opened with a peer's keys, before the scheme is asked.
        Err((None, Reason::UnknownType))
    }

    /// Whatever a peer with short headers says of flows is left unanswered: it sends whole
    /// headers then.
    fn handle_message(
        &self,
        _now: Instant,
        _peer: PeerIndex,
        _message: &[u8],
    ) -> Result<(), DecodeError> {
        Ok(())
    }
}
