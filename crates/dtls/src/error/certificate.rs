//! Why a peer's certificate is not accepted.

use crate::codepoints::AlertDescription;
use core::fmt;
use lightseal_core::{Text, text};

/// Why a certificate or raw public key is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadCertificate {
    /// It does not parse.
    Malformed,
    /// A signature in the chain does not verify.
    Signature,
    /// An algorithm or a critical extension is not supported.
    Unsupported,
    /// No trusted authority issued it.
    UnknownIssuer,
    /// A raw public key that is not among the accepted ones.
    UnknownKey,
    /// It is not valid any more.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// Its issuer revoked it.
    Revoked,
    /// Whether it is revoked is not known, though the configuration requires that.
    UnknownRevocation,
    /// It is for another name.
    WrongName,
    /// It is not for this purpose.
    WrongPurpose,
    /// An authority in the chain was not allowed to issue it: by a constraint of names or of the
    /// length of the chain, or because the issuer is no authority.
    Constraint,
    /// The chain has more certificates or bytes, or takes more work to check, than this end allows.
    TooLong,
    /// This end has no clock, so that it cannot check when the certificate is valid.
    NoClock,
    /// This end's clock shows a time before the program was built.
    ClockBeforeBuild,
    /// Another reason.
    Other(Text),
}

impl BadCertificate {
    /// Another reason, in words, of which a build without the feature `texts` keeps nothing.
    pub const fn other(why: &'static str) -> Self {
        Self::Other(text(why))
    }

    /// The alert that reports the reason to the peer (RFC 8446, section 6.2).
    pub const fn alert(self) -> AlertDescription {
        match self {
            Self::Malformed | Self::Signature => AlertDescription::BAD_CERTIFICATE,
            Self::Unsupported | Self::WrongPurpose => AlertDescription::UNSUPPORTED_CERTIFICATE,
            Self::UnknownIssuer => AlertDescription::UNKNOWN_CA,
            Self::Expired | Self::NotYetValid => AlertDescription::CERTIFICATE_EXPIRED,
            Self::Revoked => AlertDescription::CERTIFICATE_REVOKED,
            Self::UnknownKey
            | Self::UnknownRevocation
            | Self::WrongName
            | Self::Constraint
            | Self::TooLong
            | Self::Other(_) => AlertDescription::CERTIFICATE_UNKNOWN,
            Self::NoClock | Self::ClockBeforeBuild => AlertDescription::INTERNAL_ERROR,
        }
    }
}

impl fmt::Display for BadCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the peer's certificate does not parse",
            Self::Signature => "a signature in the peer's certificates does not verify",
            Self::Unsupported => {
                "the peer's certificate uses an unsupported algorithm or extension"
            }
            Self::UnknownIssuer => "no trusted authority issued the peer's certificate",
            Self::UnknownKey => "the peer's public key is not among the accepted ones",
            Self::Expired => "the peer's certificate has expired",
            Self::NotYetValid => "the peer's certificate is not valid yet",
            Self::Revoked => "the peer's certificate was revoked",
            Self::UnknownRevocation => {
                "no revocation list in force covers the peer's certificate and its authorities"
            }
            Self::WrongName => "the peer's certificate is for another name",
            Self::WrongPurpose => "the peer's certificate is for another purpose",
            Self::Constraint => "an authority was not allowed to issue the peer's certificate",
            Self::TooLong => "the peer's chain of certificates is longer than this end allows",
            Self::NoClock => "no clock to check the peer's certificate with",
            Self::ClockBeforeBuild => "the clock shows a time before this program was built",
            Self::Other(why) => return why.fmt(f),
        })
    }
}

impl core::error::Error for BadCertificate {}
