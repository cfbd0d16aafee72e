//! An authority read from its files.

use super::distinguished_name::distinguished_name;
use super::output::with_extension;
use super::private_key;
use crate::failure::{Context, Failure};
use lightseal_pki::SpkiHash;
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
    issuer: Issuer<'static, KeyPair>,
    certificate: x509_cert::Certificate,
    /// The certificates from its own up to the one below the root, in DER.
    chain: Vec<CertificateDer<'static>>,
}

impl Authority {
    /// Reads `PREFIX.key` and `PREFIX.pem`.
    pub(super) fn load(prefix: &Path) -> Result<Self, Failure> {
        let path = with_extension(prefix, "pem");
        let name = path.display();
        let pem = std::fs::read(&path).context(&name)?;
        let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.context(&name)?;
        let own = chain
            .first()
            .ok_or_else(|| Failure::new(format_args!("{name}: no certificate in it")))?;
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
        let chain = chain.iter().filter(|one| !is_self_issued(one)).cloned().collect();
        Ok(Self { issuer: Issuer::new(params, key), certificate, chain })
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
