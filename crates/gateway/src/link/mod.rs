//! Sealed datagrams between two gateways.
//!
//! A [`Link`] is what a gateway knows of one peer; [`Links`] has all of them, and finds the keys
//! that open a datagram.

mod inbound;
mod outbound;
mod place;
mod prefix;

pub use inbound::{Inbound, OpenError};
pub use outbound::{Outbound, SEALING, SealError, TAG_LEN, Used};
pub use prefix::{PREFIX_LEN, Prefix};

use crate::bridge::PeerIndex;
use crate::codepoints::{Type, Whole};
use crate::counters::{PeerCounters, Reason};
use crate::hashing::{Keyed, Table};
use crate::keys::GatewayId;
use crate::pcbc::Pcbc;
use crate::{read, write};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use place::{SILENCE, Sighting, Verdict, Whereabouts};
use std::sync::{Arc, RwLock};
use vocabulary::{Instant, PacketBuf, Random};

const IPV4_HEADERS: usize = 20 + 8;
const IPV6_HEADERS: usize = 40 + 8;

/// What a gateway knows of one peer.
#[derive(Debug)]
pub struct Link {
    /// Which peer.
    pub peer: PeerIndex,
    /// Who the peer is.
    pub id: GatewayId,
    /// What came and went.
    pub counters: PeerCounters,
    /// Whether the peer has no endpoint, so that its port is followed too.
    roams: bool,
    outbound: RwLock<Option<Arc<Outbound>>>,
    place: RwLock<Whereabouts>,
    /// Bytes of the IP and UDP headers on the way there; 0 where there is no address. Every frame
    /// asks.
    headers: AtomicUsize,
    /// When the peer was heard from its address last, in microseconds.
    heard_at: AtomicU64,
    /// When anything authentic came from the peer last, in microseconds.
    opened_at: AtomicU64,
    /// Whether nothing that is sent to the peer is answered.
    unanswered: AtomicBool,
    /// Whether a frame went there, since somebody asked, that needs more than the least MTU.
    sent_long: AtomicBool,
    /// Bytes of an IP packet that arrive in one piece.
    mtu: AtomicUsize,
    wants_epoch: AtomicBool,
    next_piece: AtomicU32,
}

impl Link {
    /// A peer without keys yet, at `address` if that is known, to which the path carries IP
    /// packets of `mtu` bytes. If it `roams`, it has no endpoint: its port is that of what it sends.
    pub fn new(
        peer: PeerIndex,
        id: GatewayId,
        address: Option<SocketAddr>,
        roams: bool,
        mtu: usize,
    ) -> Self {
        let link = Self {
            peer,
            id,
            counters: PeerCounters::default(),
            roams,
            outbound: RwLock::new(None),
            place: RwLock::default(),
            headers: AtomicUsize::new(0),
            heard_at: AtomicU64::new(0),
            opened_at: AtomicU64::new(0),
            unanswered: AtomicBool::new(false),
            sent_long: AtomicBool::new(false),
            mtu: AtomicUsize::new(mtu),
            wants_epoch: AtomicBool::new(false),
            next_piece: AtomicU32::new(0),
        };
        link.set_address(address);
        link
    }

    /// Whether there are keys for the peer, and an address.
    pub fn is_up(&self) -> bool {
        self.headers.load(Ordering::Relaxed) > 0 && read(&self.outbound).is_some()
    }

    /// Where datagrams for the peer go.
    pub fn address(&self) -> Option<SocketAddr> {
        read(&self.place).address()
    }

    /// Where datagrams for the peer go, and whether they are to go from the port that it sends to: a
    /// NAT on its way lets in nothing else.
    pub fn destination(&self) -> Option<(SocketAddr, bool)> {
        let place = *read(&self.place);
        place.address().map(|address| (address, self.roams || place.is_learned()))
    }

    /// Datagrams go to `address` from now on, whatever was learned.
    pub fn set_address(&self, address: Option<SocketAddr>) {
        self.change_place(|place| place.set(address));
    }

    /// The configuration or the resolver says that the peer is at `address`. An address that was
    /// learned since counts more while what is sent there is answered.
    pub fn tell_address(&self, address: SocketAddr) {
        self.change_place(|place| place.tell(address, self.is_unanswered()));
    }

    /// The management channel to the peer came from the host of `address`; the port is that of its
    /// endpoint. Datagrams go there unless the peer is heard from where it was.
    pub fn tell_channel(&self, now: Instant, address: SocketAddr) {
        let silent = self.is_silent(now);
        self.change_place(|place| place.connect(address, silent, self.is_unanswered()));
    }

    /// The peer is where `former`, a link to it that is no more, has found it.
    pub fn resume(&self, former: &Self) {
        let known = *read(&former.place);
        self.change_place(|place| *place = known);
    }

    fn change_place(&self, change: impl FnOnce(&mut Whereabouts)) {
        let mut place = write(&self.place);
        change(&mut place);
        let headers = place.address().map_or(0, |address| match address.ip().to_canonical() {
            IpAddr::V4(_) => IPV4_HEADERS,
            IpAddr::V6(_) => IPV6_HEADERS,
        });
        self.headers.store(headers, Ordering::Relaxed);
    }

    /// Whether nothing that is sent to the peer is answered.
    pub fn is_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Says whether what is sent to the peer is answered.
    pub(crate) fn set_unanswered(&self, unanswered: bool) {
        self.unanswered.store(unanswered, Ordering::Relaxed);
    }

    /// When anything authentic came from the peer last.
    pub(crate) fn opened_at(&self) -> Instant {
        Instant::from_micros(self.opened_at.load(Ordering::Relaxed))
    }

    /// A frame goes there that needs more than the least MTU.
    pub(crate) fn note_long(&self) {
        if !self.sent_long.load(Ordering::Relaxed) {
            self.sent_long.store(true, Ordering::Relaxed);
        }
    }

    /// Whether such a frame went there since [`forget_long`](Self::forget_long).
    pub(crate) fn has_sent_long(&self) -> bool {
        self.sent_long.load(Ordering::Relaxed)
    }

    /// Such frames are noted anew.
    pub(crate) fn forget_long(&self) {
        self.sent_long.store(false, Ordering::Relaxed);
    }

    fn is_silent(&self, now: Instant) -> bool {
        now - Instant::from_micros(self.heard_at.load(Ordering::Relaxed)) >= SILENCE
    }

    /// Bytes of UDP payload that arrive in one piece.
    pub fn payload(&self) -> usize {
        self.mtu().saturating_sub(self.headers())
    }

    /// Bytes of an IP packet that arrive in one piece.
    pub fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed)
    }

    /// The path carries IP packets of `mtu` bytes in one piece.
    pub fn set_mtu(&self, mtu: usize) {
        self.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Bytes of the IP and UDP headers on the way to the peer.
    pub fn headers(&self) -> usize {
        match self.headers.load(Ordering::Relaxed) {
            0 => IPV6_HEADERS,
            headers => headers,
        }
    }

    /// What is sealed from now on is sealed with these keys, or nothing is.
    pub fn set_outbound(&self, outbound: Option<Arc<Outbound>>) {
        *write(&self.outbound) = outbound;
        self.wants_epoch.store(false, Ordering::Relaxed);
    }

    /// The epoch that is sealed in.
    pub fn epoch(&self) -> Option<u32> {
        read(&self.outbound).as_ref().map(|outbound| outbound.epoch())
    }

    /// Whether the keys near their end.
    pub fn wants_epoch(&self) -> bool {
        self.wants_epoch.load(Ordering::Relaxed)
    }

    /// A number for the pieces of a frame that is split.
    pub fn next_piece(&self) -> u32 {
        self.next_piece.fetch_add(1, Ordering::Relaxed)
    }

    /// Seals `packet` in place, see [`Outbound::seal`].
    ///
    /// # Errors
    /// [`Reason::NoPeer`] without keys, [`Reason::NoBuffer`] without room, and
    /// [`Reason::KeyExhausted`].
    pub fn seal(
        &self,
        lane: u8,
        kind: Type,
        sealed: u8,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(), Reason> {
        let outbound = read(&self.outbound);
        let outbound = outbound.as_ref().ok_or(Reason::NoPeer)?;
        match outbound.seal(lane, kind, sealed, packet) {
            Ok(used) => {
                if used.ages {
                    self.wants_epoch.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(SealError::Room) => Err(Reason::NoBuffer),
            Err(SealError::Exhausted) => {
                self.wants_epoch.store(true, Ordering::Relaxed);
                Err(Reason::KeyExhausted)
            }
        }
    }

    /// Lends the cipher of the scheme `encryption-paper` towards this peer; returns what the
    /// peer calls the key.
    ///
    /// # Errors
    /// [`Reason::NoPeer`] without keys, [`Reason::NoBuffer`] if `encrypt` found too little.
    pub fn encrypt_blocks(&self, encrypt: impl FnOnce(&Pcbc) -> Option<()>) -> Result<u32, Reason> {
        let outbound = read(&self.outbound);
        let outbound = outbound.as_ref().ok_or(Reason::NoPeer)?;
        encrypt(outbound.pcbc()).ok_or(Reason::NoBuffer)?;
        Ok(outbound.index())
    }

    /// Makes a datagram of one of the kinds that are encrypted whole, in place.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_whole(
        &self,
        lane: u8,
        kind: Whole,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(), Reason> {
        packet.prepend(&[kind as u8]).ok_or(Reason::NoBuffer)?;
        self.seal(lane, Type::Whole, 0, packet)
    }

    /// Takes note of where an authentic datagram came from, the newest of its lane; `first` under
    /// new keys.
    fn heard_from(&self, now: Instant, from: SocketAddr, lane: u8, first: bool) {
        let (silent, lost) = (self.is_silent(now), self.is_unanswered());
        let sighting = Sighting { from, lane, first, silent, lost };
        let verdict = read(&self.place).judge(&sighting, self.roams);
        match verdict {
            Verdict::Elsewhere => return,
            Verdict::Here => {}
            Verdict::Moved => self.change_place(|place| place.follow(&sighting, self.roams)),
        }
        note(&self.heard_at, now);
    }
}

/// Notes a time that nobody asks for more precisely than by [`PRECISION`]: threads share it.
fn note(at: &AtomicU64, now: Instant) {
    if now.as_micros().saturating_sub(at.load(Ordering::Relaxed)) >= PRECISION {
        at.store(now.as_micros(), Ordering::Relaxed);
    }
}

/// Microseconds between two notes of a time.
const PRECISION: u64 = 1000;

/// All peers, and the keys by which what they send is opened.
#[derive(Debug)]
pub struct Links {
    links: Vec<Link>,
    receivers: RwLock<Table<u32, Receiver>>,
}

#[derive(Debug)]
struct Receiver {
    peer: PeerIndex,
    inbound: Inbound,
    /// When these keys, which were replaced, open nothing any more.
    until: Option<Instant>,
}

impl Links {
    /// These peers, each at the place that its index says.
    pub fn new(links: Vec<Link>, random: &mut Random) -> Self {
        let keyed = Keyed::new(random.array());
        // What a gateway that starts again numbers meets no pieces from before.
        for link in &links {
            link.next_piece.store(u32::from_be_bytes(random.array()), Ordering::Relaxed);
        }
        Self { links, receivers: RwLock::new(Table::with_hasher(keyed)) }
    }

    /// Every peer.
    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// One peer.
    pub fn get(&self, peer: PeerIndex) -> Option<&Link> {
        self.links.get(usize::from(peer.0))
    }

    /// An index by which no keys are known yet.
    pub fn free_index(&self, random: &mut Random) -> u32 {
        let receivers = read(&self.receivers);
        loop {
            let index = u32::from_be_bytes(random.array());
            if !receivers.contains_key(&index) {
                return index;
            }
        }
    }

    /// Opens what arrives for `index` with these keys from now on.
    pub fn install(&self, index: u32, peer: PeerIndex, inbound: Inbound) {
        write(&self.receivers).insert(index, Receiver { peer, inbound, until: None });
    }

    /// Opens nothing more with these keys.
    pub fn remove(&self, index: u32) {
        write(&self.receivers).remove(&index);
    }

    /// Whether anything was opened with these keys: then the peer seals with them.
    pub fn is_used(&self, index: u32) -> bool {
        read(&self.receivers).get(&index).is_some_and(|receiver| receiver.inbound.is_used())
    }

    /// How many keys there are to open with.
    pub fn receivers(&self) -> usize {
        read(&self.receivers).len()
    }

    /// All keys of `peer` but those at `keep` open nothing any more after `until`.
    pub fn retire(&self, peer: PeerIndex, keep: &[u32], until: Instant) {
        for (&index, receiver) in write(&self.receivers).iter_mut() {
            if receiver.peer == peer && !keep.contains(&index) {
                receiver.until = Some(receiver.until.map_or(until, |earlier| earlier.min(until)));
            }
        }
    }

    /// Forgets keys that open nothing any more. To be called about once a second.
    pub fn expire(&self, now: Instant) {
        write(&self.receivers).retain(|_, receiver| receiver.until.is_none_or(|until| now < until));
    }

    /// Lends the cipher of the scheme `encryption-paper` by which what comes for `index` is
    /// decrypted, and says which peer has it.
    ///
    /// # Errors
    /// Where nobody has that index.
    pub fn decrypt_blocks(
        &self,
        now: Instant,
        index: u32,
        decrypt: impl FnOnce(&Pcbc),
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        let receivers = read(&self.receivers);
        let receiver = receivers
            .get(&index)
            .filter(|receiver| receiver.until.is_none_or(|until| now < until))
            .ok_or((None, Reason::UnknownReceiver))?;
        decrypt(receiver.inbound.pcbc());
        Ok(receiver.peer)
    }

    /// Opens a sealed datagram in place and says whose it is.
    ///
    /// # Errors
    /// As [`Inbound::open`], and where nobody has its receiver index.
    pub fn open(
        &self,
        now: Instant,
        from: SocketAddr,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(PeerIndex, Prefix), (Option<PeerIndex>, Reason)> {
        let prefix = Prefix::decode(packet.bytes()).ok_or((None, Reason::Malformed))?;
        let receivers = read(&self.receivers);
        let receiver = receivers
            .get(&prefix.receiver)
            .filter(|receiver| receiver.until.is_none_or(|until| now < until))
            .ok_or((None, Reason::UnknownReceiver))?;
        let peer = receiver.peer;
        let first = !receiver.inbound.is_used();
        let newest = receiver.inbound.open(&prefix, packet).map_err(|error| {
            let reason = match error {
                OpenError::Malformed => Reason::Malformed,
                OpenError::Replayed => Reason::Replayed,
                OpenError::Old => Reason::Old,
                OpenError::Forged => Reason::Forged,
                OpenError::Exhausted => Reason::ForgedTooOften,
            };
            (Some(peer), reason)
        })?;
        let link = self.get(peer).ok_or((None, Reason::UnknownPeer))?;
        note(&link.opened_at, now);
        if newest {
            link.heard_from(now, from, prefix.lane, first);
        }
        Ok((peer, prefix))
    }
}
