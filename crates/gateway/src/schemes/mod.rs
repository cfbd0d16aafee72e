//! Schemes: how a MACsec frame is represented in the datagrams between two gateways.
//!
//! | scheme | what an observer learns about a flow | which forgeries a gateway forwards |
//! |---|---|---|
//! | [`sealed`] | nothing | nothing |
//! | [`identifier`] | nothing | junk under an identifier it overtook |
//! | [`plain`] | everything | everything |
//!
//! Each scheme implements [`Scheme`], and so may schemes outside of this crate: they have a
//! [`SchemeCode`] and first bytes of datagrams of their own, and may have flows of their own
//! ([`Flows`]) and a cipher of their own ([`FrameCipher`]). Frames that are not MACsec (MKA, allowed EtherTypes),
//! keepalives and the pieces of split frames are sent sealed under every scheme but `plain`.

pub mod compressed;
pub mod identifier;
pub mod plain;
pub mod sealed;

use crate::codepoints::{DatagramType, EncryptedContent};
use crate::counters::Reason;
use crate::flows::Flows;
use crate::keys::DirectionSecret;
use crate::link::{FrameCipher, Link, Links, SEAL_OVERHEAD};
use crate::peer_set::PeerIndex;
use core::fmt;
use core::net::SocketAddr;
use lightseal_core::{DecodeError, Encode, Instant, PacketBuf, Writer};
use lightseal_macsec::Header;

/// The schemes of this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum SchemeName {
    /// The header is encrypted, and the whole frame is authenticated. This is the default.
    #[default]
    Sealed,
    /// Rotating identifiers in place of the header.
    Identifier,
    /// The framing of VXLAN (RFC 7348), **without protection**.
    Plain,
}

impl SchemeName {
    /// Every scheme.
    pub const ALL: [Self; 3] = [Self::Sealed, Self::Identifier, Self::Plain];

    /// The name in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Identifier => "identifier",
            Self::Plain => "plain",
        }
    }

    /// The code of the scheme between gateways.
    pub const fn code(self) -> SchemeCode {
        SchemeCode(match self {
            Self::Sealed => 1,
            Self::Identifier => 2,
            Self::Plain => 5,
        })
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The code by which two gateways compare their schemes. Schemes outside of this crate have codes
/// that [`SchemeName`] does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchemeCode(pub u8);

impl fmt::Display for SchemeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SchemeName::ALL.into_iter().find(|name| name.code() == *self) {
            Some(name) => name.fmt(f),
            None => write!(f, "scheme {}", self.0),
        }
    }
}

/// A MACsec frame that is to be sent to a peer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
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

impl Outgoing<'_> {
    /// Seals the frame with its whole header, as under the scheme `sealed`, if it fits a datagram.
    ///
    /// # Errors
    /// [`Reason::TooLong`] if it does not fit, and as for [`Link::seal`].
    pub fn seal_whole(&self, packet: &mut PacketBuf<'_>) -> Result<SealOutcome, Reason> {
        if packet.len() + SEAL_OVERHEAD > self.link.payload() {
            return Err(Reason::TooLong);
        }
        // The header has at most 36 bytes, which fits the length byte.
        self.link.seal(self.lane, DatagramType::Sealed, self.header.len() as u8, packet)?;
        Ok(SealOutcome::Ready)
    }
}

/// Puts a header before the rest of a frame.
///
/// # Errors
/// [`Reason::NoBuffer`] if the packet has no room.
pub fn prepend_header(header: &Header, packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
    let mut bytes = [0; Header::MAX_LEN];
    let mut writer = Writer::new(&mut bytes);
    header.write(&mut writer).map_err(|_| Reason::NoBuffer)?;
    packet.prepend_slice(writer.written()).ok_or(Reason::NoBuffer)
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The time.
    pub now: Instant,
    /// Its source address, which is not authenticated.
    pub from: SocketAddr,
    /// Its type, which is its first byte: a [`DatagramType`], or a type of a scheme outside of this
    /// crate.
    pub kind: u8,
    /// The links to all peers.
    pub links: &'a Links,
}

/// The result of [`Scheme::seal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealOutcome {
    /// A datagram that is ready to be sent.
    Ready,
    /// No datagram: the peer does not know the frame's flow yet. The frame is unchanged.
    Hold,
}

/// Which bytes from [`Scheme::open`] the gateway puts on its LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forwarded {
    /// Well-formed MACsec frames.
    Macsec,
    /// Well-formed MACsec frames, and other frames that the configuration allows.
    Allowed,
    /// Any bytes. Only a scheme that shows what follows from missing authentication returns this.
    Unchecked,
}

/// The representation of MACsec frames that the gateways of one tunnel have agreed on.
///
/// All methods take `&self`: threads share a scheme, which keeps its state behind locks.
pub trait Scheme: Send + Sync + fmt::Debug {
    /// The name of the scheme, in the status and in metrics.
    fn name(&self) -> &'static str;

    /// The code of the scheme, which must be that of the peer.
    fn code(&self) -> SchemeCode;

    /// Makes the scheme's own cipher for one direction and epoch, in schemes that have one. It is
    /// used by [`Link::encrypt`] and [`Links::decrypt`].
    fn cipher(&self, _secret: &DirectionSecret<'_>) -> Option<Box<dyn FrameCipher>> {
        None
    }

    /// The flows, in schemes that have them. Their messages are the same in all schemes.
    fn flow_table(&self) -> Option<&Flows> {
        None
    }

    /// By how many bytes a datagram is at most longer than a frame with this header, without the IP
    /// and UDP headers. Negative if it is shorter. As long as this by default: the datagram of a
    /// frame that is sent sealed.
    fn max_overhead(&self, _header: &Header) -> isize {
        SEAL_OVERHEAD as isize
    }

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

    /// Makes a frame of a datagram of the scheme's own type, in place, and says which peer sent it.
    /// Datagrams that are opened with a peer's keys do not come here; by default there are no
    /// others.
    ///
    /// # Errors
    /// The reason why no frame was made, and the peer that sent the datagram if that is known.
    fn open(
        &self,
        _from: &Incoming<'_>,
        _packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        Err((None, Reason::UnknownType))
    }

    /// Restores the header of a [`DatagramType::Compressed`] datagram of `peer`, which is authentic
    /// and was opened before.
    ///
    /// # Errors
    /// If no flow has its number, or the scheme has no short headers.
    fn expand(&self, _peer: PeerIndex, _packet: &mut PacketBuf<'_>) -> Result<(), Reason> {
        Err(Reason::UnknownType)
    }

    /// Which bytes from [`open`](Self::open) the gateway puts on its LAN.
    fn forwarded(&self) -> Forwarded {
        Forwarded::Macsec
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
            None => Err(DecodeError::invalid("message for a scheme that has no messages")),
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
