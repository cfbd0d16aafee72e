//! Key exchange messages of DTLS 1.2: with PSKs (RFC 4279, section 2; RFC 5489, section 2), and with
//! certificates (RFC 8422, sections 5.4 and 5.7).

use super::certificate::CertificateVerify;
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
        let EcdheServerParams { group, point } = EcdheServerParams::read(r)?;
        Ok(Self { hint, group, point })
    }
}

impl Encode for EcdhePskServerParams<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.vec16(|w| w.bytes(self.hint))?;
        EcdheServerParams { group: self.group, point: self.point }.write(w)
    }
}

/// The server's key share. With a certificate, a signature follows it in the ServerKeyExchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcdheServerParams<'a> {
    /// The group.
    pub group: NamedGroup,
    /// The server's public key in the group's encoding.
    pub point: &'a [u8],
}

impl<'a> Decode<'a> for EcdheServerParams<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if r.u8()? != NAMED_CURVE {
            return Err(DecodeError::invalid("curve type"));
        }
        Ok(Self { group: NamedGroup(r.u16()?), point: read_point(r)? })
    }
}

impl Encode for EcdheServerParams<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.u8(NAMED_CURVE)?;
        w.u16(self.group.0)?;
        w.vec8(|w| w.bytes(self.point))
    }
}

/// Parses a ServerKeyExchange with a certificate: the key share, its encoding, and the signature.
pub fn read_signed_server_key_exchange(
    body: &[u8],
) -> Result<(EcdheServerParams<'_>, &[u8], CertificateVerify<'_>), DecodeError> {
    let mut r = Reader::new(body);
    let params = EcdheServerParams::read(&mut r)?;
    let encoded = body.len() - r.rest().len();
    let signed = CertificateVerify::read(&mut r)?;
    r.finish()?;
    Ok((params, body.get(..encoded).unwrap_or_default(), signed))
}

/// Parses a ClientKeyExchange with a certificate: the client's public key.
pub fn read_ecdhe_client_key_exchange(body: &[u8]) -> Result<&[u8], DecodeError> {
    let mut r = Reader::new(body);
    let point = read_point(&mut r)?;
    r.finish()?;
    Ok(point)
}

/// Writes a ClientKeyExchange with a certificate.
pub fn write_ecdhe_client_key_exchange(point: &[u8], w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.vec8(|w| w.bytes(point))
}

fn read_point<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    match r.vec8()? {
        [] => Err(DecodeError::invalid("key share")),
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
    use crate::codepoints::SignatureScheme;

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
    fn signed_params_round_trip_and_every_cut() {
        let params = EcdheServerParams { group: NamedGroup::P256, point: &[4; 65] };
        let scheme = SignatureScheme::ECDSA_SECP256R1_SHA256;
        let signed = CertificateVerify { scheme, signature: &[5; 70] };
        let mut buf = [0; 160];
        let mut w = Writer::new(&mut buf);
        w.put(&params).unwrap();
        let encoded = w.len();
        w.put(&signed).unwrap();
        let bytes = w.finish();
        let read = read_signed_server_key_exchange(bytes).unwrap();
        assert_eq!(read, (params, &bytes[..encoded], signed));
        for cut in 0..bytes.len() {
            assert!(read_signed_server_key_exchange(&bytes[..cut]).is_err());
        }
        let longer: alloc::vec::Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert!(read_signed_server_key_exchange(&longer).is_err());
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
        assert_eq!(read_ecdhe_client_key_exchange(&bytes[4..]), Ok(&b"point"[..]));
        assert!(read_ecdhe_client_key_exchange(&bytes[3..]).is_err());
        assert!(read_ecdhe_client_key_exchange(&bytes[4..9]).is_err());
        assert!(read_ecdhe_psk_client_key_exchange(&[0, 0, 0]).is_err(), "no point");
    }
}
