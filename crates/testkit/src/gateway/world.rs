//! Gateways that are connected without sockets. Management channels are reliable; what happens to
//! datagrams is up to the test.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use lightseal_core::{Encode, Instant, PacketBuf, Random, Writer};
use lightseal_gateway::codepoints::EncryptedContent;
use lightseal_gateway::control::{Control, Event, Output, Timing};
use lightseal_gateway::counters::Reason;
use lightseal_gateway::gateway::{Destination, Gateway, GatewaySettings, Received, Sink};
use lightseal_gateway::keys::GatewayId;
use lightseal_gateway::link::{Link, PeerPort};
use lightseal_gateway::schemes::Scheme;
use lightseal_gateway::stations::PeerIndex;
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use lightseal_macsec::{AssociationNumber, Header, Protection, Sci, SciField, SecTag, ShortLength};
use std::collections::VecDeque;
use std::sync::Arc;

/// Headroom and tailroom of every packet, in bytes.
pub const ROOM: usize = 128;
/// The lane of the control path.
const CONTROL: u8 = 15;

/// Spreads addresses over seeds: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The scheme `sealed`.
pub fn sealed(_: &mut Random) -> Box<dyn Scheme> {
    Box::new(lightseal_gateway::schemes::sealed::SealedScheme)
}

/// A datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub from: usize,
    pub to: usize,
    pub bytes: Vec<u8>,
}

pub struct Site {
    pub gateway: Arc<Gateway>,
    pub control: Control,
    /// Frames that were put on the LAN.
    pub lan: Vec<Vec<u8>>,
    pub events: Vec<Event>,
}

/// Several sites, each of which is a peer of every other.
pub struct World {
    pub sites: Vec<Site>,
    pub now: Instant,
    timing: Timing,
    /// The datagrams between sites, in the order in which they were sent.
    pub wire: VecDeque<Datagram>,
    /// The longest UDP payload in bytes that arrives.
    pub carries: usize,
    messages: VecDeque<(usize, usize, Vec<u8>)>,
}

pub fn settings(site: usize) -> GatewaySettings {
    let mut settings = GatewaySettings::new(GatewayId([site as u8 + 1; 32]), station(site, 0));
    settings.reassembly_bytes = 1 << 18;
    settings
}

/// Timing without announcements, keepalives and probes, so that only the test's own frames are
/// sent.
pub fn quiet() -> Timing {
    let never = Duration::ZERO;
    let mut timing = Timing::default();
    (timing.probe, timing.check) = (false, false);
    (timing.announce, timing.keepalive) = (never, never);
    timing
}

/// The timing of [`quiet`] with a change.
pub fn quiet_with(change: impl FnOnce(&mut Timing)) -> Timing {
    let mut timing = quiet();
    change(&mut timing);
    timing
}

impl Site {
    fn new(
        (site, sites): (usize, usize),
        settings: GatewaySettings,
        scheme: Box<dyn Scheme>,
        timing: Timing,
        random: &mut Random,
        now: Instant,
    ) -> Self {
        let others = (0..sites).filter(|&other| other != site).enumerate();
        let links = others
            .map(|(at, other)| {
                let id = GatewayId([other as u8 + 1; 32]);
                Link::new(PeerIndex(at as u8), id, Some(address(other)), PeerPort::Learned, 1480)
            })
            .collect();
        let gateway = Arc::new(Gateway::new(settings, links, scheme, random, now).unwrap());
        let control = Control::new(Arc::clone(&gateway), &PROVIDER, timing, random.fork()).unwrap();
        Self { gateway, control, lan: Vec::new(), events: Vec::new() }
    }
}

impl World {
    pub fn new(sites: usize, scheme: impl Fn(&mut Random) -> Box<dyn Scheme>) -> Self {
        Self::with(sites, scheme, |_| {}, quiet())
    }

    pub fn with(
        sites: usize,
        scheme: impl Fn(&mut Random) -> Box<dyn Scheme>,
        change: impl Fn(&mut GatewaySettings),
        timing: Timing,
    ) -> Self {
        Self::with_seed(7, sites, scheme, change, timing)
    }

    fn with_seed(
        seed: u64,
        sites: usize,
        scheme: impl Fn(&mut Random) -> Box<dyn Scheme>,
        change: impl Fn(&mut GatewaySettings),
        timing: Timing,
    ) -> Self {
        let mut random = Random::insecure(seed);
        let now = Instant::from_micros(1_000_000);
        let made = |site| {
            let mut settings = settings(site);
            change(&mut settings);
            let scheme = scheme(&mut random);
            Site::new((site, sites), settings, scheme, timing, &mut random, now)
        };
        let sites = (0..sites).map(made).collect();
        Self {
            sites,
            now,
            timing,
            wire: VecDeque::new(),
            carries: usize::MAX,
            messages: VecDeque::new(),
        }
    }

    /// Restarts the gateway of a site, with empty state.
    pub fn replace(
        &mut self,
        site: usize,
        scheme: impl Fn(&mut Random) -> Box<dyn Scheme>,
        random: &mut Random,
    ) {
        let scheme = scheme(random);
        let place = (site, self.sites.len());
        let fresh = Site::new(place, settings(site), scheme, self.timing, random, self.now);
        self.sites[site] = fresh;
    }

    /// A world with all channels up and keys agreed on.
    pub fn up(sites: usize, scheme: impl Fn(&mut Random) -> Box<dyn Scheme>) -> Self {
        let mut world = Self::new(sites, scheme);
        world.connect();
        world
    }

    /// A world under `sealed` with all channels up, in which the first keepalives have been
    /// delivered.
    pub fn up_sealed(sites: usize) -> Self {
        let mut world = Self::up(sites, sealed);
        world.advance(Duration::from_millis(1));
        world.deliver();
        world
    }

    /// A world with all channels up; keys and everything else that is drawn depend on `seed`.
    pub fn up_from(
        seed: u64,
        sites: usize,
        scheme: impl Fn(&mut Random) -> Box<dyn Scheme>,
    ) -> Self {
        let mut world = Self::with_seed(seed, sites, scheme, |_| {}, quiet());
        world.connect();
        world
    }

    /// Brings up the channels between all sites.
    pub fn connect(&mut self) {
        for a in 0..self.sites.len() {
            for b in 0..a {
                self.connect_two(a, b, [(a * 16 + b) as u8; 32]);
            }
        }
        self.settle();
    }

    pub fn connect_two(&mut self, a: usize, b: usize, exported: [u8; 32]) {
        for (site, other) in [(a, b), (b, a)] {
            let peer = index(site, other);
            self.sites[site].control.handle_up(self.now, peer, exported.into());
        }
    }

    /// Advances the time and runs all timers.
    pub fn advance(&mut self, duration: Duration) {
        self.now += duration;
        for site in &mut self.sites {
            site.control.handle_timeout(self.now);
        }
        self.settle();
    }

    /// Delivers messages, and messages that they cause, until none is left. Datagrams of the
    /// control path are appended to the wire.
    pub fn settle(&mut self) {
        loop {
            for site in 0..self.sites.len() {
                while let Some(output) = self.sites[site].control.poll(self.now) {
                    self.act(site, output);
                }
                let gateway = Arc::clone(&self.sites[site].gateway);
                gateway.dispatch_released(self.now, 0, &mut self.sink(site));
            }
            let Some((from, to, bytes)) = self.messages.pop_front() else { return };
            let peer = index(to, from);
            self.sites[to].control.handle_message(self.now, peer, &bytes);
        }
    }

    fn act(&mut self, site: usize, output: Output) {
        match output {
            Output::Message(peer, bytes) => {
                self.messages.push_back((site, other(site, peer), bytes.to_vec()));
            }
            Output::Mka(peer, bytes) => {
                self.messages.push_back((site, other(site, peer), bytes));
            }
            Output::Datagram(peer, kind, content) => {
                if let Some(bytes) = self.seal_whole(site, peer, kind, &content) {
                    self.wire.push_back(Datagram { from: site, to: other(site, peer), bytes });
                }
            }
            Output::Frame(frame) => self.sites[site].lan.push(frame),
            Output::Close(peer, error) => panic!("{site} closes the channel to {peer:?}: {error}"),
            Output::Event(event) => self.sites[site].events.push(event),
        }
    }

    fn seal_whole(
        &self,
        site: usize,
        peer: PeerIndex,
        kind: EncryptedContent,
        content: &[u8],
    ) -> Option<Vec<u8>> {
        in_room(content, |packet| {
            self.sites[site].gateway.seal_encrypted(CONTROL, peer, kind, packet).ok()
        })
    }

    /// Puts a frame on the LAN of a site; the datagrams that it causes are appended to the wire.
    pub fn frame(&mut self, site: usize, frame: &[u8]) {
        self.frame_in_lane(site, 0, frame);
    }

    pub fn frame_in_lane(&mut self, site: usize, lane: u8, frame: &[u8]) {
        let gateway = Arc::clone(&self.sites[site].gateway);
        gateway.dispatch(self.now, lane, Buffer::new(frame), &mut self.sink(site));
    }

    /// What a site sends is appended to the wire.
    fn sink(&mut self, site: usize) -> WireSink<'_> {
        WireSink { site, wire: &mut self.wire }
    }

    /// Delivers all datagrams on the wire, and all datagrams that they cause.
    pub fn deliver(&mut self) {
        loop {
            while let Some(datagram) = self.wire.pop_front() {
                self.arrive(&datagram);
            }
            self.settle();
            if self.wire.is_empty() {
                return;
            }
        }
    }

    /// Delivers the datagrams that are on the wire now; the datagrams that they cause stay on the
    /// wire.
    pub fn deliver_once(&mut self) {
        for datagram in core::mem::take(&mut self.wire) {
            self.arrive(&datagram);
        }
        self.settle();
    }

    /// Delivers one datagram; returns whether the gateway put a frame on its LAN.
    pub fn arrive(&mut self, datagram: &Datagram) -> bool {
        let from = address(datagram.from);
        datagram.bytes.len() <= self.carries && self.arrive_from(from, datagram)
    }

    pub fn arrive_from(&mut self, from: SocketAddr, datagram: &Datagram) -> bool {
        let site = &mut self.sites[datagram.to];
        let mut arrived = None;
        let frame = in_room(&datagram.bytes, |packet| {
            arrived = site.gateway.open_datagram(self.now, from, packet).ok();
            Some(())
        });
        let before = site.lan.len();
        match arrived {
            Some(Received::Frame(_)) => site.lan.extend(frame),
            Some(Received::Reassembled(_, frame)) => site.lan.push(frame),
            _ => {}
        }
        site.lan.len() > before
    }

    /// Carries a frame from one LAN to the others, without any loss.
    pub fn carry(&mut self, site: usize, frame: &[u8]) {
        self.frame(site, frame);
        self.deliver();
    }
}

/// The drops of `site` that are attributed to `from`, or to no peer.
pub fn drops(world: &World, site: usize, from: usize, reason: Reason) -> u64 {
    let gateway = &world.sites[site].gateway;
    let link = gateway.links().get(index(site, from)).unwrap();
    link.counters().drops.get(reason) + gateway.counters().drops.get(reason)
}

/// A packet with room around it.
struct Buffer {
    bytes: Vec<u8>,
    packet: Range<usize>,
}

impl Buffer {
    fn new(content: &[u8]) -> Self {
        let bytes = [&[0; ROOM][..], content, &[0; ROOM]].concat();
        Self { bytes, packet: ROOM..ROOM + content.len() }
    }

    fn content(&self) -> &[u8] {
        &self.bytes[self.packet.clone()]
    }
}

/// The wire, for datagrams of one site.
struct WireSink<'a> {
    site: usize,
    wire: &'a mut VecDeque<Datagram>,
}

impl Sink for WireSink<'_> {
    type Buffer = Buffer;

    fn bytes<'a>(&'a self, buffer: &'a Buffer) -> &'a [u8] {
        buffer.content()
    }

    fn with<R>(&mut self, buffer: &mut Buffer, change: impl FnOnce(&mut PacketBuf<'_>) -> R) -> R {
        let mut packet = PacketBuf::new(&mut buffer.bytes, buffer.packet.clone()).unwrap();
        let result = change(&mut packet);
        buffer.packet = packet.range();
        result
    }

    fn allocate_with(&mut self, bytes: &[u8]) -> Option<Buffer> {
        Some(Buffer::new(bytes))
    }

    fn copy(&mut self, buffer: &Buffer) -> Option<Buffer> {
        Some(Buffer::new(buffer.content()))
    }

    fn copy_part(&mut self, buffer: &Buffer, part: Range<usize>) -> Option<Buffer> {
        Some(Buffer::new(&buffer.content()[part]))
    }

    fn send(&mut self, to: Destination, datagram: Buffer) {
        let bytes = datagram.content().to_vec();
        self.wire.push_back(Datagram { from: self.site, to: other(self.site, to.peer), bytes });
    }

    fn release(&mut self, _buffer: Buffer) {}
}

/// Calls a function with a copy of `content` that has room around it; returns the resulting packet.
pub fn in_room(
    content: &[u8],
    work: impl FnOnce(&mut PacketBuf<'_>) -> Option<()>,
) -> Option<Vec<u8>> {
    let mut buffer = [&[0; ROOM][..], content, &[0; ROOM]].concat();
    let mut packet = PacketBuf::new(&mut buffer, ROOM..ROOM + content.len())?;
    work(&mut packet)?;
    Some(packet.bytes().to_vec())
}

pub fn address(site: usize) -> SocketAddr {
    ([192, 0, 2, site as u8 + 1], 8885).into()
}

/// The peer index that `other` has at `site`.
pub fn index(site: usize, other: usize) -> PeerIndex {
    PeerIndex(if other < site { other } else { other - 1 } as u8)
}

/// The site that has the index `peer` at `site`.
pub fn other(site: usize, peer: PeerIndex) -> usize {
    let peer = usize::from(peer.0);
    if peer < site { peer } else { peer + 1 }
}

/// The address of a station.
pub fn station(site: usize, number: u8) -> [u8; 6] {
    [2, 0, 0, 0, site as u8, number]
}

/// The values that the header of a frame is made from.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub source: [u8; 6],
    pub destination: [u8; 6],
    pub port: u16,
    pub an: u8,
}

impl Flow {
    /// A flow from the first station of `from` to the first station of `to`.
    pub fn between(from: usize, to: usize) -> Self {
        Self { source: station(from, 1), destination: station(to, 1), port: 1, an: 0 }
    }

    /// The flow in the opposite direction.
    pub fn back(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }

    /// A frame as a MACsec device would send it, with `len` bytes of random secure data in place of
    /// ciphertext.
    pub fn frame(&self, pn: u32, len: usize) -> Vec<u8> {
        self.frame_with(pn, len, [None; 2])
    }

    pub fn frame_with(
        &self,
        pn: u32,
        len: usize,
        vlan_tags: [Option<lightseal_macsec::VlanTag>; 2],
    ) -> Vec<u8> {
        let tag = SecTag {
            sci_field: SciField::Explicit(Sci { address: self.source, port: self.port }),
            protection: Protection::Confidential,
            an: AssociationNumber::new(self.an).unwrap(),
            short_length: ShortLength::of(len),
            pn,
        };
        let header = Header { destination: self.destination, source: self.source, vlan_tags, tag };
        let mut frame = vec![0; header.len() + len + 16];
        let mut writer = Writer::new(&mut frame);
        header.write(&mut writer).unwrap();
        // No two frames have the same ICV.
        let word = |[a, b, c, d, e, f]: [u8; 6]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let addresses = word(self.source).rotate_left(16) ^ word(self.destination);
        let seed = u64::from(pn) << 32 ^ u64::from(self.port) << 16 ^ addresses.wrapping_mul(ODD);
        Random::insecure(seed).fill(&mut frame[header.len()..]);
        frame
    }
}
