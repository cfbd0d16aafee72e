//! `sealed`: the header is encrypted, and the whole frame is authenticated. The payload, which
//! MACsec has encrypted already, is not encrypted again.

use super::{Incoming, Outgoing, Scheme, SchemeCode, SchemeName, SealOutcome};
use crate::codepoints::DatagramType;
use crate::counters::Reason;
use crate::link::SEAL_OVERHEAD;
use crate::stations::PeerIndex;
use lightseal_core::{DecodeError, Instant, PacketBuf};
use lightseal_macsec::Header;

/// The scheme `sealed`, without short headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SealedScheme;

impl Scheme for SealedScheme {
    fn name(&self) -> &'static str {
        SchemeName::Sealed.as_str()
    }

    fn code(&self) -> SchemeCode {
        SchemeName::Sealed.code()
    }

    fn max_overhead(&self, _header: &Header) -> isize {
        SEAL_OVERHEAD as isize
    }

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        // The header has at most 36 bytes, which fits the length byte.
        let sealed = to.header.len() as u8;
        to.link.seal(to.lane, DatagramType::Sealed, sealed, packet)?;
        Ok(SealOutcome::Ready)
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
