//! What a client offers by which the server chooses its certificate, and the kinds of certificates
//! that follow from the answer.

use super::accepted_schemes;
use crate::codepoints::{CertificateType, ExtensionType, SignatureScheme};
use crate::config::Settings;
use crate::config::certificates::{ClientCertificates, is_default};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::grease::{Grease, List};
use crate::messages::certificate_extensions as extensions;
use crate::messages::extensions::{Extensions, write_extension};
use alloc::string::String;
use alloc::vec::Vec;
use lightseal_core::Writer;
use lightseal_core::wire::BufferFull;

/// What a client's verifier says of itself. It may be replaced between two calls, and so is asked
/// once for each hello.
pub(in crate::handshake) struct VerifierOffer {
    authorities: Vec<Vec<u8>>,
    schemes: Vec<SignatureScheme>,
}

impl VerifierOffer {
    pub(in crate::handshake) fn of(certificates: &ClientCertificates) -> Self {
        let verifier = &certificates.verifier;
        Self {
            authorities: verifier.authorities_in_hello(),
            schemes: verifier.certificate_schemes(),
        }
    }
}

/// The room in bytes for what [`write_offer`] writes.
pub(in crate::handshake) fn offered_len(
    settings: &Settings,
    certificates: &ClientCertificates,
    verifier: &VerifierOffer,
) -> usize {
    let names: usize = verifier.authorities.iter().map(|name| 2 + name.len()).sum();
    let schemes = settings.provider.signatures.len() + verifier.schemes.len();
    let kinds = certificates.verifier.kinds().len() + own_kinds(certificates).len();
    let name = certificates.server_name.as_ref().map_or(0, String::len);
    86 + 2 * schemes + names + kinds + name
}

fn own_kinds(certificates: &ClientCertificates) -> Vec<CertificateType> {
    certificates.keys.as_ref().map(|keys| keys.kinds()).unwrap_or_default()
}

/// Writes the extensions of a ClientHello by which the server chooses its certificate. Kinds of
/// certificates are left out where they are X.509 alone (RFC 7250, section 4.1).
pub(in crate::handshake) fn write_offer(
    settings: &Settings,
    certificates: &ClientCertificates,
    verifier: &VerifierOffer,
    grease: Option<Grease>,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    if let Some(name) = certificates.sent_name() {
        write_extension(w, ExtensionType::SERVER_NAME, |w| extensions::write_server_name(name, w))?;
    }
    write_extension(w, ExtensionType::SIGNATURE_ALGORITHMS, |w| {
        let grease = grease.map(|grease| SignatureScheme(grease.value(List::Schemes)));
        extensions::write_schemes(grease.into_iter().chain(accepted_schemes(settings)), w)
    })?;
    extensions::offer_certificate_schemes(&verifier.schemes, w)?;
    for (extension, kinds) in offered_kinds(certificates) {
        if !is_default(&kinds) {
            write_extension(w, extension, |w| extensions::write_certificate_types(&kinds, w))?;
        }
    }
    extensions::offer_compressions(&settings.certificate_compressions(), w)?;
    match &verifier.authorities[..] {
        [] => Ok(()),
        names => write_extension(w, ExtensionType::CERTIFICATE_AUTHORITIES, |w| {
            extensions::write_authorities(names, w)
        }),
    }
}

fn offered_kinds(certificates: &ClientCertificates) -> [(ExtensionType, Vec<CertificateType>); 2] {
    [
        (ExtensionType::CLIENT_CERTIFICATE_TYPE, own_kinds(certificates)),
        (ExtensionType::SERVER_CERTIFICATE_TYPE, certificates.verifier.kinds().to_vec()),
    ]
}

/// Whether the ClientHello had this extension, and EncryptedExtensions may have it.
pub(in crate::handshake) fn is_offered(
    certificates: &ClientCertificates,
    extension: ExtensionType,
) -> bool {
    match extension {
        ExtensionType::SERVER_NAME => certificates.sent_name().is_some(),
        extension => {
            let offered = offered_kinds(certificates);
            offered.iter().any(|(offered, kinds)| *offered == extension && !is_default(kinds))
        }
    }
}

/// The kinds of certificates that were negotiated.
#[derive(Clone, Copy, Debug)]
pub(in crate::handshake) struct Kinds {
    pub(in crate::handshake) server: CertificateType,
    pub(in crate::handshake) client: CertificateType,
}

impl Kinds {
    /// Reads the server's answer in EncryptedExtensions. Extensions that were not offered have been
    /// refused before.
    pub(in crate::handshake) fn read(
        certificates: &ClientCertificates,
        answer: Extensions<'_>,
    ) -> Result<Self, Fault> {
        let mut negotiated = [CertificateType::X509; 2];
        for ((extension, offered), kind) in offered_kinds(certificates).iter().zip(&mut negotiated)
        {
            let Some(content) = answer.get(*extension) else { continue };
            *kind = extensions::read_certificate_type(content)?;
            if !offered.contains(kind) {
                return Err(Misbehaviour::illegal("certificate type").into());
            }
        }
        let [client, server] = negotiated;
        if !certificates.verifier.kinds().contains(&server) {
            return Err(Incompatibility::CertificateType.into());
        }
        Ok(Self { server, client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PinnedKeys;
    use crate::parts;
    use alloc::sync::Arc;
    use lightseal_core::Decode;

    #[test]
    fn the_server_answers_only_kinds_that_were_offered() {
        let certificates = ClientCertificates {
            part: parts::Certificates::INCLUDED.unwrap(),
            verifier: Arc::new(PinnedKeys::default()),
            keys: None,
            server_name: Some("192.0.2.1".into()),
        };
        let read = |block: &[u8]| {
            Kinds::read(&certificates, Extensions::decode(block).unwrap()).map(|kinds| kinds.server)
        };
        let raw = CertificateType::RAW_PUBLIC_KEY;
        assert_eq!(read(&[0, 5, 0, 20, 0, 1, 2]), Ok(raw));
        let illegal = Misbehaviour::illegal("certificate type");
        assert_eq!(read(&[0, 5, 0, 20, 0, 1, 0]), Err(illegal.into()), "X.509");
        assert_eq!(read(&[0, 5, 0, 20, 0, 1, 3]), Err(illegal.into()));
        assert!(matches!(read(&[0, 6, 0, 20, 0, 2, 2, 2]), Err(Fault::Malformed(_))));
        // Without an answer the server sends X.509, which this client does not accept.
        assert_eq!(read(&[0, 0]), Err(Incompatibility::CertificateType.into()));

        let offered = |extension| is_offered(&certificates, extension);
        assert!(offered(ExtensionType::SERVER_CERTIFICATE_TYPE));
        assert!(!offered(ExtensionType::CLIENT_CERTIFICATE_TYPE), "it has no keys");
        assert!(!offered(ExtensionType::SERVER_NAME), "an address is not sent");
        assert!(!offered(ExtensionType::COOKIE));
    }
}
