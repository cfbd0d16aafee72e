//! `plain`: VXLAN (RFC 7348), for comparison and for migration from VXLAN.
//!
//! An attacker who can send to the gateway can put any frame on its LAN, and an observer sees each
//! frame except for its MACsec-encrypted payload. Peers are recognised by their IP addresses only.

use super::{Forwarded, Incoming, Outgoing, Scheme, SchemeCode, SchemeName, SealOutcome};
use crate::codepoints::DatagramType;
use crate::counters::Reason;
use crate::link::Link;
use crate::peer_set::PeerIndex;
use lightseal_core::PacketBuf;
use lightseal_macsec::Header;

/// Bytes of a VXLAN header.
pub const HEADER_LEN: usize = 8;

/// VXLAN with one network identifier.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    header: [u8; HEADER_LEN],
}

impl Plain {
    /// VXLAN with the network identifier `vni`, of which the low 24 bits are used.
    pub const fn new(vni: u32) -> Self {
        let [_, a, b, c] = vni.to_be_bytes();
        Self { header: [DatagramType::Plain as u8, 0, 0, 0, a, b, c, 0] }
    }
}

impl Scheme for Plain {
    fn name(&self) -> &'static str {
        SchemeName::Plain.as_str()
    }

    fn code(&self) -> SchemeCode {
        SchemeName::Plain.code()
    }

    fn max_overhead(&self, _header: &Header) -> isize {
        HEADER_LEN as isize
    }

    fn seal(&self, _to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        packet.prepend(&self.header).ok_or(Reason::NoBuffer)?;
        Ok(SealOutcome::Ready)
    }

    fn seal_other(
        &self,
        _lane: u8,
        _link: &Link,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(), Reason> {
        packet.prepend(&self.header).ok_or(Reason::NoBuffer)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }

    fn forwarded(&self) -> Forwarded {
        Forwarded::Allowed
    }

    fn open(
        &self,
        from: &Incoming<'_>,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        if from.kind != DatagramType::Plain as u8 {
            return Err((None, Reason::UnknownType));
        }
        // Reserved bits are ignored on receipt (RFC 7348, section 5).
        let vni = packet.bytes().get(4..7).ok_or((None, Reason::Malformed))?;
        if vni != &self.header[4..7] {
            return Err((None, Reason::UnknownReceiver));
        }
        // The source port is a hash for load balancing (RFC 7348, section 5), and does not identify
        // the sender.
        let address = from.from.ip().to_canonical();
        let known =
            |link: &&Link| link.address().is_some_and(|known| known.ip().to_canonical() == address);
        let link = from.links.iter().find(known).ok_or((None, Reason::UnknownPeer))?;
        packet.take_front(HEADER_LEN).ok_or((Some(link.peer()), Reason::Malformed))?;
        Ok(link.peer())
    }
}
