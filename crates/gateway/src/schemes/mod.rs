//! How a MACsec frame looks between two gateways.
//!
//! | scheme | an observer learns of a flow | what a forger gets past the gateway |
//! |---|---|---|
//! | [`sealed`] | nothing | nothing |
//! | [`identifier`] | nothing | junk under an identifier it overtook |
//! | [`identifier-paper`](identifier) | TCI and SL | the same, and floods of guesses cost a lookup each |
//! | [`encryption-paper`](encryption) | nothing | replays, and frames with random addresses |
//! | [`plain`] | everything | everything |
//!
//! Each implements [`Scheme`]. What is not a MACsec frame (MKA, allowed EtherTypes, signs of
//! life) and what is split goes sealed under every scheme but `plain`.

pub mod compressed;
pub mod encryption;
pub mod identifier;
pub mod plain;
pub mod sealed;

use crate::bridge::PeerIndex;
use crate::codepoints::{Type, Whole};
use crate::counters::Reason;
use crate::flows::Flows;
use crate::link::{Link, Links};
use core::fmt;
use core::net::SocketAddr;
use macsec::Header;
use vocabulary::{DecodeError, Instant, PacketBuf};

/// The schemes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchemeName {
    /// Ours, and the default.
    #[default]
    Sealed,
    /// The paper's identifiers, put right.
    Identifier,
    /// The paper's identifiers as it has them.
    IdentifierPaper,
    /// The paper's encryption as it has it.
    EncryptionPaper,
    /// VXLAN.
    Plain,
}

impl SchemeName {
    /// Every scheme.
    pub const ALL: [Self; 5] =
        [Self::Sealed, Self::Identifier, Self::IdentifierPaper, Self::EncryptionPaper, Self::Plain];

    /// The name in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Identifier => "identifier",
            Self::IdentifierPaper => "identifier-paper",
            Self::EncryptionPaper => "encryption-paper",
            Self::Plain => "plain",
        }
    }

    /// The scheme of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.as_str() == name)
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A MACsec frame on its way to a peer.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The time.
    pub now: Instant,
    /// Which thread sends it.
    pub lane: u8,
    /// To whom.
    pub link: &'a Link,
    /// Its header.
    pub header: &'a Header,
}

/// A datagram on its way in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The time.
    pub now: Instant,
    /// Where it says it comes from.
    pub from: SocketAddr,
    /// What its first byte says.
    pub kind: Type,
    /// All peers.
    pub links: &'a Links,
}

/// What [`Scheme::seal`] made of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// A datagram that is ready to be sent.
    Ready,
    /// Nothing: the peer does not know the frame's flow yet. The frame is as it was.
    Hold,
}

/// What the gateways of one tunnel have agreed on to do with MACsec frames.
///
/// All methods take `&self`: threads share a scheme, and where it keeps state that is behind locks.
pub trait Scheme: Send + Sync + fmt::Debug {
    /// Which it is.
    fn name(&self) -> SchemeName;

    /// The flows, in schemes that have them: what is said of them is the same in all.
    fn table(&self) -> Option<&Flows> {
        None
    }

    /// By how many bytes a datagram is longer than a frame with this header at most, IP and UDP
    /// aside.
    fn growth(&self, header: &Header) -> isize;

    /// The same as it stands now, for one peer. Asked only where it matters.
    fn growth_to(&self, _peer: PeerIndex, header: &Header) -> isize {
        self.growth(header)
    }

    /// Makes a datagram of a frame without padding, in place.
    ///
    /// # Errors
    /// Why there is none; the packet may be garbled then.
    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<Sealed, Reason>;

    /// Makes a frame of a datagram, in place, and says which peer sent it.
    ///
    /// # Errors
    /// Why there is none, and of which peer it was if that is known.
    fn open(
        &self,
        from: &Incoming<'_>,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)>;

    /// Puts the header back that a [`Type::Compressed`] datagram of `peer` stands for; it is
    /// authentic and open already.
    ///
    /// # Errors
    /// Where no flow has that number, or the scheme has no short headers.
    fn expand(&self, _peer: PeerIndex, _packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        Err(Reason::UnknownType)
    }

    /// Whether what [`open`](Self::open) makes must be a well-formed MACsec frame. Only schemes
    /// that are here to show what happens otherwise say no.
    fn is_strict(&self) -> bool {
        true
    }

    /// Makes a datagram of a frame that is not MACsec's, in place.
    ///
    /// # Errors
    /// Without keys, where the scheme needs some, or without room.
    fn seal_other(&self, lane: u8, link: &Link, packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        link.seal_whole(lane, Whole::Frame, packet)
    }

    /// Whether frames go to peers with which there are no keys.
    fn is_keyless(&self) -> bool {
        false
    }

    /// A frame with this header came from `peer`, sealed: how far its packet numbers are.
    fn hear(&self, _peer: PeerIndex, _header: &Header) {}

    /// How often peers acknowledged flows: where it grew, frames that were held may go.
    fn acknowledged(&self) -> u64 {
        self.table().map_or(0, Flows::acknowledged)
    }

    /// Whether `peer` knows the flow of frames with this header.
    fn knows(&self, peer: PeerIndex, header: &Header) -> bool {
        self.table().is_none_or(|flows| flows.is_known(peer, header))
    }

    /// Takes what a peer's scheme has to say over the management channel.
    ///
    /// # Errors
    /// Where it makes no sense.
    fn handle_message(
        &self,
        now: Instant,
        peer: PeerIndex,
        message: &[u8],
    ) -> Result<(), DecodeError> {
        match self.table() {
            Some(flows) => flows.handle_message(now, peer, message),
            None => Err(DecodeError::Invalid("message of a scheme that has none")),
        }
    }

    /// What to say to a peer's scheme over the management channel; asked for until it is `None`.
    fn poll_message(&self, _now: Instant) -> Option<(PeerIndex, Vec<u8>)> {
        self.table()?.poll_message()
    }

    /// What the tunnel itself should carry to a peer: the content of a `Whole` datagram.
    fn poll_beacon(&self, _now: Instant) -> Option<(PeerIndex, Vec<u8>)> {
        None
    }

    /// Takes such a content, which is authentic.
    fn handle_beacon(&self, _now: Instant, _peer: PeerIndex, _content: &[u8]) {}

    /// The management channel to a peer is new, and the peer may know of no flow.
    fn restart(&self, now: Instant, peer: PeerIndex) {
        if let Some(flows) = self.table() {
            flows.restart(now, peer);
        }
    }

    /// Lets what has timed out go. Called about ten times a second.
    fn handle_timeout(&self, now: Instant) {
        if let Some(flows) = self.table() {
            flows.handle_timeout(now);
        }
    }

    /// How many flows are known of what is sent, and of what is received.
    fn flows(&self) -> (usize, usize) {
        self.table().map_or((0, 0), Flows::count)
    }
}
