//! NewSessionTicket of DTLS 1.2 (RFC 5077, section 3.3).

use vocabulary::wire::BufferFull;
use vocabulary::{Decode, DecodeError, Encode, Reader, Writer};

/// What a client may resume its session with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSessionTicket12<'a> {
    /// For how long, in seconds; 0 says nothing.
    pub lifetime_hint: u32,
    /// The ticket, opaque to the client. Empty: none after all.
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
