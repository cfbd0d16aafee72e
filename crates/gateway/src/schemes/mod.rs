//! Schemes: how a MACsec frame is represented in the datagrams between two gateways.
//!
//! | scheme | what an observer learns about a flow | which forgeries a gateway forwards |
//! |---|---|---|
//! | [`sealed`] | nothing | nothing |
//! | [`identifier`] | nothing | junk under an identifier it overtook |
//! | [`identifier-paper`](identifier) | TCI and SL | junk under an identifier it overtook; each guess costs a lookup |
//! | [`encryption-paper`](encryption) | nothing | replays, and frames with random addresses |
//! | [`plain`] | everything | everything |
//!
//! Each scheme implements [`Scheme`]. Frames that are not MACsec (MKA, allowed EtherTypes),
//! keepalives and the pieces of split frames are sent sealed under every scheme but `plain`.

pub mod compressed;
pub mod encryption;
pub mod identifier;
pub mod plain;
pub mod sealed;

use crate::codepoints::{DatagramType, EncryptedContent};
use crate::counters::Reason;
use crate::flows::Flows;
use crate::link::{Link, Links};
use crate::stations::PeerIndex;
use core::fmt;
use core::net::SocketAddr;
use lightseal_core::{DecodeError, Instant, PacketBuf};
use lightseal_macsec::Header;

/// The names of the schemes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchemeName {
    /// Our own scheme, which is the default.
    #[default]
    Sealed,
    /// The paper's rotating identifiers, with its weaknesses corrected.
    Identifier,
    /// The paper's rotating identifiers, unchanged.
    IdentifierPaper,
    /// The paper's encryption, unchanged.
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

    /// The scheme with the name `name`.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.as_str() == name)
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A MACsec frame that is to be sent to a peer.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The time.
    pub now: Instant,
    /// The lane, that is the sending thread.
    pub lane: u8,
    /// The link to the peer that the frame is for.
    pub link: &'a Link,
    /// The header of the frame.
    pub header: &'a Header,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The time.
    pub now: Instant,
    /// Its source address, which is not authenticated.
    pub from: SocketAddr,
    /// Its type, from its first byte.
    pub kind: DatagramType,
    /// The links to all peers.
    pub links: &'a Links,
}

/// The result of [`Scheme::seal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealOutcome {
    /// A datagram that is ready to be sent.
    Ready,
    /// No datagram: the peer does not know the frame's flow yet. The frame is unchanged.
    Hold,
}

/// The representation of MACsec frames that the gateways of one tunnel have agreed on.
///
/// All methods take `&self`: threads share a scheme, which keeps its state behind locks.
pub trait Scheme: Send + Sync + fmt::Debug {
    /// The name of the scheme.
    fn name(&self) -> SchemeName;

    /// The flows, in schemes that have them. Their messages are the same in all schemes.
    fn flow_table(&self) -> Option<&Flows> {
        None
    }

    /// By how many bytes a datagram is at most longer than a frame with this header, without the IP
    /// and UDP headers. Negative if it is shorter.
    fn max_overhead(&self, header: &Header) -> isize;

    /// By how many bytes a datagram to `peer` would be longer now. Called only if the frame is too
    /// long with the bound of [`max_overhead`](Self::max_overhead).
    fn overhead_to(&self, _peer: PeerIndex, header: &Header) -> isize {
        self.max_overhead(header)
    }

    /// Makes a datagram of a frame without padding, in place.
    ///
    /// # Errors
    /// The reason why no datagram was made. The content of `packet` is undefined then.
    fn seal(&self, to: &Outgoing<'_>, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason>;

    /// Makes a frame of a datagram, in place, and says which peer sent it.
    ///
    /// # Errors
    /// The reason why no frame was made, and the peer that sent the datagram if that is known.
    fn open(
        &self,
        from: &Incoming<'_>,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)>;

    /// Restores the header of a [`DatagramType::Compressed`] datagram of `peer`, which is authentic
    /// and was opened before.
    ///
    /// # Errors
    /// If no flow has its number, or the scheme has no short headers.
    fn expand(&self, _peer: PeerIndex, _packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        Err(Reason::UnknownType)
    }

    /// Whether the result of [`open`](Self::open) must be a well-formed MACsec frame. Only a scheme
    /// that exists to demonstrate the consequences returns `false`.
    fn requires_valid_frames(&self) -> bool {
        true
    }

    /// Makes a datagram of a frame that is not MACsec, in place.
    ///
    /// # Errors
    /// If the scheme needs keys and there are none, or if the packet has no room.
    fn seal_other(&self, lane: u8, link: &Link, packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        link.seal_encrypted(lane, EncryptedContent::Frame, packet)
    }

    /// Whether frames are sent to peers without any keys.
    fn needs_no_keys(&self) -> bool {
        false
    }

    /// A frame with this header arrived sealed from `peer`: its packet number tells how far the
    /// association has advanced.
    fn note_sealed_frame(&self, _peer: PeerIndex, _header: &Header) {}

    /// How many acknowledgements of flows have arrived. When the count has grown, frames that were
    /// held may be ready.
    fn acknowledged(&self) -> u64 {
        self.flow_table().map_or(0, Flows::acknowledged)
    }

    /// Whether `peer` knows the flow of frames with this header.
    fn is_flow_known(&self, peer: PeerIndex, header: &Header) -> bool {
        self.flow_table().is_none_or(|flows| flows.is_known(peer, header))
    }

    /// Handles a message of the peer's scheme, which came over the management channel.
    ///
    /// # Errors
    /// If the message is malformed or does not fit the scheme.
    fn handle_message(
        &self,
        now: Instant,
        peer: PeerIndex,
        message: &[u8],
    ) -> Result<(), DecodeError> {
        match self.flow_table() {
            Some(flows) => flows.handle_message(now, peer, message),
            None => Err(DecodeError::Invalid("message for a scheme that has no messages")),
        }
    }

    /// The next message for a peer's scheme, to be sent over the management channel. To be called
    /// until it returns `None`.
    fn poll_message(&self, _now: Instant) -> Option<(PeerIndex, Vec<u8>)> {
        self.flow_table()?.poll_message()
    }

    /// The next message for a peer that is to be sent through the tunnel: the content of a
    /// [`EncryptedContent::Beacon`] datagram.
    fn poll_beacon(&self, _now: Instant) -> Option<(PeerIndex, Vec<u8>)> {
        None
    }

    /// Handles the content of an [`EncryptedContent::Beacon`] datagram, which is authentic.
    fn handle_beacon(&self, _now: Instant, _peer: PeerIndex, _content: &[u8]) {}

    /// The management channel to a peer is new, and the peer may know none of our flows.
    fn restart(&self, now: Instant, peer: PeerIndex) {
        if let Some(flows) = self.flow_table() {
            flows.restart(now, peer);
        }
    }

    /// Removes what has expired. To be called about ten times a second.
    fn handle_timeout(&self, now: Instant) {
        if let Some(flows) = self.flow_table() {
            flows.handle_timeout(now);
        }
    }

    /// How many flows are sent and how many are received.
    fn flow_counts(&self) -> (usize, usize) {
        self.flow_table().map_or((0, 0), Flows::count)
    }
}
