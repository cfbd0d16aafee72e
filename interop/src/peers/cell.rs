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
}

impl Suite {
    /// Every suite.
    pub const ALL: [Self; 16] = [
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

    /// The suite's name at IANA. In DTLS 1.3 the name of the key exchange mode precedes it.
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
        }
    }

    /// The suite with this [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.name() == name)
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
            Self::KeGcm | Self::DheKeGcm => 0x1301,
            Self::KeChacha | Self::DheKeChacha => 0x1303,
            Self::KeCcm | Self::DheKeCcm => 0x1304,
            Self::KeCcm8 | Self::DheKeCcm8 => 0x1305,
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
        matches!(
            self,
            Self::EcdhePskGcm
                | Self::EcdhePskCcm8
                | Self::DheKeCcm8
                | Self::DheKeCcm
                | Self::DheKeGcm
                | Self::DheKeChacha
                | Self::DheKeSha256
        )
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
    /// The use of connection IDs.
    pub cid: Cid,
    /// The network.
    pub network: Network,
    /// Whether our end puts only one handshake message in each record, for a peer that reads no
    /// further: [`Peer::reads_first_message_only`](super::Peer::reads_first_message_only).
    pub single: bool,
}

impl Cell {
    /// The suite without connection IDs on a good network.
    pub const fn plain(suite: Suite) -> Self {
        Self { suite, cid: Cid::None, network: Network::Good, single: false }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, CID {}", self.suite.name(), self.cid)?;
        f.write_str(match self.network {
            Network::Good => "",
            Network::Lossy => ", with loss",
            Network::Rebinding => ", behind a NAT that rebinds",
        })
    }
}
