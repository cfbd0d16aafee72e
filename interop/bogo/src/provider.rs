//! The cryptography of the cases: AWS-LC, with the signatures of all certificates in the suite.

use lightseal_dtls::codepoints::SignatureScheme;
use lightseal_dtls::crypto::{Provider, SignatureAlgorithm, SignatureAnswer};
use lightseal_dtls_aws_lc::PROVIDER as AWS_LC;
use pki_types::SignatureVerificationAlgorithm;
use webpki::aws_lc_rs as algorithms;

/// AWS-LC with RSA beside its own signatures.
pub(crate) static PROVIDER: Provider = Provider::new("AWS-LC")
    .with_suites(AWS_LC.suites)
    .with_suites_12(AWS_LC.suites_12)
    .with_groups(AWS_LC.groups)
    .with_signatures(SIGNATURES);

type Algorithms = &'static [&'static dyn SignatureVerificationAlgorithm];

/// BoringSSL's own order.
static SIGNATURES: &[&SignatureAlgorithm] = &[
    &scheme(0x0403, "ecdsa_secp256r1_sha256", true, &[algorithms::ECDSA_P256_SHA256]),
    &scheme(
        0x0804,
        "rsa_pss_rsae_sha256",
        true,
        &[algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY],
    ),
    &scheme(0x0401, "rsa_pkcs1_sha256", false, &[algorithms::RSA_PKCS1_2048_8192_SHA256]),
    &scheme(0x0503, "ecdsa_secp384r1_sha384", true, &[algorithms::ECDSA_P384_SHA384]),
    &scheme(
        0x0805,
        "rsa_pss_rsae_sha384",
        true,
        &[algorithms::RSA_PSS_2048_8192_SHA384_LEGACY_KEY],
    ),
    &scheme(0x0501, "rsa_pkcs1_sha384", false, &[algorithms::RSA_PKCS1_2048_8192_SHA384]),
    &scheme(
        0x0806,
        "rsa_pss_rsae_sha512",
        true,
        &[algorithms::RSA_PSS_2048_8192_SHA512_LEGACY_KEY],
    ),
    &scheme(0x0601, "rsa_pkcs1_sha512", false, &[algorithms::RSA_PKCS1_2048_8192_SHA512]),
    &scheme(0x0807, "ed25519", true, &[algorithms::ED25519]),
];

const fn scheme(
    code: u16,
    name: &'static str,
    signs_handshakes_13: bool,
    algorithms: Algorithms,
) -> SignatureAlgorithm {
    // The self-test of the provider itself has real ones.
    let known_answer = SignatureAnswer { private_key: &[], public_key: &[], signature: &[] };
    let scheme = SignatureScheme(code);
    SignatureAlgorithm { scheme, name, algorithms, signs_handshakes_13, known_answer }
}
