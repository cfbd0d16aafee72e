//! HelloVerifyRequest (RFC 6347, section 4.2.1).

use crate::codepoints::DTLS_1_0;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// Requests another hello of a DTLS 1.2 client, with this cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloVerifyRequest<'a> {
    /// The cookie, at most 255 bytes.
    pub cookie: &'a [u8],
}

impl<'a> Decode<'a> for HelloVerifyRequest<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        // This version is not the negotiated one.
        if r.u8()? != 0xfe {
            return Err(DecodeError::invalid("version"));
        }
        r.u8()?;
        Ok(Self { cookie: r.vec8()? })
    }
}

impl Encode for HelloVerifyRequest<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u16(DTLS_1_0)?;
        w.vec8(|w| w.bytes(self.cookie))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_cut() {
        let request = HelloVerifyRequest { cookie: b"cookie" };
        let mut buf = [0; 16];
        let mut w = Writer::new(&mut buf);
        w.put(&request).unwrap();
        let bytes = w.finish();
        assert_eq!(bytes[..3], [0xfe, 0xff, 6]);
        assert_eq!(HelloVerifyRequest::decode(bytes), Ok(request));
        for cut in 0..bytes.len() {
            assert!(HelloVerifyRequest::decode(&bytes[..cut]).is_err());
        }
        bytes[0] = 3;
        assert!(HelloVerifyRequest::decode(bytes).is_err(), "TLS");
    }
}
