//! Sealed datagrams between two gateways.
//!
//! A [`Link`] is the state of one peer. [`Links`] contains all peers, and finds the keys that open
//! a datagram.

mod cipher;
mod inbound;
mod outbound;
mod peer_address;
mod prefix;

pub use cipher::FrameCipher;
pub use inbound::{Inbound, OpenError};
pub use outbound::{KeyUsage, Outbound, SEAL_OVERHEAD, SealError, TAG_LEN};
pub use prefix::{PREFIX_LEN, Prefix};

use crate::codepoints::{DatagramType, EncryptedContent};
use crate::counters::{PeerCounters, Reason};
use crate::hashing::{Keyed, Table};
use crate::keys::GatewayId;
use crate::peer_set::PeerIndex;
use crate::{read, write};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use lightseal_core::{Instant, PacketBuf, Random};
use peer_address::{AddressChange, AddressEvidence, PeerAddress, ROAMING_SILENCE};
use std::sync::{Arc, RwLock};

/// Bytes of the IPv4 and UDP headers.
const IPV4_HEADERS: usize = 20 + 8;
/// Bytes of the IPv6 and UDP headers.
const IPV6_HEADERS: usize = 40 + 8;

/// What decides about the UDP port of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPort {
    /// The configured endpoint of the peer.
    Configured,
    /// The authentic datagrams of the peer, which has no configured endpoint: its port follows them.
    Learned,
}

/// The state of one peer.
#[derive(Debug)]
pub struct Link {
    peer: PeerIndex,
    id: GatewayId,
    counters: PeerCounters,
    port: PeerPort,
    outbound: RwLock<Option<Arc<Outbound>>>,
    peer_address: RwLock<PeerAddress>,
    /// Bytes of the IP and UDP headers of datagrams to the peer; 0 if it has no address. Read for
    /// every frame.
    headers: AtomicUsize,
    /// When the last datagram arrived from the peer's address, in microseconds.
    heard_at: AtomicU64,
    /// When the last authentic datagram of the peer arrived, in microseconds.
    opened_at: AtomicU64,
    /// Whether nothing that is sent to the peer is answered.
    unanswered: AtomicBool,
    /// Whether a frame was sent to the peer, since the last
    /// [`clear_long_frame`](Self::clear_long_frame), that needs an MTU above
    /// [`LEAST_MTU`](crate::tuning::LEAST_MTU).
    sent_long: AtomicBool,
    /// The path's MTU: IP packets of this many bytes reach the peer without fragmentation.
    mtu: AtomicUsize,
    /// Whether a new epoch should be agreed on, since the keys are nearly used up.
    needs_rekey: AtomicBool,
    /// The number for the pieces of the next frame that is split.
    next_piece_number: AtomicU32,
}

impl Link {
    /// Creates the state of a peer without keys, at `address` if that is known, on a path whose MTU
    /// is `mtu` bytes.
    pub fn new(
        peer: PeerIndex,
        id: GatewayId,
        address: Option<SocketAddr>,
        port: PeerPort,
        mtu: usize,
    ) -> Self {
        let link = Self {
            peer,
            id,
            counters: PeerCounters::default(),
            port,
            outbound: RwLock::new(None),
            peer_address: RwLock::default(),
            headers: AtomicUsize::new(0),
            heard_at: AtomicU64::new(0),
            opened_at: AtomicU64::new(0),
            unanswered: AtomicBool::new(false),
            sent_long: AtomicBool::new(false),
            mtu: AtomicUsize::new(mtu),
            needs_rekey: AtomicBool::new(false),
            next_piece_number: AtomicU32::new(0),
        };
        link.set_address(address);
        link
    }

    /// The index of the peer.
    pub const fn peer(&self) -> PeerIndex {
        self.peer
    }

    /// The identity of the peer.
    pub const fn id(&self) -> GatewayId {
        self.id
    }

    /// Counters of the frames to and from the peer.
    pub const fn counters(&self) -> &PeerCounters {
        &self.counters
    }

    /// Whether there are keys for the peer, and an address.
    pub fn is_up(&self) -> bool {
        self.headers.load(Ordering::Relaxed) > 0 && read(&self.outbound).is_some()
    }

    /// The address that datagrams for the peer are sent to.
    pub fn address(&self) -> Option<SocketAddr> {
        read(&self.peer_address).address()
    }

    /// The address that datagrams for the peer are sent to, and whether they must be sent from the
    /// local port that the peer sends to: a NAT in front of the peer lets in no others.
    pub fn destination(&self) -> Option<(SocketAddr, bool)> {
        let peer_address = *read(&self.peer_address);
        peer_address
            .address()
            .map(|address| (address, self.port == PeerPort::Learned || peer_address.is_learned()))
    }

    /// Sends datagrams to `address` from now on, whatever was learned.
    pub fn set_address(&self, address: Option<SocketAddr>) {
        self.change_address(|peer_address| peer_address.set(address));
    }

    /// Notes the address from the configuration or the resolver. An address that was learned since
    /// is kept as long as the peer answers.
    pub fn configure_address(&self, address: SocketAddr) {
        self.change_address(|peer_address| peer_address.configure(address, self.is_unanswered()));
    }

    /// Notes that the management channel to the peer came from the host of `address`; the port is
    /// that of the peer's endpoint. Datagrams are sent there, unless some still arrive from the
    /// peer's present address.
    pub fn note_channel_address(&self, now: Instant, address: SocketAddr) {
        let silent = self.is_silent(now);
        self.change_address(|peer_address| {
            peer_address.note_channel(address, silent, self.is_unanswered());
        });
    }

    /// Takes over the address that `former`, an earlier link to the peer, has learned.
    pub fn adopt_address(&self, former: &Self) {
        let known = *read(&former.peer_address);
        self.change_address(|peer_address| *peer_address = known);
    }

    fn change_address(&self, change: impl FnOnce(&mut PeerAddress)) {
        let mut peer_address = write(&self.peer_address);
        change(&mut peer_address);
        let headers =
            peer_address.address().map_or(0, |address| match address.ip().to_canonical() {
                IpAddr::V4(_) => IPV4_HEADERS,
                IpAddr::V6(_) => IPV6_HEADERS,
            });
        self.headers.store(headers, Ordering::Relaxed);
    }

    /// Whether nothing that is sent to the peer is answered.
    pub fn is_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Sets whether nothing that is sent to the peer is answered.
    pub(crate) fn set_unanswered(&self, unanswered: bool) {
        self.unanswered.store(unanswered, Ordering::Relaxed);
    }

    /// When the last authentic datagram of the peer arrived.
    pub(crate) fn opened_at(&self) -> Instant {
        Instant::from_micros(self.opened_at.load(Ordering::Relaxed))
    }

    /// Notes that a frame is sent to the peer that needs an MTU above
    /// [`LEAST_MTU`](crate::tuning::LEAST_MTU).
    pub(crate) fn note_long_frame(&self) {
        if !self.sent_long.load(Ordering::Relaxed) {
            self.sent_long.store(true, Ordering::Relaxed);
        }
    }

    /// Whether such a frame was sent since the last [`clear_long_frame`](Self::clear_long_frame).
    pub(crate) fn has_sent_long_frame(&self) -> bool {
        self.sent_long.load(Ordering::Relaxed)
    }

    /// Forgets that such a frame was sent.
    pub(crate) fn clear_long_frame(&self) {
        self.sent_long.store(false, Ordering::Relaxed);
    }

    fn is_silent(&self, now: Instant) -> bool {
        now - Instant::from_micros(self.heard_at.load(Ordering::Relaxed)) >= ROAMING_SILENCE
    }

    /// The longest UDP payload in bytes that reaches the peer without fragmentation.
    pub fn payload(&self) -> usize {
        self.mtu().saturating_sub(self.headers())
    }

    /// The path's MTU: IP packets of this many bytes reach the peer without fragmentation.
    pub fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed)
    }

    /// Sets the path's MTU to `mtu` bytes.
    pub fn set_mtu(&self, mtu: usize) {
        self.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Bytes of the IP and UDP headers of datagrams to the peer.
    pub fn headers(&self) -> usize {
        match self.headers.load(Ordering::Relaxed) {
            0 => IPV6_HEADERS,
            headers => headers,
        }
    }

    /// Seals with these keys from now on; `None` if nothing can be sealed any more.
    pub fn set_outbound(&self, outbound: Option<Arc<Outbound>>) {
        *write(&self.outbound) = outbound;
        self.needs_rekey.store(false, Ordering::Relaxed);
    }

    /// The epoch whose keys seal.
    pub fn epoch(&self) -> Option<u32> {
        read(&self.outbound).as_ref().map(|outbound| outbound.epoch())
    }

    /// Whether the keys are nearly used up.
    pub fn needs_rekey(&self) -> bool {
        self.needs_rekey.load(Ordering::Relaxed)
    }

    /// A number for the pieces of a frame that is split.
    pub fn next_piece_number(&self) -> u32 {
        self.next_piece_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Seals `packet` in place, see [`Outbound::seal`].
    ///
    /// # Errors
    /// [`Reason::NoPeer`] if there are no keys, [`Reason::NoBuffer`] if the packet has no room, and
    /// [`Reason::KeyExhausted`] if the lane's key is used up.
    pub fn seal(
        &self,
        lane: u8,
        kind: DatagramType,
        sealed: u8,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(), Reason> {
        let outbound = read(&self.outbound);
        let outbound = outbound.as_ref().ok_or(Reason::NoPeer)?;
        match outbound.seal(lane, kind, sealed, packet) {
            Ok(used) => {
                if used.near_limit {
                    self.needs_rekey.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(SealError::Room) => Err(Reason::NoBuffer),
            Err(SealError::Exhausted) => {
                self.needs_rekey.store(true, Ordering::Relaxed);
                Err(Reason::KeyExhausted)
            }
        }
    }

    /// Encrypts `packet` in place with the scheme's own cipher for this peer. Returns the receiver
    /// index, by which the peer finds the keys.
    ///
    /// # Errors
    /// [`Reason::NoPeer`] if there are no keys or the scheme has no cipher, and the errors of the
    /// cipher.
    pub fn encrypt(&self, packet: &mut PacketBuf<'_>) -> Result<u32, Reason> {
        let outbound = read(&self.outbound);
        let outbound = outbound.as_ref().ok_or(Reason::NoPeer)?;
        outbound.cipher().ok_or(Reason::NoPeer)?.encrypt(packet)?;
        Ok(outbound.index())
    }

    /// Makes a datagram of one of the kinds that are encrypted as a whole, in place.
    ///
    /// # Errors
    /// As for [`seal`](Self::seal).
    pub fn seal_encrypted(
        &self,
        lane: u8,
        kind: EncryptedContent,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(), Reason> {
        packet.prepend(&[kind as u8]).ok_or(Reason::NoBuffer)?;
        self.seal(lane, DatagramType::Encrypted, 0, packet)
    }

    /// Notes the source address of an authentic datagram, the newest of its lane. `first`: it is
    /// the first under new keys.
    fn note_source(&self, now: Instant, from: SocketAddr, lane: u8, first: bool) {
        let (silent, unanswered) = (self.is_silent(now), self.is_unanswered());
        let evidence = AddressEvidence { from, lane, first, silent, unanswered };
        let change = read(&self.peer_address).assess(&evidence, self.port);
        match change {
            AddressChange::OtherPort => return,
            AddressChange::Unchanged => {}
            AddressChange::Moved => {
                self.change_address(|peer_address| peer_address.move_to(&evidence, self.port));
            }
        }
        store_time(&self.heard_at, now);
    }
}

/// Stores a time for which the [`PRECISION`] suffices, so that threads seldom write to shared
/// memory.
fn store_time(at: &AtomicU64, now: Instant) {
    if now.as_micros().saturating_sub(at.load(Ordering::Relaxed)) >= PRECISION {
        at.store(now.as_micros(), Ordering::Relaxed);
    }
}

/// Shortest interval in microseconds between two updates of a time.
const PRECISION: u64 = 1000;

/// All peers, and the keys that open their datagrams.
#[derive(Debug)]
pub struct Links {
    links: Vec<Link>,
    receivers: RwLock<Table<u32, Receiver>>,
}

/// The keys with which datagrams for one receiver index are opened.
#[derive(Debug)]
struct Receiver {
    peer: PeerIndex,
    inbound: Inbound,
    /// When these keys, which were replaced, expire.
    until: Option<Instant>,
}

impl Receiver {
    /// The keys for `index`, unless they have expired.
    fn find(receivers: &Table<u32, Self>, now: Instant, index: u32) -> Option<&Self> {
        receivers.get(&index).filter(|receiver| receiver.until.is_none_or(|until| now < until))
    }
}

impl Links {
    /// Creates the table; the position of each link must be its peer's index.
    pub fn new(links: Vec<Link>, random: &mut Random) -> Self {
        let keyed = Keyed::new(random.array());
        // A gateway that restarts begins at random numbers, so that its pieces are unlikely to
        // match incomplete frames at its peers.
        for link in &links {
            link.next_piece_number.store(u32::from_be_bytes(random.array()), Ordering::Relaxed);
        }
        Self { links, receivers: RwLock::new(Table::with_hasher(keyed)) }
    }

    /// Iterates over all links.
    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// The link to `peer`.
    pub fn get(&self, peer: PeerIndex) -> Option<&Link> {
        self.links.get(usize::from(peer.0))
    }

    /// A random receiver index that is not in use.
    pub fn free_index(&self, random: &mut Random) -> u32 {
        let receivers = read(&self.receivers);
        loop {
            let index = u32::from_be_bytes(random.array());
            if !receivers.contains_key(&index) {
                return index;
            }
        }
    }

    /// Opens datagrams for `index` with these keys from now on.
    pub fn install(&self, index: u32, peer: PeerIndex, inbound: Inbound) {
        write(&self.receivers).insert(index, Receiver { peer, inbound, until: None });
    }

    /// Removes the keys at `index`.
    pub fn remove(&self, index: u32) {
        write(&self.receivers).remove(&index);
    }

    /// Whether any datagram was opened with the keys at `index`, so that the peer seals with them.
    pub fn is_used(&self, index: u32) -> bool {
        read(&self.receivers).get(&index).is_some_and(|receiver| receiver.inbound.is_used())
    }

    /// How many receiver indices have keys.
    pub fn receiver_count(&self) -> usize {
        read(&self.receivers).len()
    }

    /// Has all keys of `peer` expire at `until` at the latest, except those at the indices in
    /// `keep`.
    pub fn retire(&self, peer: PeerIndex, keep: &[u32], until: Instant) {
        for (&index, receiver) in write(&self.receivers).iter_mut() {
            if receiver.peer == peer && !keep.contains(&index) {
                receiver.until = Some(receiver.until.map_or(until, |earlier| earlier.min(until)));
            }
        }
    }

    /// Removes keys that have expired. To be called about ten times a second.
    pub fn expire(&self, now: Instant) {
        write(&self.receivers).retain(|_, receiver| receiver.until.is_none_or(|until| now < until));
    }

    /// Decrypts `packet` in place with the scheme's own cipher for datagrams with the receiver index
    /// `index`, and returns the peer that has the keys.
    ///
    /// # Errors
    /// If no keys have this index or the scheme has no cipher, and the errors of the cipher.
    pub fn decrypt(
        &self,
        now: Instant,
        index: u32,
        packet: &mut PacketBuf<'_>,
    ) -> Result<PeerIndex, (Option<PeerIndex>, Reason)> {
        let receivers = read(&self.receivers);
        let unknown = (None, Reason::UnknownReceiver);
        let receiver = Receiver::find(&receivers, now, index).ok_or(unknown)?;
        let cipher = receiver.inbound.cipher().ok_or(unknown)?;
        cipher.decrypt(packet).map_err(|reason| (None, reason))?;
        Ok(receiver.peer)
    }

    /// Opens a sealed datagram in place, and says which peer sent it.
    ///
    /// # Errors
    /// As for [`Inbound::open`], and if no keys have its receiver index.
    pub fn open(
        &self,
        now: Instant,
        from: SocketAddr,
        packet: &mut PacketBuf<'_>,
    ) -> Result<(PeerIndex, Prefix), (Option<PeerIndex>, Reason)> {
        let prefix = Prefix::decode(packet.bytes()).ok_or((None, Reason::Malformed))?;
        let receivers = read(&self.receivers);
        let receiver = Receiver::find(&receivers, now, prefix.receiver)
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
        store_time(&link.opened_at, now);
        if newest {
            link.note_source(now, from, prefix.lane, first);
        }
        Ok((peer, prefix))
    }
}
