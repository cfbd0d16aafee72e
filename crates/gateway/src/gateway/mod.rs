//! The data path: from the LAN to peers, and from peers to the LAN.
//!
//! Nothing here allocates for a frame that is sent or received in one piece. All methods take
//! `&self`: each of a host's threads sends in a lane of its own and may receive any datagram.

mod dispatch;
mod learning;

pub use dispatch::{Destination, Sink};

use crate::bucket::Bucket;
use crate::claims::PendingQueries;
use crate::codepoints::{ANNOUNCEMENT, DatagramType, EncryptedContent, MAX_MESSAGE};
use crate::config::OuterClass;
use crate::config::{self, ConfigError};
pub use crate::config::{GatewaySettings, Mka};
use crate::counters::{GatewayCounters, Reason};
use crate::echoes::EchoFilter;
use crate::fragments::{PIECE_LEN, PieceHeader, Reassembly};
use crate::hold_queue::HoldQueue;
use crate::link::{Link, Links, SEAL_OVERHEAD};
use crate::lock;
pub use crate::notices::Notice;
use crate::notices::Notices;
use crate::other_gateway::{self, OtherGateway};
use crate::peer_set::{PeerIndex, PeerSet};
pub use crate::route::Route;
use crate::schemes::{Forwarded, Incoming, Scheme};
use crate::stations::{Learned, Port, Station, StationTable};
use crate::tuning::{MIN_PATH_MTU, SWEEP_INTERVAL};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use lightseal_core::{Decode, Instant, PacketBuf, Random};
use lightseal_macsec::{Frame, Kind, classify};
use std::sync::Mutex;

/// The content of a datagram from a peer.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame for the LAN, which replaced the datagram in its buffer.
    Frame(PeerIndex),
    /// A frame for the LAN, put together from pieces.
    Reassembled(PeerIndex, Vec<u8>),
    /// A message between gateways, or a piece of an incomplete frame: nothing for the LAN.
    Nothing,
}

/// A gateway without its management channels.
#[derive(Debug)]
pub struct Gateway {
    settings: GatewaySettings,
    links: Links,
    stations: StationTable,
    scheme: Box<dyn Scheme>,
    counters: GatewayCounters,
    /// Stations that peers have asked about.
    pending_queries: PendingQueries,
    other_gateway: OtherGateway,
    /// When expired stations were last searched for, in microseconds.
    swept_at: AtomicU64,
    floods: Mutex<Bucket>,
    echo_filter: EchoFilter,
    reassembly: Vec<Mutex<Reassembly>>,
    notices: Mutex<Notices>,
    hold_queue: HoldQueue,
}

impl Gateway {
    /// Creates a gateway between its LAN and the peers of `links`.
    ///
    /// # Errors
    /// If a setting is invalid, or a link is not that of a further peer, in the order of the peers'
    /// indices, on a path whose MTU is within 576 and 65,535 bytes.
    pub fn new(
        settings: GatewaySettings,
        links: Vec<Link>,
        scheme: Box<dyn Scheme>,
        random: &mut Random,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        settings.check()?;
        config::check_peers(Some(settings.id), links.iter().map(Link::id))?;
        for (at, link) in links.iter().enumerate() {
            if usize::from(link.peer().0) != at {
                return Err(ConfigError::Position(link.peer()));
            }
            if !(MIN_PATH_MTU..=usize::from(u16::MAX)).contains(&link.mtu()) {
                return Err(ConfigError::Mtu(link.peer()));
            }
        }
        let peers = links.len();
        let reassembly = || Mutex::new(Reassembly::new(settings.reassembly_bytes));
        let floods = Bucket::new(settings.floods_a_second, settings.floods_a_second, now);
        Ok(Self {
            links: Links::new(links, random),
            stations: StationTable::new(settings.stations, peers, random, now),
            scheme,
            counters: GatewayCounters::default(),
            pending_queries: PendingQueries::default(),
            other_gateway: OtherGateway::default(),
            swept_at: AtomicU64::new(0),
            floods: Mutex::new(floods),
            echo_filter: EchoFilter::default(),
            reassembly: core::iter::repeat_with(reassembly).take(peers).collect(),
            notices: Mutex::new(Notices::default()),
            hold_queue: HoldQueue::new(settings.held_frames),
            settings,
        })
    }

    /// The settings.
    pub const fn settings(&self) -> &GatewaySettings {
        &self.settings
    }

    /// The links to the peers.
    pub const fn links(&self) -> &Links {
        &self.links
    }

    /// The table of stations.
    pub const fn stations(&self) -> &StationTable {
        &self.stations
    }

    /// The scheme, which determines the representation of MACsec frames in datagrams.
    pub fn scheme(&self) -> &dyn Scheme {
        &*self.scheme
    }

    /// The counters that belong to no peer.
    pub const fn counters(&self) -> &GatewayCounters {
        &self.counters
    }

    /// Decides which peers a frame of the LAN is for. Frames for no peer are counted.
    ///
    /// # Errors
    /// The reason why the frame is for no peer.
    pub fn route_frame(&self, now: Instant, frame: &[u8]) -> Result<Route, Reason> {
        self.counters.frames_from_lan.count(frame.len());
        self.find_route(now, frame)
            .inspect(|route| match route.peers.len() {
                0 | 1 => {}
                peers => self.counters.copies.add(peers as u64 - 1),
            })
            .inspect_err(|&reason| self.counters.drops.increment(reason))
    }

    fn find_route(&self, now: Instant, frame: &[u8]) -> Result<Route, Reason> {
        let kind = classify(frame);
        if self.is_yielding(now) && kind != Kind::Other(ANNOUNCEMENT) {
            return Err(Reason::Yielding);
        }
        match kind {
            Kind::Macsec => {
                let parsed = Frame::parse(frame).map_err(|_| Reason::MalformedFrame)?;
                if self.echo_filter.is_echo(&parsed) {
                    return Err(Reason::Loop);
                }
                let len = frame.len() - parsed.padding().len();
                let header = parsed.header;
                let tag = header.vlan_tags[0];
                let vlan = tag.map(lightseal_macsec::VlanTag::vlan);
                // Carried whatever the station table says, since it is not an echo.
                let source = Station::new(vlan, header.source);
                self.learn(now, source, Port::Lan);
                let to = self.destinations(now, Station::new(vlan, header.destination))?;
                let class = match tag {
                    Some(tag) if self.settings.outer_class == OuterClass::FromPriority => {
                        class_selector(tag.tci)
                    }
                    _ => 0,
                };
                Ok(Route { peers: to, len, class, header: Some(header) })
            }
            Kind::Mka => self.route_mka(frame),
            Kind::Other(ANNOUNCEMENT) => {
                if let Some(id) = self.other_gateway.handle_announcement(now, frame, &self.settings)
                {
                    self.notify(Notice::SecondGateway(id));
                }
                Err(Reason::NotAllowed)
            }
            Kind::Eapol => Err(Reason::NotAllowed),
            Kind::Other(other) if self.is_allowed(other, frame) => self.route_other(now, frame),
            Kind::Other(_) | Kind::Short => Err(Reason::NotAllowed),
        }
    }

    /// Sends MKA to every peer, since its destination is a group address that no bridge forwards.
    fn route_mka(&self, frame: &[u8]) -> Result<Route, Reason> {
        match self.settings.mka {
            Mka::Drop => Err(Reason::Mka),
            _ if self.echo_filter.mark_mka(frame) => Err(Reason::Loop),
            Mka::Tunnel => {
                let to = self.reachable_peers()?;
                Ok(Route { peers: to, len: frame.len(), class: NETWORK_CONTROL, header: None })
            }
            // The peer refuses longer messages.
            Mka::Management if frame.len() >= MAX_MESSAGE => Err(Reason::TooLong),
            Mka::Management => {
                let to = self.links.iter().map(Link::peer).collect();
                self.notify(Notice::Mka(to, frame.to_vec()));
                Err(Reason::Mka)
            }
        }
    }

    /// Whether a frame that came over a management channel may be put on the LAN.
    pub(crate) fn accepts_mka(&self, now: Instant, frame: &[u8]) -> bool {
        let is_mka = self.settings.mka == Mka::Management && classify(frame) == Kind::Mka;
        if is_mka && self.is_yielding(now) {
            self.counters.drops.increment(Reason::Yielding);
            return false;
        }
        if is_mka {
            self.echo_filter.mark_mka(frame);
        }
        is_mka
    }

    fn route_other(&self, now: Instant, frame: &[u8]) -> Result<Route, Reason> {
        let (destination, source) = stations(frame).ok_or(Reason::MalformedFrame)?;
        // Unlike a MACsec frame, such a frame may be repeated by its station, so an echo cannot be
        // distinguished from the station's own frame.
        if self.learn(now, source, Port::Lan) == Learned::KeptAtOtherPort {
            return Err(Reason::Loop);
        }
        let to = self.destinations(now, destination)?;
        Ok(Route { peers: to, len: frame.len(), class: 0, header: None })
    }

    fn destinations(&self, now: Instant, destination: Station) -> Result<PeerSet, Reason> {
        if destination.is_group() {
            return self.reachable_peers();
        }
        match self.stations.find(now, destination) {
            Some(Port::Lan) => Err(Reason::Local),
            Some(Port::Peer(peer)) => {
                let link = self.links.get(peer).ok_or(Reason::NoPeer)?;
                if self.is_reachable(link) { Ok(PeerSet::of(peer)) } else { Err(Reason::NoPeer) }
            }
            None => {
                let to = self.reachable_peers()?;
                // With one peer nothing is copied, so this is no flood.
                let may = to.len() == 1 || lock(&self.floods).take(now);
                if may { Ok(to) } else { Err(Reason::FloodLimit) }
            }
        }
    }

    /// Whether frames can be sent to a peer now.
    fn is_reachable(&self, link: &Link) -> bool {
        link.is_up() || self.scheme.needs_no_keys() && link.address().is_some()
    }

    fn reachable_peers(&self) -> Result<PeerSet, Reason> {
        let up: PeerSet =
            self.links.iter().filter(|link| self.is_reachable(link)).map(Link::peer).collect();
        if up.is_empty() { Err(Reason::NoPeer) } else { Ok(up) }
    }

    /// How many frames are held.
    pub fn held_frames(&self) -> usize {
        self.hold_queue.len()
    }

    /// Opens a datagram that came from `from`, in place. A dropped datagram is counted.
    pub fn open_datagram(
        &self,
        now: Instant,
        from: SocketAddr,
        packet: &mut PacketBuf<'_>,
    ) -> Result<Received, Reason> {
        self.counters.datagrams_in.count(packet.len());
        let arrived = match self.open_content(now, from, packet) {
            Ok(Received::Frame(_) | Received::Reassembled(..)) if self.is_yielding(now) => {
                Err((None, Reason::Yielding))
            }
            arrived => arrived,
        };
        match &arrived {
            Ok(Received::Frame(peer)) => self.count_arrival(*peer, packet.len()),
            Ok(Received::Reassembled(peer, frame)) => self.count_arrival(*peer, frame.len()),
            Ok(Received::Nothing) => {}
            Err((Some(peer), reason)) => {
                if let Some(link) = self.links.get(*peer) {
                    link.counters().drops.increment(*reason);
                }
            }
            Err((None, reason)) => self.counters.drops.increment(*reason),
        }
        arrived.map_err(|(_, reason)| reason)
    }

    fn count_arrival(&self, peer: PeerIndex, len: usize) {
        self.counters.frames_to_lan.count(len);
        if let Some(link) = self.links.get(peer) {
            link.counters().frames_in.count(len);
        }
    }

    fn open_content(
        &self,
        now: Instant,
        from: SocketAddr,
        packet: &mut PacketBuf<'_>,
    ) -> Result<Received, (Option<PeerIndex>, Reason)> {
        let first = packet.bytes().first().copied();
        let first = first.ok_or((None, Reason::UnknownType))?;
        let kind = DatagramType::of(first);
        let peer = match kind {
            Some(
                kind @ (DatagramType::Sealed
                | DatagramType::Compressed
                | DatagramType::Encrypted
                | DatagramType::Fragment),
            ) => {
                let (peer, prefix) = self.links.open(now, from, packet)?;
                let blamed = |reason| (Some(peer), reason);
                match kind {
                    DatagramType::Compressed => self.scheme.expand(peer, packet).map_err(blamed)?,
                    DatagramType::Encrypted => {
                        if prefix.sealed != 0 {
                            return Err(blamed(Reason::Malformed));
                        }
                        return self.open_encrypted(now, peer, packet).map_err(blamed);
                    }
                    DatagramType::Fragment => {
                        return self.open_piece(now, peer, packet).map_err(blamed);
                    }
                    _ => {}
                }
                peer
            }
            _ => {
                let from = Incoming { now, from, kind: first, links: &self.links };
                self.scheme.open(&from, packet)?
            }
        };
        match Frame::parse(packet.bytes()) {
            Ok(frame) => {
                self.learn_behind(now, peer, &frame);
                if matches!(kind, Some(DatagramType::Sealed | DatagramType::Compressed)) {
                    self.scheme.note_sealed_frame(peer, &frame.header);
                }
            }
            Err(_) => match self.scheme.forwarded() {
                Forwarded::Macsec => return Err((Some(peer), Reason::NotMacsec)),
                Forwarded::Allowed => self
                    .check_other(now, peer, packet.bytes())
                    .map_err(|reason| (Some(peer), reason))?,
                Forwarded::Unchecked => {}
            },
        }
        Ok(Received::Frame(peer))
    }

    fn open_encrypted(
        &self,
        now: Instant,
        peer: PeerIndex,
        packet: &mut PacketBuf<'_>,
    ) -> Result<Received, Reason> {
        let size = packet.len() + SEAL_OVERHEAD;
        let kind = packet.take_front(1).and_then(|kind| EncryptedContent::of(kind[0]));
        match kind.ok_or(Reason::UnknownType)? {
            EncryptedContent::Frame => {
                self.check_other(now, peer, packet.bytes())?;
                return Ok(Received::Frame(peer));
            }
            EncryptedContent::Keepalive => {}
            EncryptedContent::Probe => self.notify(Notice::Probe(peer, size)),
            EncryptedContent::ProbeAnswer => {
                let &[a, b] = packet.bytes().first_chunk().ok_or(Reason::Malformed)?;
                self.notify(Notice::Probed(peer, u16::from_be_bytes([a, b]).into()));
            }
            EncryptedContent::Beacon => self.scheme.handle_beacon(now, peer, packet.bytes()),
            EncryptedContent::StationQuery => self.take_station_query(now, peer, packet.bytes())?,
            EncryptedContent::StationHeard => self.take_station_heard(now, peer, packet.bytes())?,
        }
        Ok(Received::Nothing)
    }

    fn open_piece(
        &self,
        now: Instant,
        peer: PeerIndex,
        packet: &mut PacketBuf<'_>,
    ) -> Result<Received, Reason> {
        let header = packet.take_front(PIECE_LEN).ok_or(Reason::Malformed)?;
        let piece = PieceHeader::decode(header).map_err(|_| Reason::Malformed)?;
        let reassembly = self.reassembly.get(usize::from(peer.0)).ok_or(Reason::UnknownPeer)?;
        let (frame, given_up) = lock(reassembly).add_piece(now, &piece, packet.bytes())?;
        let link = self.links.get(peer).ok_or(Reason::UnknownPeer)?;
        for _ in 0..given_up {
            link.counters().drops.increment(Reason::Incomplete);
        }
        let Some(frame) = frame else { return Ok(Received::Nothing) };
        match Frame::parse(&frame) {
            Ok(parsed) => {
                self.learn_behind(now, peer, &parsed);
                self.scheme.note_sealed_frame(peer, &parsed.header);
            }
            Err(_) => self.check_other(now, peer, &frame)?,
        }
        link.counters().reassembled.add(1);
        Ok(Received::Reassembled(peer, frame))
    }

    /// Checks that a frame which arrived encrypted as a whole may be put on the LAN.
    fn check_other(&self, now: Instant, peer: PeerIndex, frame: &[u8]) -> Result<(), Reason> {
        match classify(frame) {
            Kind::Macsec => {
                let frame = Frame::parse(frame).map_err(|_| Reason::NotMacsec)?;
                self.learn_behind(now, peer, &frame);
                self.scheme.note_sealed_frame(peer, &frame.header);
                Ok(())
            }
            Kind::Mka if self.settings.mka == Mka::Drop => Err(Reason::Mka),
            Kind::Mka => {
                self.echo_filter.mark_mka(frame);
                Ok(())
            }
            Kind::Other(other) if self.is_allowed(other, frame) => {
                if let Some((_, source)) = stations(frame) {
                    self.learn(now, source, Port::Peer(peer));
                }
                Ok(())
            }
            _ => Err(Reason::NotAllowed),
        }
    }

    fn is_allowed(&self, ethertype: u16, frame: &[u8]) -> bool {
        self.settings.allow.iter().any(|allowed| allowed.matches(ethertype, frame))
    }

    fn learn_behind(&self, now: Instant, peer: PeerIndex, frame: &Frame<'_>) {
        self.echo_filter.mark(frame);
        let vlan = frame.header.vlan_tags[0].map(lightseal_macsec::VlanTag::vlan);
        self.learn(now, Station::new(vlan, frame.header.source), Port::Peer(peer));
    }

    /// Makes the announcement by which other gateways on this LAN notice this one.
    pub fn announcement(&self) -> [u8; 60] {
        other_gateway::announcement(&self.settings)
    }

    /// Whether this gateway carries nothing, because another gateway serves this LAN.
    pub fn is_yielding(&self, now: Instant) -> bool {
        self.other_gateway.is_yielded_to(now)
    }

    /// Makes a datagram of one of the kinds that are encrypted as a whole, in place.
    ///
    /// # Errors
    /// If there are no keys for `peer`, or the packet has no room.
    pub fn seal_encrypted(
        &self,
        lane: u8,
        peer: PeerIndex,
        kind: EncryptedContent,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(), Reason> {
        let link = self.links.get(peer).ok_or(Reason::NoPeer)?;
        link.seal_encrypted(lane, kind, packet)
    }

    pub(crate) fn notify(&self, notice: Notice) {
        lock(&self.notices).push(notice);
    }

    /// The next event that the data path reports to the control path.
    pub fn poll_notice(&self) -> Option<Notice> {
        lock(&self.notices).pop()
    }

    /// Removes what has expired. To be called about ten times a second.
    pub fn handle_timeout(&self, now: Instant) {
        self.links.expire(now);
        let swept_at = Instant::from_micros(self.swept_at.load(Ordering::Relaxed));
        if now - swept_at >= SWEEP_INTERVAL {
            self.swept_at.store(now.as_micros(), Ordering::Relaxed);
            self.stations.expire(now);
            self.pending_queries.expire(now);
        }
        self.scheme.handle_timeout(now);
        self.hold_queue.expire(now, |peer| {
            if let Some(link) = self.links.get(peer) {
                link.counters().drops.increment(Reason::HeldTooLong);
            }
        });
        for (reassembly, link) in self.reassembly.iter().zip(self.links.iter()) {
            for _ in 0..lock(reassembly).expire(now) {
                link.counters().drops.increment(Reason::Incomplete);
            }
        }
    }
}

/// Class selector 6, network control (RFC 4594, section 3.2): without MKA there are no MACsec keys.
const NETWORK_CONTROL: u8 = 48 << 2;

/// Destination and source of a frame that is not MACsec. Their VLAN is that of the frame's first
/// tag.
fn stations(frame: &[u8]) -> Option<(Station, Station)> {
    let vlan = match frame.get(12..16) {
        Some(&[0x81, 0x00, a, b] | &[0x88, 0xa8, a, b]) => Some(u16::from_be_bytes([a, b]) & 0xfff),
        _ => None,
    };
    let (destination, rest) = frame.split_first_chunk()?;
    let source = rest.first_chunk()?;
    Some((Station::new(vlan, *destination), Station::new(vlan, *source)))
}

/// The class selector (RFC 2474, section 4.2.2) for the priority of a VLAN tag, with ECN off:
/// congestion on the outer path cannot be copied into an IP header that MACsec encrypts (RFC 6040,
/// section 4.3).
const fn class_selector(tci: u16) -> u8 {
    ((tci >> 13) << 5) as u8
}
