//! `sealed`: the header is encrypted, and the whole frame is authenticated. The payload, which
//! MACsec has encrypted already, is not encrypted again.

use super::{Incoming, Outgoing, Scheme, SchemeName, Sealed as Outcome};
use crate::bridge::PeerIndex;
use crate::codepoints::Type;
use crate::counters::Reason;
use crate::link::SEALING;
use lightseal_core::{DecodeError, Instant, PacketBuf};
use lightseal_macsec::Header;

/// The scheme `sealed`, without short headers.
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
        // The header has at most 36 bytes, which fits the length byte.
        let sealed = to.header.len() as u8;
        to.link.seal(to.lane, Type::Sealed, sealed, packet)?;
        Ok(Outcome::Ready)
    }

    fn open(
        &self,
        _from: &Incoming<'_>,
        _packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        // Datagrams of all types of this scheme are opened with the peer's keys, before the scheme
        // is called.
        Err((None, Reason::UnknownType))
    }

    /// Ignores messages about flows of a peer that has short headers: without an acknowledgement
    /// the peer sends whole headers.
    fn handle_message(
        &self,
        _now: Instant,
        _peer: PeerIndex,
        _message: &[u8],
    ) -> Result<(), DecodeError> {
        Ok(())
    }
}
