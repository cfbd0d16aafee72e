//! Code points of the standards, and our own ones from private-use ranges.
//!
//! Tuning numbers are in [`crate::tuning`].

/// Declares a newtype over an IANA registry's integer with named values.
macro_rules! registry {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$vmeta:meta])* $value:ident = $number:expr),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$vmeta])* pub const $value: Self = Self($number);)*

            /// The registered name, if this crate knows it.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$value => Some(stringify!($value)),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }
    };
}

/// DTLS 1.0, which a HelloVerifyRequest still names (RFC 6347, section 4.2.1).
pub const DTLS_1_0: u16 = 0xfeff;
/// DTLS 1.2 (RFC 6347, section 4.1).
pub const DTLS_1_2: u16 = 0xfefd;
/// `legacy_version` of every DTLS 1.3 record and hello: that of DTLS 1.2 (RFC 9147, section 5.3).
pub const LEGACY_VERSION: u16 = DTLS_1_2;
/// DTLS 1.3 in `supported_versions` (RFC 9147, section 5.3).
pub const DTLS_1_3: u16 = 0xfefc;

/// `ServerHello.random` of a HelloRetryRequest: SHA-256 of "HelloRetryRequest" (RFC 8446, section
/// 4.1.3).
pub const HELLO_RETRY_REQUEST_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// The end of `ServerHello.random` if a server that supports DTLS 1.3 selects 1.2 (RFC 8446,
/// section 4.1.3).
pub const DOWNGRADE_1_2: [u8; 8] = *b"DOWNGRD\x01";

/// The end of `ServerHello.random` if a server that supports DTLS 1.2 or 1.3 selects an older
/// version (RFC 8446, section 4.1.3).
pub const DOWNGRADE_1_1: [u8; 8] = *b"DOWNGRD\x00";

/// A signalling value among the offered suites that stands for an empty `renegotiation_info` (RFC
/// 5746, section 3.3).
pub const EMPTY_RENEGOTIATION_INFO_SCSV: u16 = 0x00ff;
/// A signalling value among the offered suites: the client offers an older version than it
/// supports, after a newer one failed (RFC 7507, section 2).
pub const FALLBACK_SCSV: u16 = 0x5600;

/// The smallest limit that `record_size_limit` may state (RFC 8449, section 4).
pub const LEAST_RECORD_SIZE_LIMIT: u16 = 64;
/// `curve_type` of a named group (RFC 8422, section 5.4).
pub const NAMED_CURVE: u8 = 3;
/// The only point format in use (RFC 8422, section 5.1.2).
pub const UNCOMPRESSED_POINTS: u8 = 0;

/// The largest content of one record in bytes (RFC 8446, section 5.1).
pub const MAX_CONTENT: usize = 1 << 14;
/// Record numbers are 48 bits wide; the last one ends the epoch (RFC 9147, section 4.2.1).
pub const MAX_RECORD_NUMBER: u64 = (1 << 48) - 1;

registry! {
    /// A cipher suite of DTLS 1.3 (RFC 8446, appendix B.4), or of DTLS 1.2 if the name contains
    /// PSK or ECDHE. The name ends with the hash, which is SHA-256 if there is none.
    CipherSuiteId: u16 {
        /// TLS_PSK_WITH_AES_128_GCM_SHA256 (RFC 5487, section 2).
        PSK_WITH_AES_128_GCM_SHA256 = 0x00a8,
        /// TLS_PSK_WITH_AES_256_GCM_SHA384 (RFC 5487, section 2).
        PSK_WITH_AES_256_GCM_SHA384 = 0x00a9,
        /// TLS_PSK_WITH_NULL_SHA256, which does not encrypt (RFC 5487, section 3). Used in groups
        /// only.
        PSK_WITH_NULL_SHA256 = 0x00b0,
        /// TLS_AES_128_GCM_SHA256.
        AES_128_GCM_SHA256 = 0x1301,
        /// TLS_AES_256_GCM_SHA384.
        AES_256_GCM_SHA384 = 0x1302,
        /// TLS_CHACHA20_POLY1305_SHA256.
        CHACHA20_POLY1305_SHA256 = 0x1303,
        /// TLS_AES_128_CCM_SHA256.
        AES_128_CCM_SHA256 = 0x1304,
        /// TLS_AES_128_CCM_8_SHA256.
        AES_128_CCM_8_SHA256 = 0x1305,
        /// TLS_PSK_WITH_AES_128_CCM (RFC 6655, section 4).
        PSK_WITH_AES_128_CCM = 0xc0a4,
        /// TLS_PSK_WITH_AES_128_CCM_8 (RFC 6655, section 4).
        PSK_WITH_AES_128_CCM_8 = 0xc0a8,
        /// TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 (RFC 5289, section 3.2).
        ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 = 0xc02b,
        /// TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 (RFC 5289, section 3.2).
        ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 = 0xc02c,
        /// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 (RFC 5289, section 3.2).
        ECDHE_RSA_WITH_AES_128_GCM_SHA256 = 0xc02f,
        /// TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 (RFC 5289, section 3.2).
        ECDHE_RSA_WITH_AES_256_GCM_SHA384 = 0xc030,
        /// TLS_ECDHE_ECDSA_WITH_AES_128_CCM (RFC 7251, section 2).
        ECDHE_ECDSA_WITH_AES_128_CCM = 0xc0ac,
        /// TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8 (RFC 7251, section 2).
        ECDHE_ECDSA_WITH_AES_128_CCM_8 = 0xc0ae,
        /// TLS_SHA256_SHA256, which does not encrypt (RFC 9150, section 4).
        SHA256_SHA256 = 0xc0b4,
        /// TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 (RFC 7905, section 3).
        ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 = 0xcca8,
        /// TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 (RFC 7905, section 3).
        ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 = 0xcca9,
        /// TLS_PSK_WITH_CHACHA20_POLY1305_SHA256 (RFC 7905, section 3).
        PSK_WITH_CHACHA20_POLY1305_SHA256 = 0xccab,
        /// TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256 (RFC 8442, section 3).
        ECDHE_PSK_WITH_AES_128_GCM_SHA256 = 0xd001,
        /// TLS_ECDHE_PSK_WITH_AES_256_GCM_SHA384 (RFC 8442, section 3).
        ECDHE_PSK_WITH_AES_256_GCM_SHA384 = 0xd002,
        /// TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256 (RFC 8442, section 3).
        ECDHE_PSK_WITH_AES_128_CCM_8_SHA256 = 0xd003,
        /// AES-128-CTR with LightMAC, from TLS's private-use range.
        AES_128_CTR_LIGHTMAC_SHA256 = 0xff01,
        /// AES-128-CTR with LightMAC and 8-byte tags, from TLS's private-use range. Used in groups
        /// only.
        AES_128_CTR_LIGHTMAC_8_SHA256 = 0xff02,
    }
}

registry! {
    /// A key exchange group (RFC 8446, section 4.2.7).
    NamedGroup: u16 {
        /// NIST P-256 (secp256r1).
        P256 = 23,
        /// NIST P-384 (secp384r1).
        P384 = 24,
        /// X25519.
        X25519 = 29,
        /// ML-KEM-768 alone.
        MLKEM768 = 0x0201,
        /// X25519 with ML-KEM-768 (RFC 10024).
        X25519_MLKEM768 = 0x11ec,
    }
}

registry! {
    /// A record's content type (RFC 8446, section 5.1; RFC 9147, section 4.1).
    ContentType: u8 {
        /// The sender's next record is protected; DTLS 1.2 only (RFC 5246, section 7.1).
        CHANGE_CIPHER_SPEC = 20,
        /// Warnings, errors and the end of an association.
        ALERT = 21,
        /// Handshake messages.
        HANDSHAKE = 22,
        /// Payloads of the application.
        APPLICATION_DATA = 23,
        /// A protected record of DTLS 1.2 with a connection ID; the actual content type is inside
        /// (RFC 9146, section 4).
        TLS12_CID = 25,
        /// Acknowledged record numbers (RFC 9147, section 7).
        ACK = 26,
        /// Path messages of return routability checks (RFC 9853, section 4).
        RETURN_ROUTABILITY_CHECK = 27,
        /// Private use: a closing tag over the records of an unfinished aggregate.
        AGGREGATE_TAG = 0xe0,
        /// Private use: the loss a receiver of aggregated records observes.
        LOSS_REPORT = 0xe1,
        /// Private use: the end of an epoch that an AggregationUpdate replaced.
        EPOCH_END = 0xe2,
        /// Private use, in plaintext: the sender received a record of an association that it does
        /// not know.
        UNKNOWN_ASSOCIATION = 0xe3,
    }
}

registry! {
    /// A handshake message's type (RFC 8446, section 4; RFC 5246, section 7.4).
    HandshakeType: u8 {
        /// A server's request to renegotiate; DTLS 1.2 only.
        HELLO_REQUEST = 0,
        /// The client's first flight.
        CLIENT_HELLO = 1,
        /// The server's choice, or a HelloRetryRequest.
        SERVER_HELLO = 2,
        /// A server's cookie; DTLS 1.2 only (RFC 6347, section 4.2.1).
        HELLO_VERIFY_REQUEST = 3,
        /// A resumption ticket.
        NEW_SESSION_TICKET = 4,
        /// The server's extensions that are not needed for the key exchange.
        ENCRYPTED_EXTENSIONS = 8,
        /// Requests connection IDs (RFC 9147, section 9).
        REQUEST_CONNECTION_ID = 9,
        /// New connection IDs for the records that the receiver sends (RFC 9147, section 9).
        NEW_CONNECTION_ID = 10,
        /// The sender's certificates, or its raw public key (RFC 8446, section 4.4.2).
        CERTIFICATE = 11,
        /// The server's part of a key exchange; DTLS 1.2 only.
        SERVER_KEY_EXCHANGE = 12,
        /// A server's request that the client authenticates itself (RFC 8446, section 4.3.2).
        CERTIFICATE_REQUEST = 13,
        /// The end of the server's first flight; DTLS 1.2 only.
        SERVER_HELLO_DONE = 14,
        /// Proves that the sender has the private key to its certificate (RFC 8446, section 4.4.3).
        CERTIFICATE_VERIFY = 15,
        /// The client's part of a key exchange; DTLS 1.2 only.
        CLIENT_KEY_EXCHANGE = 16,
        /// Proves that the sender has the handshake's keys.
        FINISHED = 20,
        /// Announces the sender's next keys.
        KEY_UPDATE = 24,
        /// A compressed Certificate message (RFC 8879, section 4).
        COMPRESSED_CERTIFICATE = 25,
        /// The aggregation scheme for the receiver's next keys. The number is not registered,
        /// because message types have no private-use range.
        AGGREGATION_UPDATE = 0xe0,
        /// Replaces the first ClientHello in the transcript after a HelloRetryRequest; never sent.
        MESSAGE_HASH = 254,
    }
}

registry! {
    /// An extension's type (RFC 8446, section 4.2).
    ExtensionType: u16 {
        /// The name of the server that the client wants (RFC 6066, section 3).
        SERVER_NAME = 0,
        /// The longest record content, one of four lengths (RFC 6066, section 4).
        MAX_FRAGMENT_LENGTH = 1,
        /// Groups for the key exchange.
        SUPPORTED_GROUPS = 10,
        /// Encodings of points; DTLS 1.2 only (RFC 8422, section 5.1.2).
        EC_POINT_FORMATS = 11,
        /// Signature schemes of handshake messages (RFC 8446, section 4.2.3).
        SIGNATURE_ALGORITHMS = 13,
        /// The protocols of the application (RFC 7301).
        APPLICATION_LAYER_PROTOCOL_NEGOTIATION = 16,
        /// The kind of the client's certificate (RFC 7250, section 3).
        CLIENT_CERTIFICATE_TYPE = 19,
        /// The kind of the server's certificate (RFC 7250, section 3).
        SERVER_CERTIFICATE_TYPE = 20,
        /// A MAC over the ciphertext, for CBC suites of DTLS 1.2 (RFC 7366).
        ENCRYPT_THEN_MAC = 22,
        /// A master secret that is bound to the whole handshake; DTLS 1.2 only (RFC 7627, section
        /// 5.1).
        EXTENDED_MASTER_SECRET = 23,
        /// Algorithms for the compression of certificates (RFC 8879, section 3).
        COMPRESS_CERTIFICATE = 27,
        /// The longest record that its sender accepts (RFC 8449, section 4).
        RECORD_SIZE_LIMIT = 28,
        /// Resumption without state at the server; DTLS 1.2 only (RFC 5077, section 3.2).
        SESSION_TICKET = 35,
        /// The offered PSK identities, or the chosen one; always last in a ClientHello.
        PRE_SHARED_KEY = 41,
        /// Data before the server's first flight (RFC 8446, section 4.2.10).
        EARLY_DATA = 42,
        /// Protocol versions.
        SUPPORTED_VERSIONS = 43,
        /// A stateless server's state.
        COOKIE = 44,
        /// The offered PSK key exchange modes.
        PSK_KEY_EXCHANGE_MODES = 45,
        /// Names of certificate authorities that the sender trusts (RFC 8446, section 4.2.4).
        CERTIFICATE_AUTHORITIES = 47,
        /// Signature schemes in certificates (RFC 8446, section 4.2.3).
        SIGNATURE_ALGORITHMS_CERT = 50,
        /// Public keys of the key exchange.
        KEY_SHARE = 51,
        /// The connection ID that its sender wants in the records that it receives (RFC 9146,
        /// section 3).
        CONNECTION_ID = 54,
        /// Support for return routability checks (RFC 9853, section 3).
        RETURN_ROUTABILITY_CHECK = 61,
        /// MAC aggregation, in TLS's private-use range.
        MAC_AGGREGATION = 0xff64,
        /// MAC aggregation, with the number that the MAC aggregation paper proposes.
        MAC_AGGREGATION_PAPER = 0x0064,
        /// The handshake that a renegotiation follows; empty in the first handshake (RFC 5746,
        /// section 3.2).
        RENEGOTIATION_INFO = 0xff01,
    }
}

registry! {
    /// An algorithm that compresses certificates (RFC 8879, section 7.3).
    CertificateCompressionAlgorithm: u16 {
        /// zlib (RFC 1950).
        ZLIB = 1,
        /// Brotli (RFC 7932).
        BROTLI = 2,
        /// Zstandard (RFC 8878).
        ZSTD = 3,
    }
}

registry! {
    /// An alert's description (RFC 8446, section 6).
    AlertDescription: u8 {
        /// The sender will send no more data.
        CLOSE_NOTIFY = 0,
        /// A message came out of order.
        UNEXPECTED_MESSAGE = 10,
        /// Authentication failed.
        BAD_RECORD_MAC = 20,
        /// A record was longer than allowed.
        RECORD_OVERFLOW = 22,
        /// A record that does not decompress; DTLS 1.2 only (RFC 5246, section 7.2.2).
        DECOMPRESSION_FAILURE = 30,
        /// There are no parameters that both ends accept.
        HANDSHAKE_FAILURE = 40,
        /// A certificate that is damaged, or whose signature does not verify.
        BAD_CERTIFICATE = 42,
        /// A certificate of an unsupported kind.
        UNSUPPORTED_CERTIFICATE = 43,
        /// A certificate that its issuer revoked.
        CERTIFICATE_REVOKED = 44,
        /// A certificate that is not valid at this time.
        CERTIFICATE_EXPIRED = 45,
        /// A certificate that is not acceptable for another reason.
        CERTIFICATE_UNKNOWN = 46,
        /// A field contradicts others, or is not allowed.
        ILLEGAL_PARAMETER = 47,
        /// A certificate that no trusted authority issued.
        UNKNOWN_CA = 48,
        /// The peer is authenticated but not authorised.
        ACCESS_DENIED = 49,
        /// Bytes that do not parse.
        DECODE_ERROR = 50,
        /// A binder or Finished that does not verify.
        DECRYPT_ERROR = 51,
        /// More connection IDs were requested than are granted (RFC 9147, section 9).
        TOO_MANY_CIDS_REQUESTED = 52,
        /// There is no common version.
        PROTOCOL_VERSION = 70,
        /// All offered parameters are weaker than the sender accepts.
        INSUFFICIENT_SECURITY = 71,
        /// An error of the sender.
        INTERNAL_ERROR = 80,
        /// An older version than both ends support (RFC 7507, section 3).
        INAPPROPRIATE_FALLBACK = 86,
        /// The user cancelled the handshake.
        USER_CANCELED = 90,
        /// The sender will not renegotiate; DTLS 1.2 only (RFC 5246, section 7.2.2).
        NO_RENEGOTIATION = 100,
        /// A mandatory extension is missing.
        MISSING_EXTENSION = 109,
        /// An extension is present that is not allowed.
        UNSUPPORTED_EXTENSION = 110,
        /// The server has no such name (RFC 6066, section 3).
        UNRECOGNIZED_NAME = 112,
        /// No offered PSK identity is known.
        UNKNOWN_PSK_IDENTITY = 115,
        /// The client sent no certificate, but the server needs one.
        CERTIFICATE_REQUIRED = 116,
        /// The server speaks none of the application protocols that the client offers (RFC 7301).
        NO_APPLICATION_PROTOCOL = 120,
    }
}

registry! {
    /// A signature scheme (RFC 8446, section 4.2.3). In DTLS 1.2 a scheme names the hash and the
    /// kind of key, but not the curve (RFC 5246, section 7.4.1.4.1).
    SignatureScheme: u16 {
        /// RSASSA-PKCS1-v1_5 with SHA-256; in DTLS 1.3 only in certificates.
        RSA_PKCS1_SHA256 = 0x0401,
        /// RSASSA-PKCS1-v1_5 with SHA-384; in DTLS 1.3 only in certificates.
        RSA_PKCS1_SHA384 = 0x0501,
        /// RSASSA-PKCS1-v1_5 with SHA-512; in DTLS 1.3 only in certificates.
        RSA_PKCS1_SHA512 = 0x0601,
        /// ECDSA over P-256 with SHA-256.
        ECDSA_SECP256R1_SHA256 = 0x0403,
        /// ECDSA over P-384 with SHA-384.
        ECDSA_SECP384R1_SHA384 = 0x0503,
        /// RSASSA-PSS with SHA-256 and a key for any RSA scheme.
        RSA_PSS_RSAE_SHA256 = 0x0804,
        /// RSASSA-PSS with SHA-384 and a key for any RSA scheme.
        RSA_PSS_RSAE_SHA384 = 0x0805,
        /// RSASSA-PSS with SHA-512 and a key for any RSA scheme.
        RSA_PSS_RSAE_SHA512 = 0x0806,
        /// Ed25519.
        ED25519 = 0x0807,
    }
}

registry! {
    /// What a Certificate message contains (RFC 7250, section 3).
    CertificateType: u8 {
        /// A chain of X.509 certificates.
        X509 = 0,
        /// A SubjectPublicKeyInfo alone.
        RAW_PUBLIC_KEY = 2,
    }
}

registry! {
    /// A kind of key with which a client of DTLS 1.2 may sign (RFC 5246, section 7.4.4).
    ClientCertificateType: u8 {
        /// RSA.
        RSA_SIGN = 1,
        /// ECDSA (RFC 8422, section 5.5), and EdDSA (section 5.10).
        ECDSA_SIGN = 64,
    }
}

registry! {
    /// A PSK key exchange mode (RFC 8446, section 4.2.9).
    PskKeyExchangeMode: u8 {
        /// The PSK alone: no forward secrecy.
        PSK_KE = 0,
        /// The PSK with an (EC)DHE key exchange.
        PSK_DHE_KE = 1,
    }
}

/// Identifier of plain tags in the aggregation extension. The identifiers of other schemes (MAC
/// aggregation paper, Table I) are also part of their keys:
/// [`Scheme::context`](lightseal_aggregation::Scheme::context).
pub const SCHEME_NONE: u8 = 0x00;
/// The smallest identifier of schemes whose parameters are preceded by a length byte, so that
/// unknown schemes can be skipped.
pub const SCHEME_SELF_DESCRIBING: u8 = 0x80;
