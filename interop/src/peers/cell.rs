//! What a meeting of two peers is about.

use std::fmt;

/// The identity that every peer is given.
pub const IDENTITY: &str = "Client_identity";
/// The key that every peer is given: 16 bytes, which all of them take.
pub const KEY_HEX: &str = "9f3c6a1e0b7d4258c4e1a2f06b8d3975";
/// The length of every connection ID that is asked for.
pub const CID_BYTES: usize = 6;

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 6347.
    Dtls12,
    /// RFC 9147.
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

/// A cipher suite, with its use of the key in 1.3, where that is no part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// RFC 6655.
    PskCcm8,
    /// RFC 6655.
    PskCcm,
    /// RFC 5487.
    PskGcm,
    /// RFC 7905.
    PskChacha,
    /// RFC 8442.
    EcdhePskGcm,
    /// RFC 8442.
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
    /// All of them.
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

    /// The name at IANA, in 1.3 behind the key exchange mode's.
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

    /// The protocol that it belongs to.
    pub const fn version(self) -> Version {
        match self.code() {
            0x1301..=0x1305 | 0xc0b4 => Version::Dtls13,
            _ => Version::Dtls12,
        }
    }

    /// Whether keys also come from a Diffie-Hellman exchange.
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

/// Which records carry a connection ID: a peer asks for those it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cid {
    /// None: nobody offers the extension.
    None,
    /// Those to the server.
    ToServer,
    /// Those to the client.
    ToClient,
    /// All.
    Both,
}

impl Cid {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::ToServer, Self::ToClient, Self::Both];

    /// What `role` asks for: `None` not to speak of connection IDs, `Some(0)` to send
    /// the other's but receive none.
    pub const fn of(self, role: Role) -> Option<usize> {
        match (self, role) {
            (Self::None, _) => None,
            (Self::ToServer, Role::Server) | (Self::ToClient, Role::Client) | (Self::Both, _) => {
                Some(CID_BYTES)
            }
            _ => Some(0),
        }
    }

    /// Whether records towards `role` carry one.
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
            Self::Both => "both ways",
        })
    }
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Speaks first.
    Client,
    /// Answers.
    Server,
}

impl Role {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other end's.
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

/// What lies between two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    Good,
    /// Loss, duplicates and datagrams out of order.
    Lossy,
    /// A NAT that gives the client another port once payloads have gone both ways.
    Rebinding,
}

impl Network {
    /// In one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Lossy => "lossy",
            Self::Rebinding => "rebinding",
        }
    }
}

/// What two peers have to agree on, and what lies between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The only suite offered and accepted.
    pub suite: Suite,
    /// Connection IDs.
    pub cid: Cid,
    /// The network.
    pub network: Network,
    /// Whether we put one message of a handshake in a record, for a peer that reads
    /// no further: [`Peer::reads_first_message_only`](super::Peer::reads_first_message_only).
    pub single: bool,
}

impl Cell {
    /// No connection IDs on a good network.
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
