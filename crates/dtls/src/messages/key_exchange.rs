//! Key exchange messages of DTLS 1.2 with PSKs (RFC 4279, section 2; RFC 5489, section 2).

use crate::codepoints::{NAMED_CURVE, NamedGroup};
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};

/// Parses a ServerKeyExchange with a PSK alone: the PSK identity hint.
pub fn read_psk_hint(body: &[u8]) -> Result<&[u8], DecodeError> {
    let mut r = Reader::new(body);
    let hint = r.vec16()?;
    r.finish()?;
    Ok(hint)
}

/// A ServerKeyExchange with a PSK and a key share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcdhePskServerParams<'a> {
    /// The PSK identity hint, usually empty.
    pub hint: &'a [u8],
    /// The group.
    pub group: NamedGroup,
    /// The server's public key in the group's encoding.
    pub point: &'a [u8],
}

impl<'a> Decode<'a> for EcdhePskServerParams<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let hint = r.vec16()?;
        if r.u8()? != NAMED_CURVE {
            return Err(DecodeError::Invalid("curve type"));
        }
        Ok(Self { hint, group: NamedGroup(r.u16()?), point: read_point(r)? })
    }
}

impl Encode for EcdhePskServerParams<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.vec16(|w| w.bytes(self.hint))?;
        w.u8(NAMED_CURVE)?;
        w.u16(self.group.0)?;
        w.vec8(|w| w.bytes(self.point))
    }
}

fn read_point<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    match r.vec8()? {
        [] => Err(DecodeError::Invalid("key share")),
        point => Ok(point),
    }
}

/// Parses a ClientKeyExchange with a PSK alone: the PSK identity.
pub fn read_psk_client_key_exchange(body: &[u8]) -> Result<&[u8], DecodeError> {
    read_psk_hint(body)
}

/// Writes a ClientKeyExchange with a PSK alone.
pub fn write_psk_client_key_exchange(
    identity: &[u8],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec16(|w| w.bytes(identity))
}

/// Parses a ClientKeyExchange with a PSK and a key share: PSK identity and public key.
pub fn read_ecdhe_psk_client_key_exchange(body: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let mut r = Reader::new(body);
    let (identity, point) = (r.vec16()?, read_point(&mut r)?);
    r.finish()?;
    Ok((identity, point))
}

/// Writes a ClientKeyExchange with a PSK and a key share.
pub fn write_ecdhe_psk_client_key_exchange(
    identity: &[u8],
    point: &[u8],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec16(|w| w.bytes(identity))?;
    w.vec8(|w| w.bytes(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_params_round_trip_and_every_cut() {
        let params =
            EcdhePskServerParams { hint: b"hint", group: NamedGroup::X25519, point: &[9; 32] };
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        w.put(&params).unwrap();
        let bytes = w.finish();
        assert_eq!(EcdhePskServerParams::decode(bytes), Ok(params));
        for cut in 0..bytes.len() {
            assert!(EcdhePskServerParams::decode(&bytes[..cut]).is_err());
        }
        bytes[6] = 1;
        assert!(EcdhePskServerParams::decode(bytes).is_err(), "an explicit prime");
    }

    #[test]
    fn client_messages_round_trip_and_every_cut() {
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        write_ecdhe_psk_client_key_exchange(b"me", b"point", &mut w).unwrap();
        let bytes = w.finish();
        assert_eq!(read_ecdhe_psk_client_key_exchange(bytes), Ok((&b"me"[..], &b"point"[..])));
        for cut in 0..bytes.len() {
            assert!(read_ecdhe_psk_client_key_exchange(&bytes[..cut]).is_err());
        }
        assert_eq!(read_psk_client_key_exchange(&bytes[..4]), Ok(&b"me"[..]));
        assert!(read_psk_client_key_exchange(bytes).is_err());
        assert!(read_ecdhe_psk_client_key_exchange(&[0, 0, 0]).is_err(), "no point");
    }
}
