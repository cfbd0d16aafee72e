//! The data path: from the LAN to peers, and from peers to the LAN.
//!
//! Nothing here allocates for a frame that is sent or received in one piece. All methods take
//! `&self`: each of a host's threads sends in a lane of its own and may receive any datagram.

mod dispatch;

pub use dispatch::{Destination, Sink};

use crate::bucket::Bucket;
use crate::claims::PendingQueries;
use crate::codepoints::{ANNOUNCEMENT, DatagramType, EncryptedContent};
use crate::control::messages;
use crate::counters::{Counter, Drops, Reason, Traffic};
use crate::echoes::EchoFilter;
use crate::fragments::{PIECE_LEN, PieceHeader, Reassembly};
use crate::hold_queue::HoldQueue;
use crate::keys::GatewayId;
use crate::link::{Link, Links, SEAL_OVERHEAD};
use crate::lock;
pub use crate::notices::Notice;
use crate::notices::Notices;
use crate::other_gateway::{self, OtherGateway};
use crate::peer_set::PeerSet;
use crate::schemes::{Forwarded, Incoming, Scheme};
use crate::stations::{Learned, PeerIndex, Port, Station, StationLimits, StationTable};
use crate::tuning::SWEEP_INTERVAL;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use lightseal_core::{Decode, Instant, PacketBuf, Random};
use lightseal_macsec::{Frame, Header, Kind, classify};
use std::sync::Mutex;

/// What a gateway does with MKA frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Mka {
    /// They are sent through the tunnel, encrypted.
    #[default]
    Tunnel,
    /// They are sent over the management channel.
    Management,
    /// They are dropped, since keys are static or each LAN agrees on its own keys.
    Drop,
}

/// The configuration of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The identity of this gateway.
    pub id: GatewayId,
    /// What the gateway does with MKA frames.
    pub mka: Mka,
    /// EtherTypes that are carried besides MACsec and MKA, encrypted as a whole.
    pub allow: Vec<u16>,
    /// Whether frames of the bridge protocols are carried (LLC with the address 0x42).
    pub allow_bpdu: bool,
    /// Whether the gateway carries nothing while a gateway with a lower identity is on the same
    /// LAN.
    pub yields: bool,
    /// The address of this gateway's interface on the LAN.
    pub lan_address: [u8; 6],
    /// Limits on the stations that are learned.
    pub stations: StationLimits,
    /// Most frames a second for unknown stations that are copied to several peers.
    pub floods_a_second: u32,
    /// Most frames that are held until a peer knows their flow.
    pub held_frames: usize,
    /// Most bytes of incomplete frames for each peer.
    pub reassembly_bytes: usize,
    /// Whether the priority of a VLAN tag becomes the DSCP of the outer IP header (class
    /// selectors).
    pub dscp: bool,
}

/// How a frame of the LAN is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The peers that the frame is for.
    pub peers: PeerSet,
    /// Length of the frame in bytes, without padding.
    pub len: usize,
    /// The traffic class of the outer IP header: DSCP and ECN.
    pub class: u8,
    /// The header of a MACsec frame; `None` for other frames.
    pub header: Option<Header>,
}

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
    config: GatewayConfig,
    /// The links to the peers.
    pub links: Links,
    /// The table of stations.
    pub stations: StationTable,
    /// The scheme, which determines the representation of MACsec frames in datagrams.
    pub scheme: Box<dyn Scheme>,
    /// Frames that arrived from the LAN.
    pub frames_from_lan: Traffic,
    /// Frames that were sent to the LAN.
    pub frames_to_lan: Traffic,
    /// Copies of frames for several peers: a frame for n peers counts n - 1.
    pub copies: Counter,
    /// Datagrams that arrived.
    pub datagrams_in: Traffic,
    /// Dropped frames of the LAN, and dropped datagrams that cannot be attributed to a peer.
    pub drops: Drops,
    /// Stations that peers have asked about.
    pub(crate) pending_queries: PendingQueries,
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
    pub fn new(
        settings: GatewayConfig,
        links: Vec<Link>,
        scheme: Box<dyn Scheme>,
        random: &mut Random,
        now: Instant,
    ) -> Self {
        let peers = links.len();
        let reassembly = || Mutex::new(Reassembly::new(settings.reassembly_bytes));
        Self {
            links: Links::new(links, random),
            stations: StationTable::new(settings.stations, peers, random, now),
            scheme,
            frames_from_lan: Traffic::default(),
            frames_to_lan: Traffic::default(),
            copies: Counter::default(),
            datagrams_in: Traffic::default(),
            drops: Drops::default(),
            pending_queries: PendingQueries::default(),
            other_gateway: OtherGateway::default(),
            swept_at: AtomicU64::new(0),
            floods: Mutex::new(Bucket::new(
                settings.floods_a_second,
                settings.floods_a_second,
                now,
            )),
            echo_filter: EchoFilter::default(),
            reassembly: core::iter::repeat_with(reassembly).take(peers).collect(),
            notices: Mutex::new(Notices::default()),
            hold_queue: HoldQueue::new(settings.held_frames),
            config: settings,
        }
    }

    /// The configuration.
    pub const fn config(&self) -> &GatewayConfig {
        &self.config
    }

    /// Decides which peers a frame of the LAN is for. Frames for no peer are counted.
    ///
    /// # Errors
    /// The reason why the frame is for no peer.
    pub fn route_frame(&self, now: Instant, frame: &[u8]) -> Result<Route, Reason> {
        self.frames_from_lan.count(frame.len());
        self.find_route(now, frame)
            .inspect(|route| match route.peers.len() {
                0 | 1 => {}
                peers => self.copies.add(peers as u64 - 1),
            })
            .inspect_err(|&reason| self.drops.increment(reason))
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
                    Some(tag) if self.config.dscp => class_selector(tag.tci),
                    _ => 0,
                };
                Ok(Route { peers: to, len, class, header: Some(header) })
            }
            Kind::Mka => self.route_mka(frame),
            Kind::Other(ANNOUNCEMENT) => {
                if let Some(id) = self.other_gateway.handle_announcement(now, frame, &self.config) {
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
        match self.config.mka {
            Mka::Drop => Err(Reason::Mka),
            _ if self.echo_filter.mark_mka(frame) => Err(Reason::Loop),
            Mka::Tunnel => {
                let to = self.reachable_peers()?;
                Ok(Route { peers: to, len: frame.len(), class: NETWORK_CONTROL, header: None })
            }
            // The peer refuses longer messages.
            Mka::Management if frame.len() >= messages::MAX_LEN => Err(Reason::TooLong),
            Mka::Management => {
                let to = self.links.iter().map(|link| link.peer).collect();
                self.notify(Notice::Mka(to, frame.to_vec()));
                Err(Reason::Mka)
            }
        }
    }

    /// Whether a frame that came over a management channel may be put on the LAN.
    pub(crate) fn accepts_mka(&self, now: Instant, frame: &[u8]) -> bool {
        let is_mka = self.config.mka == Mka::Management && classify(frame) == Kind::Mka;
        if is_mka && self.is_yielding(now) {
            self.drops.increment(Reason::Yielding);
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
        let up: PeerSet = self
            .links
            .iter()
            .filter(|link| self.is_reachable(link))
            .map(|link| link.peer)
            .collect();
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
        self.datagrams_in.count(packet.len());
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
                    link.counters.drops.increment(*reason);
                }
            }
            Err((None, reason)) => self.drops.increment(*reason),
        }
        arrived.map_err(|(_, reason)| reason)
    }

    fn count_arrival(&self, peer: PeerIndex, len: usize) {
        self.frames_to_lan.count(len);
        if let Some(link) = self.links.get(peer) {
            link.counters.frames_in.count(len);
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
            link.counters.drops.increment(Reason::Incomplete);
        }
        let Some(frame) = frame else { return Ok(Received::Nothing) };
        match Frame::parse(&frame) {
            Ok(parsed) => {
                self.learn_behind(now, peer, &parsed);
                self.scheme.note_sealed_frame(peer, &parsed.header);
            }
            Err(_) => self.check_other(now, peer, &frame)?,
        }
        link.counters.reassembled.add(1);
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
            Kind::Mka if self.config.mka == Mka::Drop => Err(Reason::Mka),
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
        let bridges = || ethertype < 0x600 && frame.get(14..16) == Some(&[0x42, 0x42]);
        self.config.allow.contains(&ethertype) || self.config.allow_bpdu && bridges()
    }

    fn learn_behind(&self, now: Instant, peer: PeerIndex, frame: &Frame<'_>) {
        self.echo_filter.mark(frame);
        let vlan = frame.header.vlan_tags[0].map(lightseal_macsec::VlanTag::vlan);
        self.learn(now, Station::new(vlan, frame.header.source), Port::Peer(peer));
    }

    /// Makes the announcement by which other gateways on this LAN notice this one.
    pub fn announcement(&self) -> [u8; 60] {
        other_gateway::announcement(&self.config)
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
                link.counters.drops.increment(Reason::HeldTooLong);
            }
        });
        for (reassembly, link) in self.reassembly.iter().zip(self.links.iter()) {
            for _ in 0..lock(reassembly).expire(now) {
                link.counters.drops.increment(Reason::Incomplete);
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
