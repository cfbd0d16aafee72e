//! NewSessionTicket of DTLS 1.2 (RFC 5077, section 3.3).

use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// A ticket with which a client may resume its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSessionTicket12<'a> {
    /// The lifetime of the ticket in seconds; 0 if it is not specified.
    pub lifetime_hint: u32,
    /// The ticket, which is opaque to the client. An empty one withdraws the announcement of a
    /// ticket.
    pub ticket: &'a [u8],
}

impl<'a> Decode<'a> for NewSessionTicket12<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { lifetime_hint: r.u32()?, ticket: r.vec16()? })
    }
}

impl Encode for NewSessionTicket12<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u32(self.lifetime_hint)?;
        w.vec16(|w| w.bytes(self.ticket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_cut() {
        let ticket = NewSessionTicket12 { lifetime_hint: 7200, ticket: b"opaque" };
        let mut buf = [0; 16];
        let mut w = Writer::new(&mut buf);
        w.put(&ticket).unwrap();
        let bytes = w.finish();
        assert_eq!(NewSessionTicket12::decode(bytes), Ok(ticket));
        for cut in 0..bytes.len() {
            assert!(NewSessionTicket12::decode(&bytes[..cut]).is_err());
        }
    }
}
