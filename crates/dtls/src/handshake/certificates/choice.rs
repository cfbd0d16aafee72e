//! The certificate with which a server answers a client's offer.

use super::{Signer, common_kind, for_handshakes, read_compressions};
use crate::codepoints::{CertificateType, ExtensionType};
use crate::config::ClientAuthentication;
use crate::config::certificates::ServerCertificates;
use crate::credential::OfferedCertificates;
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::certificate_extensions as extensions;
use crate::messages::extensions::{Extensions, write_extension};
use alloc::string::String;
use alloc::vec::Vec;
use lightseal_core::Writer;
use lightseal_core::wire::BufferFull;

/// The certificate with which the server answers a client, and whether it asks for the client's.
#[derive(Debug)]
pub(crate) struct ChosenCertificate {
    pub(in crate::handshake) signer: Signer,
    pub(in crate::handshake) request: Option<Request>,
    /// The name of the server that the client wants, in lower case.
    pub(in crate::handshake) server_name: Option<String>,
    /// Whether the certificate was chosen by the name that the client has sent.
    answers_name: bool,
    /// Whether the client has sent lists of kinds, which are then answered.
    answers_server_kind: bool,
    answers_client_kind: bool,
}

/// What the server asks of the client.
#[derive(Debug)]
pub(in crate::handshake) struct Request {
    pub(in crate::handshake) clients: ClientAuthentication,
    pub(in crate::handshake) kind: CertificateType,
}

/// The kinds of certificates in an extension of the ClientHello: X.509 alone if it is absent.
fn offered_kinds(
    offer: Extensions<'_>,
    kind: ExtensionType,
) -> Result<Option<Vec<CertificateType>>, Fault> {
    Ok(offer.get(kind).map(extensions::read_certificate_types).transpose()?)
}

/// The name of the server that a client wants, in lower case.
pub(in crate::handshake) fn offered_name(offer: Extensions<'_>) -> Result<Option<String>, Fault> {
    Ok(match offer.get(ExtensionType::SERVER_NAME) {
        Some(content) => extensions::read_server_name(content)?.map(str::to_ascii_lowercase),
        None => None,
    })
}

impl ChosenCertificate {
    /// Chooses for a ClientHello of DTLS 1.3 with these extensions.
    pub(in crate::handshake) fn new(
        certificates: &ServerCertificates,
        offer: Extensions<'_>,
    ) -> Result<Self, Fault> {
        let schemes = offer
            .get(ExtensionType::SIGNATURE_ALGORITHMS)
            .ok_or(Misbehaviour::missing("signature_algorithms"))?;
        let schemes = for_handshakes(extensions::read_schemes(schemes)?);
        let compressions = read_compressions(offer)?;
        let accepted = OfferedCertificates {
            compressions: &compressions,
            ..OfferedCertificates::new(&[], &schemes)
        };
        Self::accepted_by(certificates, offer, accepted)
    }

    /// Chooses for a ClientHello with these extensions. The caller states what the client accepts and
    /// differs between the versions.
    pub(in crate::handshake) fn accepted_by(
        certificates: &ServerCertificates,
        offer: Extensions<'_>,
        accepted: OfferedCertificates<'_>,
    ) -> Result<Self, Fault> {
        let authorities = match offer.get(ExtensionType::CERTIFICATE_AUTHORITIES) {
            Some(content) => extensions::read_authorities(content)?,
            None => Vec::new(),
        };
        let certificate_schemes = extensions::read_certificate_schemes(offer)?;
        let server_name = offered_name(offer)?;
        let known = server_name.as_deref().and_then(|name| certificates.keys.has_name(name));
        if known == Some(false) {
            return Err(Incompatibility::ServerName.into());
        }
        let default = [CertificateType::X509];
        let kinds = offered_kinds(offer, ExtensionType::SERVER_CERTIFICATE_TYPE)?;
        let answers_server_kind = kinds.is_some();
        let kinds = kinds.as_deref().unwrap_or(&default);
        let offered = OfferedCertificates {
            server_name: server_name.as_deref(),
            kinds,
            authorities: &authorities,
            certificate_schemes: &certificate_schemes,
            ..accepted
        };
        common_kind(&certificates.keys.kinds(), kinds)?;
        let signer = Signer::new(certificates.keys.choose(&offered), &offered)
            .ok_or(Incompatibility::Certificate)?;

        let kinds = offered_kinds(offer, ExtensionType::CLIENT_CERTIFICATE_TYPE)?;
        let request = match certificates.clients.verifier() {
            None => None,
            Some(verifier) => {
                let kind = common_kind(verifier.kinds(), kinds.as_deref().unwrap_or(&default));
                match kind {
                    Ok(kind) => Some(Request { clients: certificates.clients.clone(), kind }),
                    Err(fault) if certificates.clients.is_required() => return Err(fault.into()),
                    Err(_) => None,
                }
            }
        };
        let answers_client_kind = request.is_some() && kinds.is_some();
        let answers_name = known == Some(true);
        Ok(Self {
            signer,
            request,
            server_name,
            answers_name,
            answers_server_kind,
            answers_client_kind,
        })
    }

    /// Writes the answer in EncryptedExtensions.
    pub(in crate::handshake) fn write_answer(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        if self.answers_name {
            write_extension(w, ExtensionType::SERVER_NAME, |_| Ok(()))?;
        }
        if self.answers_server_kind {
            let kind = self.signer.key.kind();
            write_extension(w, ExtensionType::SERVER_CERTIFICATE_TYPE, |w| w.u8(kind.0))?;
        }
        if let Some(request) = self.request.as_ref().filter(|_| self.answers_client_kind) {
            write_extension(w, ExtensionType::CLIENT_CERTIFICATE_TYPE, |w| w.u8(request.kind.0))?;
        }
        Ok(())
    }

    /// Whether the client is asked for a certificate.
    pub(in crate::handshake) const fn asks_client(&self) -> bool {
        self.request.is_some()
    }
}
