//! Requests for certificates (PKCS #10, RFC 2986).

use super::distinguished_name::distinguished_name;
use super::input;
use crate::failure::{Context, Failure};
use pki_types::CertificateSigningRequestDer;
use pki_types::pem::PemObject;
use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PublicKeyData, SanType, SignatureAlgorithm,
};
use std::net::IpAddr;
use std::path::Path;
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::request::{CertReq, ExtensionReq};

/// A request for a certificate, in PEM.
pub(super) fn make(params: &CertificateParams, key: &KeyPair) -> Result<String, Failure> {
    let request = params.serialize_request(key).context("no request could be made")?;
    request.pem().context("no request could be made")
}

/// A request whose signature was verified: whoever made it has the private key.
pub(super) struct Request {
    request: CertReq,
    public_key: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
    name: String,
}

/// The kinds of keys for which certificates are made.
const KINDS: [&SignatureAlgorithm; 4] = [
    &rcgen::PKCS_ECDSA_P256_SHA256,
    &rcgen::PKCS_ECDSA_P384_SHA384,
    &rcgen::PKCS_ED25519,
    &rcgen::PKCS_RSA_SHA256,
];

impl Request {
    /// Reads a request from PEM or DER.
    pub(super) fn load(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).context(&name)?;
        let der = CertificateSigningRequestDer::from_pem_slice(&bytes)
            .unwrap_or_else(|_| CertificateSigningRequestDer::from(bytes.clone()));
        let request =
            CertReq::from_der(&der).map_err(|_| input::lacks(&name, &bytes, "request"))?;
        let info = &request.info;
        let public_key = info.public_key.subject_public_key.raw_bytes().to_vec();
        verify(&request).ok_or_else(|| {
            Failure::new(format_args!(
                "{name}: its signature does not verify, or is of a kind that is not supported"
            ))
        })?;
        let spki = info.public_key.to_der().context(&name)?;
        let same = |algorithm: &&'static SignatureAlgorithm| {
            Key { bytes: &public_key, algorithm }.subject_public_key_info() == spki
        };
        let algorithm = KINDS.into_iter().find(same);
        let algorithm = algorithm.ok_or_else(|| {
            Failure::new(format_args!("{name}: its key is of a kind that is not supported"))
        })?;
        Ok(Self { request, public_key, algorithm, name })
    }

    pub(super) fn subject(&self) -> Result<DistinguishedName, Failure> {
        distinguished_name(&self.request.info.subject).context(&self.name)
    }

    /// The alternative names that are requested.
    pub(super) fn alternative_names(&self) -> Result<Vec<SanType>, Failure> {
        let mut names = Vec::new();
        let attributes = self.request.info.attributes.iter();
        for attribute in attributes.filter(|attribute| attribute.oid == ExtensionReq::OID) {
            for value in attribute.values.iter() {
                let der = value.to_der().context(&self.name)?;
                let extensions = ExtensionReq::from_der(&der).context(&self.name)?;
                let wanted = |extension: &&x509_cert::ext::Extension| {
                    extension.extn_id == SubjectAltName::OID
                };
                for extension in extensions.0.iter().filter(wanted) {
                    let list = SubjectAltName::from_der(extension.extn_value.as_bytes());
                    for name in list.context(&self.name)?.0 {
                        names.push(self.alternative_name(&name)?);
                    }
                }
            }
        }
        Ok(names)
    }

    fn alternative_name(&self, name: &GeneralName) -> Result<SanType, Failure> {
        let unsupported = || {
            Failure::new(format_args!(
                "{}: asks for a name that is no DNS name, IP address or URI; give --name",
                self.name
            ))
        };
        Ok(match name {
            GeneralName::DnsName(text) => {
                SanType::DnsName(text.as_str().try_into().map_err(|_| unsupported())?)
            }
            GeneralName::UniformResourceIdentifier(text) => {
                SanType::URI(text.as_str().try_into().map_err(|_| unsupported())?)
            }
            GeneralName::IpAddress(bytes) => {
                let bytes = bytes.as_bytes();
                let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
                let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
                SanType::IpAddress(address.map_err(|_| unsupported())?)
            }
            _ => return Err(unsupported()),
        })
    }
}

/// Verifies the request's signature by its own key.
fn verify(request: &CertReq) -> Option<()> {
    let content = |der: &[u8]| Some(AnyRef::from_der(der).ok()?.value().to_vec());
    let key_kind = content(&request.info.public_key.algorithm.to_der().ok()?)?;
    let kind = content(&request.algorithm.to_der().ok()?)?;
    let message = request.info.to_der().ok()?;
    let algorithm = webpki::ALL_VERIFICATION_ALGS.iter().find(|algorithm| {
        *algorithm.public_key_alg_id() == key_kind[..] && *algorithm.signature_alg_id() == kind[..]
    });
    let key = request.info.public_key.subject_public_key.raw_bytes();
    algorithm?.verify_signature(key, &message, request.signature.raw_bytes()).ok()
}

impl PublicKeyData for Request {
    fn der_bytes(&self) -> &[u8] {
        &self.public_key
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

/// A public key of a kind.
struct Key<'a> {
    bytes: &'a [u8],
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for Key<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.bytes
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}
