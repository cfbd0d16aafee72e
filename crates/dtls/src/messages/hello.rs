//! ClientHello, ServerHello (and HelloRetryRequest) and EncryptedExtensions (RFC 8446, section 4;
//! RFC 9147, section 5.3; in DTLS 1.2 RFC 5246, section 7.4.1).

use super::extensions::Extensions;
use crate::codepoints::{HELLO_RETRY_REQUEST_RANDOM, LEGACY_VERSION};
use crate::crypto::CipherSuiteId;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Reader, Writer};

/// A ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// The newest offered version except 1.3, which is offered in an extension.
    pub legacy_version: u16,
    /// The client's random.
    pub random: &'a [u8; 32],
    /// The session to resume in DTLS 1.2. A DTLS 1.3 server must not echo it (RFC 9147, section
    /// 5.3).
    pub legacy_session_id: &'a [u8],
    /// The cookie of DTLS 1.2, empty in 1.3.
    pub legacy_cookie: &'a [u8],
    /// Cipher suites as 16-bit numbers.
    pub cipher_suites: &'a [u8],
    /// The compression methods, including null; in DTLS 1.3 only null.
    pub compression_methods: &'a [u8],
    /// Extensions.
    pub extensions: Extensions<'a>,
}

impl<'a> Decode<'a> for ClientHello<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let legacy_version = r.u16()?;
        let random = r.take(32)?.first_chunk().ok_or(DecodeError::Short)?;
        let legacy_session_id = r.vec8()?;
        if legacy_session_id.len() > 32 {
            return Err(DecodeError::invalid("session id"));
        }
        let legacy_cookie = r.vec8()?;
        let cipher_suites = r.vec16()?;
        let compression_methods = r.vec8()?;
        // A search for a byte would be made for long texts, which takes more code.
        if compression_methods.iter().all(|method| *method > 0) {
            return Err(DecodeError::invalid("compression methods"));
        }
        let extensions = Extensions::read_if_any(r)?;
        Ok(Self {
            legacy_version,
            random,
            legacy_session_id,
            legacy_cookie,
            cipher_suites,
            compression_methods,
            extensions,
        })
    }
}

/// Writes a ClientHello; `suites` appends its cipher suites, 16 bits each, and `extensions` its
/// extensions. Session ID and cookie are those of DTLS 1.2.
pub fn write_client_hello(
    w: &mut Writer<'_>,
    random: &[u8; 32],
    session_id: &[u8],
    cookie: &[u8],
    suites: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
    extensions: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Result<(), BufferFull> {
    w.u16(LEGACY_VERSION)?;
    w.bytes(random)?;
    w.vec8(|w| w.bytes(session_id))?;
    w.vec8(|w| w.bytes(cookie))?;
    w.vec16(suites)?;
    w.vec8(|w| w.u8(0))?; // legacy_compression_methods: null
    w.vec16(extensions)
}

/// A ServerHello, or a HelloRetryRequest, which has the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello<'a> {
    /// The selected version. A DTLS 1.3 server sends 1.2 here.
    pub legacy_version: u16,
    /// The server's random.
    pub random: &'a [u8; 32],
    /// The session ID. It must be empty in DTLS 1.3 (RFC 9147, section 5.3), where it is not
    /// echoed.
    pub session_id: &'a [u8],
    /// The selected cipher suite.
    pub cipher_suite: CipherSuiteId,
    /// Extensions.
    pub extensions: Extensions<'a>,
}

impl ServerHello<'_> {
    /// Whether this is a HelloRetryRequest (RFC 8446, section 4.1.3).
    pub fn is_retry(&self) -> bool {
        *self.random == HELLO_RETRY_REQUEST_RANDOM
    }
}

impl<'a> Decode<'a> for ServerHello<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let legacy_version = r.u16()?;
        let random = r.take(32)?.first_chunk().ok_or(DecodeError::Short)?;
        let session_id = r.vec8()?;
        if session_id.len() > 32 {
            return Err(DecodeError::invalid("session id"));
        }
        let cipher_suite = CipherSuiteId(r.u16()?);
        if r.u8()? != 0 {
            return Err(DecodeError::invalid("compression method"));
        }
        let extensions = Extensions::read_if_any(r)?;
        Ok(Self { legacy_version, random, session_id, cipher_suite, extensions })
    }
}

/// Writes a ServerHello or HelloRetryRequest.
pub fn write_server_hello(
    w: &mut Writer<'_>,
    random: &[u8; 32],
    session_id: &[u8],
    suite: CipherSuiteId,
    extensions: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Result<(), BufferFull> {
    w.u16(LEGACY_VERSION)?;
    w.bytes(random)?;
    w.vec8(|w| w.bytes(session_id))?;
    w.u16(suite.0)?;
    w.u8(0)?; // legacy_compression_method
    w.vec16(extensions)
}

/// Writes a ServerHello of DTLS 1.2, whose extension block is omitted when it is empty (RFC 5246,
/// section 7.4.1.3).
pub fn write_server_hello_12(
    w: &mut Writer<'_>,
    random: &[u8; 32],
    session_id: &[u8],
    suite: CipherSuiteId,
    extensions: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Result<(), BufferFull> {
    w.u16(LEGACY_VERSION)?;
    w.bytes(random)?;
    w.vec8(|w| w.bytes(session_id))?;
    w.u16(suite.0)?;
    w.u8(0)?; // compression_method: null
    let before = w.len();
    w.vec16(extensions)?;
    if w.len() == before + 2 {
        w.truncate(before);
    }
    Ok(())
}

/// EncryptedExtensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptedExtensions<'a> {
    /// Extensions.
    pub extensions: Extensions<'a>,
}

impl<'a> Decode<'a> for EncryptedExtensions<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { extensions: Extensions::read(r)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codepoints::ExtensionType;
    use crate::messages::extensions::write_extension;

    #[test]
    fn client_hello_round_trip_and_every_cut() {
        let mut buf = [0; 256];
        let mut w = Writer::new(&mut buf);
        write_client_hello(
            &mut w,
            &[7; 32],
            b"id",
            b"",
            |w| w.u16(0x1301),
            |w| write_extension(w, ExtensionType::COOKIE, |w| w.bytes(b"xyz")),
        )
        .unwrap();
        let bytes = w.finish();
        let hello = ClientHello::decode(bytes).unwrap();
        assert_eq!(hello.random, &[7; 32]);
        assert_eq!(hello.cipher_suites, [0x13, 0x01]);
        assert_eq!(hello.extensions.get(ExtensionType::COOKIE), Some(&b"xyz"[..]));
        assert_eq!(hello.legacy_session_id, b"id");
        // A DTLS 1.2 hello may have no extension block.
        let block = bytes.len() - 2 - 4 - 3;
        for cut in (0..bytes.len()).filter(|cut| *cut != block) {
            assert!(ClientHello::decode(&bytes[..cut]).is_err());
        }
        assert_eq!(ClientHello::decode(&bytes[..block]).unwrap().extensions, Extensions::EMPTY);
    }

    #[test]
    fn server_hello_round_trip_and_every_cut() {
        let mut buf = [0; 256];
        let mut w = Writer::new(&mut buf);
        let suite = CipherSuiteId(0x1304);
        write_server_hello(&mut w, &HELLO_RETRY_REQUEST_RANDOM, b"id", suite, |_| Ok(())).unwrap();
        let bytes = w.finish();
        let hello = ServerHello::decode(bytes).unwrap();
        assert!(hello.is_retry());
        assert_eq!(hello.cipher_suite, CipherSuiteId(0x1304));
        for cut in (0..bytes.len()).filter(|cut| *cut != bytes.len() - 2) {
            assert!(ServerHello::decode(&bytes[..cut]).is_err());
        }
        bytes[2] ^= 1;
        assert!(!ServerHello::decode(bytes).unwrap().is_retry());
    }
}
