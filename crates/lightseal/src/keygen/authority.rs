//! An authority read from its files.

use super::distinguished_name::distinguished_name;
use super::input;
use super::output::with_extension;
use super::private_key;
use crate::failure::{Context, Failure};
use lightseal_dtls::BadCertificate;
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::credential::{CertificateVerifier, PresentedCertificate};
use lightseal_pki::{Clock, Settings, SpkiHash, Trust};
use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use rcgen::{
    Certificate, CertificateParams, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use std::path::Path;
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, SubjectKeyIdentifier};

/// A key and certificate that may sign others.
pub(super) struct Authority {
    /// Its file of certificates.
    name: String,
    issuer: Issuer<'static, KeyPair>,
    certificate: x509_cert::Certificate,
    /// The certificates from its own up to the one below the root, in DER.
    chain: Vec<CertificateDer<'static>>,
    /// The highest certificate of its file.
    highest: CertificateDer<'static>,
}

impl Authority {
    /// Reads `PREFIX.key` and `PREFIX.pem`.
    pub(super) fn load(prefix: &Path) -> Result<Self, Failure> {
        let path = with_extension(prefix, "pem");
        let name = path.display().to_string();
        let pem = std::fs::read(&path).context(&name)?;
        let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.context(&name)?;
        let (Some(own), Some(highest)) = (chain.first(), chain.last()) else {
            return Err(input::lacks(&name, &pem, "certificate"));
        };
        let certificate = x509_cert::Certificate::from_der(own).context(&name)?;
        let tbs = certificate.tbs_certificate();
        let basic = tbs.get_extension::<BasicConstraints>().context(&name)?;
        let usage = tbs.get_extension::<KeyUsage>().context(&name)?;
        let may_sign = usage.as_ref().is_none_or(|(_, usage)| usage.key_cert_sign());
        if !basic.is_some_and(|(_, basic)| basic.ca) || !may_sign {
            return Err(Failure::new(format_args!("{name}: not the certificate of an authority")));
        }
        let key = private_key::load(&with_extension(prefix, "key"))?;
        let hash = SpkiHash::of_certificate(own).context(&name)?;
        if hash != private_key::hash(&key) {
            return Err(Failure::new(format_args!(
                "{name}: for another key than {}.key",
                prefix.display()
            )));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(tbs.subject()).context(&name)?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        if usage.is_none_or(|(_, usage)| usage.crl_sign()) {
            params.key_usages.push(KeyUsagePurpose::CrlSign);
        }
        let key_id = tbs.get_extension::<SubjectKeyIdentifier>().context(&name)?;
        if let Some((_, id)) = key_id {
            params.key_identifier_method = KeyIdMethod::PreSpecified(id.0.as_bytes().to_vec());
        }
        let highest = highest.clone();
        let chain = chain.iter().filter(|one| !is_self_issued(one)).cloned().collect();
        Ok(Self { name, issuer: Issuer::new(params, key), certificate, chain, highest })
    }

    /// A certificate for a public key.
    pub(super) fn issue(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
    ) -> Result<Certificate, Failure> {
        let issued = params.signed_by(key, &self.issuer).context("no certificate could be made")?;
        // The library writes names and keys anew. Peers compare their bytes.
        let written = x509_cert::Certificate::from_der(issued.der()).context("certificate")?;
        let subject = self.subject().to_der();
        if written.tbs_certificate().issuer().to_der() != subject {
            return Err(Failure::new("the authority's name has a form that is not supported"));
        }
        let hash = SpkiHash::of_certificate(issued.der()).context("certificate")?;
        if hash != private_key::hash(key) {
            return Err(Failure::new("the key has a form that is not supported"));
        }
        Ok(issued)
    }

    /// Checks that a server, or a client, with a certificate of this authority is accepted by whoever
    /// trusts it: an authority may be restricted to some names, or be out of date.
    pub(super) fn check(&self, issued: &Certificate, from_client: bool) -> Result<(), Failure> {
        let issuers = self.chain.iter().filter(|one| **one != self.highest).map(|one| &one[..]);
        let entries: Vec<&[u8]> = std::iter::once(&issued.der()[..]).chain(issuers).collect();
        let mut presented = PresentedCertificate::new(CertificateType::X509, &entries);
        presented.from_client = from_client;
        let trust = Trust::new().with_authorities(&self.highest).context(&self.name)?;
        let settings = Settings::new(&crate::provider::PROVIDER, Clock::system());
        let verifier = settings.dangerous().with_any_server_name().verifier(trust);
        match verifier.verify(&presented) {
            Ok(_) => Ok(()),
            Err(BadCertificate::Constraint) => Err(Failure::new(format_args!(
                "{}: not allowed to issue a certificate for these names",
                self.name
            ))),
            Err(error) => Err(Failure::new(format_args!("no peer would accept it: {error}"))),
        }
    }

    /// The authority's name.
    pub(super) fn subject(&self) -> &x509_cert::name::Name {
        self.certificate.tbs_certificate().subject()
    }

    pub(super) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// The authority's certificates without the root, in PEM.
    pub(super) fn chain_pem(&self) -> Result<String, Failure> {
        let pem = |der: &CertificateDer<'_>| encode_string("CERTIFICATE", LineEnding::LF, der);
        self.chain.iter().map(pem).collect::<Result<_, _>>().context("certificate")
    }
}

/// Whether subject and issuer are the same.
fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    x509_cert::Certificate::from_der(certificate).is_ok_and(|certificate| {
        certificate.tbs_certificate().subject() == certificate.tbs_certificate().issuer()
    })
}
