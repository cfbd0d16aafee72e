//! The hash by which a public key is pinned.

use crate::reason::reason;
use core::fmt;
use core::str::FromStr;
use lightseal_dtls::BadCertificate;
use pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use webpki::EndEntityCert;

/// SHA-256 of a SubjectPublicKeyInfo in DER (RFC 5280, section 4.1.2.7), written `spki:` and 64
/// hexadecimal digits. It names a key whether the peer shows it raw or in a certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpkiHash(pub [u8; 32]);

impl SpkiHash {
    /// The hash of a SubjectPublicKeyInfo in DER.
    pub fn of(spki: &[u8]) -> Self {
        Self(Sha256::digest(spki).into())
    }

    /// The hash of the public key of a certificate in DER, which is not verified.
    ///
    /// # Errors
    /// It does not parse.
    pub fn of_certificate(certificate: &[u8]) -> Result<Self, BadCertificate> {
        let certificate = CertificateDer::from(certificate);
        let certificate = EndEntityCert::try_from(&certificate).map_err(reason)?;
        Ok(Self::of(&certificate.subject_public_key_info()))
    }
}

impl fmt::Display for SpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("spki:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is no [`SpkiHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnSpkiHash;

impl fmt::Display for NotAnSpkiHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pinned key is written spki: and 64 hexadecimal digits")
    }
}

impl core::error::Error for NotAnSpkiHash {}

impl FromStr for SpkiHash {
    type Err = NotAnSpkiHash;

    fn from_str(text: &str) -> Result<Self, NotAnSpkiHash> {
        let digits = text.strip_prefix("spki:").ok_or(NotAnSpkiHash)?.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return Err(NotAnSpkiHash);
        }
        let digit = |c: u8| char::from(c).to_digit(16).ok_or(NotAnSpkiHash);
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return Err(NotAnSpkiHash) };
            *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
        }
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_hash_is_read_as_it_is_written_and_nothing_else_is() {
        let hash = SpkiHash::of(b"abc");
        let text = hash.to_string();
        // FIPS 180-4's example.
        let known = "spki:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text, known);
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(text.to_uppercase().replace("SPKI", "spki").parse(), Ok(hash));
        let wrong = [&text[5..], &text[..68], &text.replace('b', "g"), &text.replace("ba", "+a")];
        for wrong in wrong.into_iter().chain([&(text.clone() + "0")[..], "spki:", ""]) {
            assert_eq!(wrong.parse::<SpkiHash>(), Err(NotAnSpkiHash), "{wrong}");
        }
    }
}
