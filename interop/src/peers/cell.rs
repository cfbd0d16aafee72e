//! The parameters of a meeting of two peers.

use std::fmt;

/// The identity that every peer is given.
pub const IDENTITY: &str = "Client_identity";
/// The pre-shared key that every peer is given, in hex: 16 bytes, which all of them accept.
pub const KEY_HEX: &str = "9f3c6a1e0b7d4258c4e1a2f06b8d3975";
/// The length in bytes of every connection ID that is asked for.
pub const CID_BYTES: usize = 6;

/// The protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// DTLS 1.2 (RFC 6347).
    Dtls12,
    /// DTLS 1.3 (RFC 9147).
    Dtls13,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dtls12 => "1.2",
            Self::Dtls13 => "1.3",
        })
    }
}

/// A cipher suite. In DTLS 1.3 the PSK key exchange mode, which is not part of the suite, is
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// TLS_PSK_WITH_AES_128_CCM_8 (RFC 6655).
    PskCcm8,
    /// TLS_PSK_WITH_AES_128_CCM (RFC 6655).
    PskCcm,
    /// TLS_PSK_WITH_AES_128_GCM_SHA256 (RFC 5487).
    PskGcm,
    /// TLS_PSK_WITH_CHACHA20_POLY1305_SHA256 (RFC 7905).
    PskChacha,
    /// TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256 (RFC 8442).
    EcdhePskGcm,
    /// TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256 (RFC 8442).
    EcdhePskCcm8,
    /// `psk_ke` with TLS_AES_128_CCM_8_SHA256.
    KeCcm8,
    /// `psk_ke` with TLS_AES_128_CCM_SHA256.
    KeCcm,
    /// `psk_ke` with TLS_AES_128_GCM_SHA256.
    KeGcm,
    /// `psk_ke` with TLS_CHACHA20_POLY1305_SHA256.
    KeChacha,
    /// `psk_ke` with TLS_SHA256_SHA256 (RFC 9150), which does not encrypt.
    KeSha256,
    /// `psk_dhe_ke` with TLS_AES_128_CCM_8_SHA256.
    DheKeCcm8,
    /// `psk_dhe_ke` with TLS_AES_128_CCM_SHA256.
    DheKeCcm,
    /// `psk_dhe_ke` with TLS_AES_128_GCM_SHA256.
    DheKeGcm,
    /// `psk_dhe_ke` with TLS_CHACHA20_POLY1305_SHA256.
    DheKeChacha,
    /// `psk_dhe_ke` with TLS_SHA256_SHA256 (RFC 9150), which does not encrypt.
    DheKeSha256,
    /// TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 (RFC 5289).
    EcdsaGcm,
    /// TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 (RFC 5289).
    EcdsaGcm256,
    /// TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 (RFC 7905).
    EcdsaChacha,
    /// TLS_ECDHE_ECDSA_WITH_AES_128_CCM (RFC 7251).
    EcdsaCcm,
    /// TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8 (RFC 7251).
    EcdsaCcm8,
    /// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 (RFC 5289).
    RsaGcm,
    /// TLS_AES_128_GCM_SHA256 without a PSK.
    Gcm,
    /// TLS_AES_256_GCM_SHA384 without a PSK.
    Gcm256,
    /// TLS_CHACHA20_POLY1305_SHA256 without a PSK.
    Chacha,
    /// TLS_AES_128_CCM_SHA256 without a PSK.
    Ccm,
    /// TLS_AES_128_CCM_8_SHA256 without a PSK.
    Ccm8,
}

impl Suite {
    /// Every suite with a PSK.
    pub const WITH_PSK: [Self; 16] = [
        Self::PskCcm8,
        Self::PskCcm,
        Self::PskGcm,
        Self::PskChacha,
        Self::EcdhePskGcm,
        Self::EcdhePskCcm8,
        Self::KeCcm8,
        Self::KeCcm,
        Self::KeGcm,
        Self::KeChacha,
        Self::KeSha256,
        Self::DheKeCcm8,
        Self::DheKeCcm,
        Self::DheKeGcm,
        Self::DheKeChacha,
        Self::DheKeSha256,
    ];

    /// Every suite with certificates or raw public keys.
    pub const CERTIFIED: [Self; 11] = [
        Self::EcdsaGcm,
        Self::EcdsaGcm256,
        Self::EcdsaChacha,
        Self::EcdsaCcm,
        Self::EcdsaCcm8,
        Self::RsaGcm,
        Self::Gcm,
        Self::Gcm256,
        Self::Chacha,
        Self::Ccm,
        Self::Ccm8,
    ];

    /// Every suite.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::WITH_PSK.into_iter().chain(Self::CERTIFIED)
    }

    /// The suite's name at IANA. In DTLS 1.3 the name of the key exchange mode precedes it, if it has
    /// a PSK.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PskCcm8 => "TLS_PSK_WITH_AES_128_CCM_8",
            Self::PskCcm => "TLS_PSK_WITH_AES_128_CCM",
            Self::PskGcm => "TLS_PSK_WITH_AES_128_GCM_SHA256",
            Self::PskChacha => "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256",
            Self::EcdhePskGcm => "TLS_ECDHE_PSK_WITH_AES_128_GCM_SHA256",
            Self::EcdhePskCcm8 => "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256",
            Self::KeCcm8 => "psk_ke/TLS_AES_128_CCM_8_SHA256",
            Self::KeCcm => "psk_ke/TLS_AES_128_CCM_SHA256",
            Self::KeGcm => "psk_ke/TLS_AES_128_GCM_SHA256",
            Self::KeChacha => "psk_ke/TLS_CHACHA20_POLY1305_SHA256",
            Self::KeSha256 => "psk_ke/TLS_SHA256_SHA256",
            Self::DheKeCcm8 => "psk_dhe_ke/TLS_AES_128_CCM_8_SHA256",
            Self::DheKeCcm => "psk_dhe_ke/TLS_AES_128_CCM_SHA256",
            Self::DheKeGcm => "psk_dhe_ke/TLS_AES_128_GCM_SHA256",
            Self::DheKeChacha => "psk_dhe_ke/TLS_CHACHA20_POLY1305_SHA256",
            Self::DheKeSha256 => "psk_dhe_ke/TLS_SHA256_SHA256",
            Self::EcdsaGcm => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            Self::EcdsaGcm256 => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            Self::EcdsaChacha => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            Self::EcdsaCcm => "TLS_ECDHE_ECDSA_WITH_AES_128_CCM",
            Self::EcdsaCcm8 => "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8",
            Self::RsaGcm => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            Self::Gcm => "TLS_AES_128_GCM_SHA256",
            Self::Gcm256 => "TLS_AES_256_GCM_SHA384",
            Self::Chacha => "TLS_CHACHA20_POLY1305_SHA256",
            Self::Ccm => "TLS_AES_128_CCM_SHA256",
            Self::Ccm8 => "TLS_AES_128_CCM_8_SHA256",
        }
    }

    /// The suite with this [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|suite| suite.name() == name)
    }

    /// The code point.
    pub const fn code(self) -> u16 {
        match self {
            Self::PskCcm8 => 0xc0a8,
            Self::PskCcm => 0xc0a4,
            Self::PskGcm => 0x00a8,
            Self::PskChacha => 0xccab,
            Self::EcdhePskGcm => 0xd001,
            Self::EcdhePskCcm8 => 0xd003,
            Self::EcdsaGcm => 0xc02b,
            Self::EcdsaGcm256 => 0xc02c,
            Self::EcdsaChacha => 0xcca9,
            Self::EcdsaCcm => 0xc0ac,
            Self::EcdsaCcm8 => 0xc0ae,
            Self::RsaGcm => 0xc02f,
            Self::KeGcm | Self::DheKeGcm | Self::Gcm => 0x1301,
            Self::Gcm256 => 0x1302,
            Self::KeChacha | Self::DheKeChacha | Self::Chacha => 0x1303,
            Self::KeCcm | Self::DheKeCcm | Self::Ccm => 0x1304,
            Self::KeCcm8 | Self::DheKeCcm8 | Self::Ccm8 => 0x1305,
            Self::KeSha256 | Self::DheKeSha256 => 0xc0b4,
        }
    }

    /// The protocol version that it belongs to.
    pub const fn version(self) -> Version {
        match self.code() {
            0x1301..=0x1305 | 0xc0b4 => Version::Dtls13,
            _ => Version::Dtls12,
        }
    }

    /// Whether a Diffie-Hellman exchange contributes to the keys.
    pub const fn is_ephemeral(self) -> bool {
        !matches!(
            self,
            Self::PskCcm8
                | Self::PskCcm
                | Self::PskGcm
                | Self::PskChacha
                | Self::KeCcm8
                | Self::KeCcm
                | Self::KeGcm
                | Self::KeChacha
                | Self::KeSha256
        )
    }
}

/// What the ends prove their identity with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A pre-shared key.
    Psk,
    /// A raw public key for ECDSA with P-256 (RFC 7250).
    RawKey,
    /// A certificate with a key for ECDSA with P-256.
    EcdsaP256,
    /// A certificate with a key for ECDSA with P-384.
    EcdsaP384,
    /// A certificate with an Ed25519 key.
    Ed25519,
    /// A certificate with an RSA key of 2048 bits.
    Rsa,
}

impl Credential {
    /// Every credential but the pre-shared key.
    pub const CERTIFIED: [Self; 5] =
        [Self::EcdsaP256, Self::EcdsaP384, Self::Ed25519, Self::Rsa, Self::RawKey];

    /// The name in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Psk => "psk",
            Self::RawKey => "raw-key",
            Self::EcdsaP256 => "ecdsa-p256",
            Self::EcdsaP384 => "ecdsa-p384",
            Self::Ed25519 => "ed25519",
            Self::Rsa => "rsa",
        }
    }

    /// The credential with this [`word`](Self::word).
    pub fn named(word: &str) -> Option<Self> {
        [Self::Psk].into_iter().chain(Self::CERTIFIED).find(|credential| credential.word() == word)
    }

    /// The first suite of a version for this credential.
    pub const fn first_suite(self, version: Version) -> Suite {
        match (version, self) {
            (Version::Dtls12, Self::Psk) => Suite::PskCcm8,
            (Version::Dtls13, Self::Psk) => Suite::DheKeCcm8,
            (Version::Dtls12, Self::Rsa) => Suite::RsaGcm,
            (Version::Dtls12, _) => Suite::EcdsaGcm,
            (Version::Dtls13, _) => Suite::Gcm,
        }
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Psk => "PSK",
            Self::RawKey => "raw key P-256",
            Self::EcdsaP256 => "ECDSA P-256",
            Self::EcdsaP384 => "ECDSA P-384",
            Self::Ed25519 => "Ed25519",
            Self::Rsa => "RSA",
        })
    }
}

/// A key exchange group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// X25519.
    X25519,
    /// secp256r1.
    P256,
    /// secp384r1.
    P384,
    /// X25519MLKEM768, of DTLS 1.3 alone.
    X25519MlKem768,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 4] = [Self::X25519, Self::P256, Self::P384, Self::X25519MlKem768];

    /// The name at IANA.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::P256 => "secp256r1",
            Self::P384 => "secp384r1",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }

    /// The group with this [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// The code point.
    pub const fn code(self) -> u16 {
        match self {
            Self::X25519 => 0x001d,
            Self::P256 => 0x0017,
            Self::P384 => 0x0018,
            Self::X25519MlKem768 => 0x11ec,
        }
    }

    /// The group whose share a client sends first if it is to be asked for this one.
    #[must_use]
    pub const fn decoy(self) -> Self {
        match self {
            Self::P256 => Self::X25519,
            _ => Self::P256,
        }
    }
}

/// Which records carry a connection ID. Each peer asks for those that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cid {
    /// No records: neither end offers the extension.
    None,
    /// Records to the server.
    ToServer,
    /// Records to the client.
    ToClient,
    /// Records in both directions.
    BothEnds,
}

impl Cid {
    /// Every choice.
    pub const ALL: [Self; 4] = [Self::None, Self::ToServer, Self::ToClient, Self::BothEnds];

    /// The length that `role` asks for in bytes. `None` does not offer the extension; `Some(0)`
    /// sends with the other end's connection ID but receives without one.
    pub const fn of(self, role: Role) -> Option<usize> {
        match (self, role) {
            (Self::None, _) => None,
            (Self::ToServer, Role::Server)
            | (Self::ToClient, Role::Client)
            | (Self::BothEnds, _) => Some(CID_BYTES),
            _ => Some(0),
        }
    }

    /// Whether records to `role` carry a connection ID.
    pub fn reaches(self, role: Role) -> bool {
        self.of(role).is_some_and(|bytes| bytes > 0)
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::ToServer => "to the server",
            Self::ToClient => "to the client",
            Self::BothEnds => "both ways",
        })
    }
}

/// The role of an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client, which sends the first message.
    Client,
    /// The server.
    Server,
}

impl Role {
    /// The two roles.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The role of the other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// The network between two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// No impairment.
    Good,
    /// Loss, duplicates and reordering.
    Lossy,
    /// A NAT that gives the client another port after payloads have gone in both directions.
    Rebinding,
}

impl Network {
    /// The name in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Lossy => "lossy",
            Self::Rebinding => "rebinding",
        }
    }
}

/// The parameters that two peers have to agree on, and the network between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The only suite offered and accepted.
    pub suite: Suite,
    /// What the peer proves its identity with; our end has the same.
    pub credential: Credential,
    /// The only group that the server has. The client offers no other, unless it is to be asked again.
    pub group: Group,
    /// Whether the client has a certificate or raw public key as well, which the server requires.
    pub mutual: bool,
    /// Whether the client's first share is for a group that the server does not have, so that a DTLS
    /// 1.3 server asks for another one with a HelloRetryRequest.
    pub retried: bool,
    /// Whether the client connects again with the session of its first connection.
    pub resumed: bool,
    /// The use of connection IDs.
    pub cid: Cid,
    /// The network.
    pub network: Network,
    /// Whether our end puts only one handshake message in each record, for a peer that reads no
    /// further: [`Peer::reads_first_message_only`](super::Peer::reads_first_message_only).
    pub single: bool,
}

impl Cell {
    /// The suite with a PSK, without connection IDs on a good network.
    pub const fn plain(suite: Suite) -> Self {
        Self {
            suite,
            credential: Credential::Psk,
            group: Group::X25519,
            mutual: false,
            retried: false,
            resumed: false,
            cid: Cid::None,
            network: Network::Good,
            single: false,
        }
    }

    /// A certificate or raw public key of the server, without connection IDs on a good network.
    pub const fn certified(suite: Suite, credential: Credential, group: Group) -> Self {
        Self { credential, group, ..Self::plain(suite) }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suite.name())?;
        if self.credential != Credential::Psk {
            write!(f, ", {}, {}", self.credential, self.group.name())?;
        }
        f.write_str(if self.mutual { ", client authentication" } else { "" })?;
        f.write_str(if self.retried { ", HelloRetryRequest" } else { "" })?;
        f.write_str(if self.resumed { ", resumption" } else { "" })?;
        write!(f, ", CID {}", self.cid)?;
        f.write_str(match self.network {
            Network::Good => "",
            Network::Lossy => ", with loss",
            Network::Rebinding => ", behind a NAT that rebinds",
        })
    }
}
