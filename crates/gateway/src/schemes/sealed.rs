//! `sealed`: the header is encrypted, and the whole frame is authenticated. The payload, which
//! MACsec has encrypted already, is not encrypted again.

use super::{Outgoing, Scheme, SchemeCode, SchemeName, SealOutcome};
use crate::codepoints::DatagramType;
use crate::counters::Reason;
use crate::peer_set::PeerIndex;
use lightseal_core::{DecodeError, Instant, PacketBuf};

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

    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        // The header has at most 36 bytes, which fits the length byte.
        let sealed = to.header.len() as u8;
        to.link.seal(to.lane, DatagramType::Sealed, sealed, packet)?;
        Ok(SealOutcome::Ready)
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
