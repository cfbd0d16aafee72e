//! The signatures of certificates, as TLS names them (RFC 8446, section 4.2.3).

use alloc::vec::Vec;
use lightseal_dtls::codepoints::SignatureScheme;
use pki_types::{AlgorithmIdentifier, SignatureVerificationAlgorithm, alg_id};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

/// `rsa_pss_pss_sha256` and its relatives: a key for RSASSA-PSS alone has made the signature. They
/// name the same signatures in certificates as `rsa_pss_rsae_sha256` and its relatives.
const RSA_PSS_PSS_SHA256: SignatureScheme = SignatureScheme(0x0809);
const RSA_PSS_PSS_SHA384: SignatureScheme = SignatureScheme(0x080a);
const RSA_PSS_PSS_SHA512: SignatureScheme = SignatureScheme(0x080b);
const ECDSA_SECP521R1_SHA512: SignatureScheme = SignatureScheme(0x0603);

/// The algorithms of signatures, with the schemes that name them. A certificate does not say in
/// which curve its issuer's key lies, so that an ECDSA scheme stands for its hash alone.
const SCHEMES: &[(AlgorithmIdentifier, &[SignatureScheme])] = &[
    (alg_id::ECDSA_SHA256, &[SignatureScheme::ECDSA_SECP256R1_SHA256]),
    (alg_id::ECDSA_SHA384, &[SignatureScheme::ECDSA_SECP384R1_SHA384]),
    (alg_id::ECDSA_SHA512, &[ECDSA_SECP521R1_SHA512]),
    (alg_id::ED25519, &[SignatureScheme::ED25519]),
    (alg_id::RSA_PKCS1_SHA256, &[SignatureScheme::RSA_PKCS1_SHA256]),
    (alg_id::RSA_PKCS1_SHA384, &[SignatureScheme::RSA_PKCS1_SHA384]),
    (alg_id::RSA_PKCS1_SHA512, &[SignatureScheme::RSA_PKCS1_SHA512]),
    (alg_id::RSA_PSS_SHA256, &[SignatureScheme::RSA_PSS_RSAE_SHA256, RSA_PSS_PSS_SHA256]),
    (alg_id::RSA_PSS_SHA384, &[SignatureScheme::RSA_PSS_RSAE_SHA384, RSA_PSS_PSS_SHA384]),
    (alg_id::RSA_PSS_SHA512, &[SignatureScheme::RSA_PSS_RSAE_SHA512, RSA_PSS_PSS_SHA512]),
];

fn schemes(algorithm: &[u8]) -> &'static [SignatureScheme] {
    // Parameters that are NULL are absent with some issuers (RFC 4055, section 5).
    let without_null = |id: &[u8]| id.strip_suffix(&[5, 0]).unwrap_or(id).to_vec();
    let wanted = without_null(algorithm);
    let known = SCHEMES.iter().find(|(known, _)| without_null(known.as_ref()) == wanted);
    known.map_or(&[], |(_, schemes)| schemes)
}

/// The schemes one of which the signature of a certificate in DER has: none if no scheme names its
/// algorithm. `None`: the certificate signs itself, and nobody verifies that (RFC 8446, section
/// 4.4.2.2), or it does not parse.
pub(crate) fn of_certificate(certificate: &[u8]) -> Option<&'static [SignatureScheme]> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let content = certificate.tbs_certificate();
    if content.issuer() == content.subject() {
        return None;
    }
    let algorithm = certificate.signature_algorithm().to_der().ok()?;
    // The constants have no head of their SEQUENCE, which takes two bytes for less than 128.
    Some(match algorithm.split_first_chunk() {
        Some(([_, ..0x80], content)) => schemes(content),
        _ => &[],
    })
}

/// The schemes of the algorithms with which a verifier verifies chains.
pub(crate) fn of_verifier(
    algorithms: &[&'static dyn SignatureVerificationAlgorithm],
) -> Vec<SignatureScheme> {
    let mut all = Vec::new();
    for algorithm in algorithms {
        let id = algorithm.signature_alg_id();
        for scheme in schemes(id.as_ref()) {
            if !all.contains(scheme) {
                all.push(*scheme);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_of_the_library_but_those_after_quantum_computers_has_a_scheme() {
        for algorithm in webpki::ALL_VERIFICATION_ALGS {
            let id = algorithm.signature_alg_id();
            let ml_dsa = [alg_id::ML_DSA_44, alg_id::ML_DSA_65, alg_id::ML_DSA_87];
            assert!(ml_dsa.contains(&id) || !schemes(id.as_ref()).is_empty(), "{id:?}");
        }
        assert!(schemes(b"").is_empty());
    }
}
