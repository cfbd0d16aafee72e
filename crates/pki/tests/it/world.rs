//! Authorities and certificates, and a provider that loads P-256 keys.

use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
pub(crate) use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::{BadCertificate, CertificateVerifier, PresentedCertificate};
use lightseal_pki::clock::RELEASED;
use lightseal_pki::{Clock, Settings, SpkiHash, Trust, X509Verifier};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData,
    RevokedCertParams, SerialNumber,
};
use time::{Duration, OffsetDateTime};

/// The time of the tests: a year after the release.
pub(crate) const NOW: u64 = RELEASED + 365 * DAY;
pub(crate) const DAY: u64 = 86_400;

pub(crate) const X509: CertificateType = CertificateType::X509;
pub(crate) const RAW: CertificateType = CertificateType::RAW_PUBLIC_KEY;
pub(crate) const P256: SignatureScheme = SignatureScheme::ECDSA_SECP256R1_SHA256;

/// A number of days from the time of the tests.
pub(crate) fn days(days: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(NOW as i64).unwrap() + Duration::days(days)
}

pub(crate) type Ca = CertifiedIssuer<'static, KeyPair>;

/// Parameters of a certificate that is valid for 30 days before and after the time of the tests.
pub(crate) fn params(name: &str, alternative: &[&str]) -> CertificateParams {
    let alternative: Vec<String> = alternative.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(alternative).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = days(-30);
    params.not_after = days(30);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub(crate) fn ca_params(name: &str) -> CertificateParams {
    let mut params = params(name, &[]);
    params.extended_key_usages.clear();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

pub(crate) fn root(name: &str) -> Ca {
    CertifiedIssuer::self_signed(ca_params(name), KeyPair::generate().unwrap()).unwrap()
}

pub(crate) fn intermediate(params: CertificateParams, issuer: &Ca) -> Ca {
    CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), issuer).unwrap()
}

/// A key with its certificate.
pub(crate) struct End {
    pub(crate) key: KeyPair,
    pub(crate) certificate: rcgen::Certificate,
}

impl End {
    pub(crate) fn new(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.signed_by(&key, issuer).unwrap(), key }
    }

    pub(crate) fn self_signed(params: &CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.self_signed(&key).unwrap(), key }
    }

    pub(crate) fn hash(&self) -> SpkiHash {
        SpkiHash::of(&self.key.subject_public_key_info())
    }

    pub(crate) fn der(&self) -> &[u8] {
        self.certificate.der()
    }
}

pub(crate) fn settings() -> Settings {
    settings_at(Some(NOW))
}

pub(crate) fn settings_at(now: Option<u64>) -> Settings {
    let algorithms = webpki::ALL_VERIFICATION_ALGS.iter().copied();
    Settings::with_algorithms(algorithms, Clock::new(move || now))
}

pub(crate) fn trusting(ca: &Ca) -> Trust {
    Trust::new().with_authorities(ca.pem().as_bytes()).unwrap()
}

pub(crate) type Verdict = Result<Option<String>, BadCertificate>;

/// What the verifier says of a server.
pub(crate) fn server(verifier: &X509Verifier, chain: &[&[u8]], name: &str) -> Verdict {
    let mut presented = PresentedCertificate::new(X509, chain);
    presented.server_name = Some(name);
    check(verifier, &presented)
}

/// What the verifier says of a client.
pub(crate) fn client(verifier: &X509Verifier, chain: &[&[u8]]) -> Verdict {
    let mut presented = PresentedCertificate::new(X509, chain);
    presented.from_client = true;
    check(verifier, &presented)
}

/// The verifier's answer without the key, which must be the peer's.
pub(crate) fn check(
    verifier: &dyn CertificateVerifier,
    presented: &PresentedCertificate<'_>,
) -> Verdict {
    let (spki, name) = verifier.verify(presented)?;
    if presented.kind == RAW {
        assert_eq!(spki, presented.entries[0]);
    } else {
        let certificate = presented.entries[0].into();
        let certificate = webpki::EndEntityCert::try_from(&certificate).unwrap();
        assert_eq!(spki, *certificate.subject_public_key_info());
    }
    Ok(name)
}

/// A revocation list that ends after a number of days.
pub(crate) fn crl(issuer: &Ca, revoked: &[u64], valid_days: i64) -> Vec<u8> {
    crl_params(revoked, valid_days).signed_by(issuer).unwrap().der().to_vec()
}

pub(crate) fn crl_params(revoked: &[u64], valid_days: i64) -> CertificateRevocationListParams {
    let revoked = revoked.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: days(-2),
        reason_code: None,
        invalidity_date: None,
    });
    CertificateRevocationListParams {
        this_update: days(-3),
        next_update: days(valid_days),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    }
}
