//! NewSessionTicket of DTLS 1.2 (RFC 5077, section 3.3) and 1.3 (RFC 8446, section 4.6.1).

use super::extensions::Extensions;
use crate::codepoints::ExtensionType;
use crate::messages::extensions::write_extension;
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

/// A ticket of DTLS 1.3, from which a client may resume one later association.
///
/// ```text
/// | lifetime in seconds (4) | age_add (4) | nonce (1 + n) | ticket (2 + n) | extensions (2 + n) |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSessionTicket13<'a> {
    /// How long the ticket may be used, in seconds: at most seven days. A ticket with a lifetime of
    /// 0 is to be discarded at once.
    pub lifetime: u32,
    /// What the client adds to the ticket's age in milliseconds, so that an observer cannot tell
    /// which associations belong together.
    pub age_add: u32,
    /// Distinguishes the pre-shared keys of the tickets of one association.
    pub nonce: &'a [u8],
    /// The ticket, which is opaque to the client; never empty.
    pub ticket: &'a [u8],
    /// The largest number of bytes of early data that the server accepts; `None`: it accepts none.
    pub max_early_data: Option<u32>,
}

impl NewSessionTicket13<'_> {
    /// The longest lifetime of a ticket in seconds: seven days.
    pub const MOST_LIFETIME: u32 = 604_800;
}

impl<'a> Decode<'a> for NewSessionTicket13<'a> {
    /// Unknown extensions are ignored (RFC 8446, section 4.6.1).
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (lifetime, age_add, nonce, ticket) = (r.u32()?, r.u32()?, r.vec8()?, r.vec16()?);
        if ticket.is_empty() {
            return Err(DecodeError::invalid("ticket"));
        }
        let early_data = Extensions::read(r)?.get(ExtensionType::EARLY_DATA);
        let max_early_data = early_data.map(read_max_early_data).transpose()?;
        Ok(Self { lifetime, age_add, nonce, ticket, max_early_data })
    }
}

/// The content of `early_data` in a NewSessionTicket (RFC 8446, section 4.2.10).
fn read_max_early_data(content: &[u8]) -> Result<u32, DecodeError> {
    let mut r = Reader::new(content);
    let most = r.u32()?;
    r.finish()?;
    Ok(most)
}

impl Encode for NewSessionTicket13<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u32(self.lifetime)?;
        w.u32(self.age_add)?;
        w.vec8(|w| w.bytes(self.nonce))?;
        w.vec16(|w| w.bytes(self.ticket))?;
        w.vec16(|w| match self.max_early_data {
            Some(most) => write_extension(w, ExtensionType::EARLY_DATA, |w| w.u32(most)),
            None => Ok(()),
        })
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

    #[test]
    fn round_trip_and_every_cut_of_1_3() {
        for max_early_data in [None, Some(0), Some(u32::MAX)] {
            let ticket = NewSessionTicket13 {
                lifetime: 7200,
                age_add: 0x0102_0304,
                nonce: &[9],
                ticket: b"opaque",
                max_early_data,
            };
            let mut buf = [0; 64];
            let mut w = Writer::new(&mut buf);
            w.put(&ticket).unwrap();
            let bytes = w.finish();
            assert_eq!(NewSessionTicket13::decode(bytes), Ok(ticket));
            for cut in 0..bytes.len() {
                assert!(NewSessionTicket13::decode(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn a_ticket_of_1_3_is_not_empty_and_its_unknown_extensions_are_skipped() {
        let head = [0, 0, 0, 60, 1, 2, 3, 4, 0];
        let with = |ticket: &[u8], extensions: &[u8]| {
            let [a, b] = (ticket.len() as u16).to_be_bytes();
            let [c, d] = (extensions.len() as u16).to_be_bytes();
            [&head[..], &[a, b], ticket, &[c, d], extensions].concat()
        };
        let unknown = [0xfa, 0xfa, 0, 1, 7];
        let early = [0, 42, 0, 4, 0, 0, 1, 0];
        let bytes = with(b"t", &[&unknown[..], &early].concat());
        assert_eq!(NewSessionTicket13::decode(&bytes).unwrap().max_early_data, Some(256));
        assert!(NewSessionTicket13::decode(&with(b"", &[])).is_err());
        assert!(NewSessionTicket13::decode(&with(b"t", &early[..7])).is_err());
        assert!(NewSessionTicket13::decode(&with(b"t", &[0, 42, 0, 1, 0])).is_err());
        assert!(NewSessionTicket13::decode(&with(b"t", &[early, early].concat())).is_err());
    }
}
