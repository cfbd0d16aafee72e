//! The reasons of rustls-webpki in the engine's words.

use lightseal_dtls::BadCertificate;
use webpki::Error;

/// Why a certificate is not accepted. Each reason that concerns a revocation list says that the
/// status of the certificate is unknown.
pub(crate) fn reason(error: Error) -> BadCertificate {
    match error {
        Error::CertExpired { .. } => BadCertificate::Expired,
        Error::CertNotValidYet { .. } => BadCertificate::NotYetValid,
        Error::CertNotValidForName(_) | Error::UnsupportedNameType => BadCertificate::WrongName,
        Error::CertRevoked => BadCertificate::Revoked,
        Error::CertDistrusted => BadCertificate::other("the peer's key is known to be compromised"),
        Error::InvalidSignatureForPublicKey => BadCertificate::Signature,
        Error::UnknownIssuer => BadCertificate::UnknownIssuer,
        Error::CaUsedAsEndEntity | Error::RequiredEkuNotFoundContext(_) => {
            BadCertificate::WrongPurpose
        }
        Error::EndEntityUsedAsCa
        | Error::NameConstraintViolation
        | Error::PathLenConstraintViolated => BadCertificate::Constraint,
        Error::MaximumNameConstraintComparisonsExceeded
        | Error::MaximumPathBuildCallsExceeded
        | Error::MaximumPathDepthExceeded
        | Error::MaximumSignatureChecksExceeded => BadCertificate::TooLong,
        Error::CrlExpired { .. }
        | Error::InvalidCrlNumber
        | Error::InvalidCrlSignatureForPublicKey
        | Error::IssuerNotCrlSigner
        | Error::UnknownRevocationStatus
        | Error::UnsupportedCrlIssuingDistributionPoint
        | Error::UnsupportedCrlSignatureAlgorithmContext(_)
        | Error::UnsupportedCrlSignatureAlgorithmForPublicKeyContext(_)
        | Error::UnsupportedCrlVersion
        | Error::UnsupportedDeltaCrl
        | Error::UnsupportedIndirectCrl
        | Error::UnsupportedRevocationReason
        | Error::UnsupportedRevocationReasonsPartitioning => BadCertificate::UnknownRevocation,
        Error::UnsupportedCertVersion
        | Error::UnsupportedCriticalExtension
        | Error::UnsupportedSignatureAlgorithmContext(_)
        | Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => BadCertificate::Unsupported,
        Error::BadDer
        | Error::BadDerTime
        | Error::EmptyEkuExtension
        | Error::ExtensionValueInvalid
        | Error::InvalidCertValidity
        | Error::InvalidNetworkMaskConstraint
        | Error::InvalidSerialNumber
        | Error::MalformedDnsIdentifier
        | Error::MalformedExtensions
        | Error::MalformedNameConstraint
        | Error::SignatureAlgorithmMismatch
        | Error::TrailingData(_) => BadCertificate::Malformed,
        // The library marks its errors as growing.
        _ => BadCertificate::other("the peer's certificate is not acceptable"),
    }
}
