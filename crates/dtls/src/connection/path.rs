//! The peer's address. It changes only on the peer's newest record, if that carries a connection
//! ID, and after a return routability check (RFC 9146, section 6; RFC 9147, section 9; RFC 9853,
//! section 5.1).

use super::{Connection, Ending, Move, Notice};
use crate::codepoints::ContentType;
use crate::error::{CloseReason, Fault, Misbehaviour};
use crate::messages::return_routability::{self, PathMessage, PathMessageKind};
use crate::parts::{self, OfPart, Part, PartState};
use crate::record::{ConnectionId, RecordId, cid};
use crate::timer::Timer;
use crate::tuning::{
    AMPLIFICATION, MAX_PATH_CHALLENGES, MAX_PATH_RESPONSES, MAX_QUESTIONS, PATH_CHALLENGE_INTERVAL,
};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use lightseal_core::parts::PartState as InlineState;
use lightseal_core::{AddressPair, Encode, Instant};
use subtle::ConstantTimeEq;

/// The addresses of an association, and the check of a new one.
#[derive(Debug)]
pub(super) struct Path {
    /// The peer's address, and the local address to which it sends and from which it is answered.
    to: Addresses,
    /// How many bytes may be sent to a client that has not proved its address; nothing if there is
    /// no limit (RFC 9147, section 5.1).
    allowance: InlineState<parts::CookiePolicies, usize>,
    /// Messages that check paths, while there are any.
    check: PartState<parts::ConnectionIds, PathCheck>,
}

/// A pair of addresses. A pair of IPv4 takes a quarter of the memory that a pair of any kind takes.
#[derive(Debug)]
enum Addresses {
    V4(SocketAddrV4, Option<Ipv4Addr>),
    Other(Box<AddressPair>),
}

impl Addresses {
    fn new(pair: AddressPair) -> Self {
        match (pair.peer, pair.local) {
            (SocketAddr::V4(peer), None) => Self::V4(peer, None),
            (SocketAddr::V4(peer), Some(IpAddr::V4(local))) => Self::V4(peer, Some(local)),
            _ => Self::Other(Box::new(pair)),
        }
    }

    #[inline]
    fn get(&self) -> AddressPair {
        match self {
            Self::V4(peer, local) => {
                AddressPair { peer: SocketAddr::V4(*peer), local: local.map(IpAddr::V4) }
            }
            Self::Other(pair) => **pair,
        }
    }

    #[inline]
    fn peer(&self) -> SocketAddr {
        match self {
            Self::V4(peer, _) => SocketAddr::V4(*peer),
            Self::Other(pair) => pair.peer,
        }
    }

    /// Whether this is the peer's address.
    #[inline]
    fn lead_to(&self, address: &SocketAddr) -> bool {
        match (self, address) {
            (Self::V4(peer, _), SocketAddr::V4(address)) => peer == address,
            (Self::V4(..), SocketAddr::V6(_)) => false,
            (Self::Other(pair), _) => pair.peer == *address,
        }
    }
}

/// What the peer is asked by path challenges, and what the peer asks itself.
#[derive(Debug, Default)]
struct PathCheck {
    asked: Option<Asked>,
    /// Cookies of path challenges to be answered, and the addresses to answer to.
    responses: VecDeque<(AddressPair, [u8; 8])>,
}

/// What the peer's answer to our challenges decides.
#[derive(Debug)]
enum Asked {
    /// Where the peer is.
    Candidate(Candidate),
    /// Whether the peer still has this association, at the address that is known: it has begun another
    /// one there. If it does not answer, this association ends.
    WhetherKept(Challenges),
}

/// An address that is being checked. Data is sent to the old one meanwhile. A newer record from
/// elsewhere replaces it.
#[derive(Debug)]
struct Candidate {
    /// The address, and the local address at which its first record arrived.
    way: AddressPair,
    challenges: Challenges,
    /// Bytes of datagrams from this address that contained an authentic record.
    received: usize,
    /// Bytes of challenges sent to this address.
    sent: usize,
}

/// The challenges of one question.
#[derive(Debug)]
struct Challenges {
    /// The cookies of those sent so far.
    cookies: Vec<[u8; 8]>,
    tries: u8,
    is_due: bool,
}

impl Challenges {
    /// The first one is due.
    const fn new() -> Self {
        Self { cookies: Vec::new(), tries: 0, is_due: true }
    }

    /// Whether this is the answer to one of them.
    fn are_answered_by(&self, cookie: &[u8; 8]) -> bool {
        self.cookies.iter().any(|sent| sent.ct_eq(cookie).into())
    }
}

impl Asked {
    const fn challenges(&self) -> &Challenges {
        match self {
            Self::Candidate(candidate) => &candidate.challenges,
            Self::WhetherKept(challenges) => challenges,
        }
    }

    const fn challenges_mut(&mut self) -> &mut Challenges {
        match self {
            Self::Candidate(candidate) => &mut candidate.challenges,
            Self::WhetherKept(challenges) => challenges,
        }
    }

    /// The number of challenges.
    const fn most_tries(&self) -> u8 {
        match self {
            Self::Candidate(_) => MAX_PATH_CHALLENGES,
            Self::WhetherKept(_) => MAX_QUESTIONS,
        }
    }
}

impl Path {
    pub(super) fn new(peer: SocketAddr) -> Self {
        Self {
            to: Addresses::new(AddressPair::to(peer)),
            allowance: InlineState::EMPTY,
            check: PartState::EMPTY,
        }
    }

    /// The peer's address, and the local address to which it sends and from which it is answered.
    #[inline]
    pub(super) fn to(&self) -> AddressPair {
        self.to.get()
    }

    /// The peer's address.
    #[inline]
    pub(super) fn peer(&self) -> SocketAddr {
        self.to.peer()
    }

    /// Whether this is the peer's address.
    #[inline]
    pub(super) fn leads_to(&self, address: &SocketAddr) -> bool {
        self.to.lead_to(address)
    }

    /// Changes both addresses.
    pub(super) fn set(&mut self, to: AddressPair) {
        self.to = Addresses::new(to);
    }

    /// Changes the local address.
    pub(super) fn set_local(&mut self, local: Option<IpAddr>) {
        self.set(AddressPair { local, ..self.to() });
    }

    /// Limits what may be sent to the peer until [`Self::proved`]. `hello` is the size in bytes of
    /// its hello.
    pub(super) fn limit(&mut self, part: parts::CookiePolicies, hello: usize) {
        let allowance = hello.saturating_mul(AMPLIFICATION);
        self.allowance = InlineState::new(Some(part), |_| allowance);
    }

    /// Whether the peer has proved its address, and no other one is being checked.
    pub(super) fn is_settled(&self) -> bool {
        self.allowance.get().is_none() && self.check.get().is_none()
    }

    /// Whether no path message is due.
    pub(super) fn is_quiet(&self) -> bool {
        let is_due = |asked: &Asked| asked.challenges().is_due;
        self.check.get().is_none_or(|check| {
            check.responses.is_empty() && !check.asked.as_ref().is_some_and(is_due)
        })
    }

    /// The peer has proved that it receives what is sent to its address.
    pub(super) fn proved(&mut self) {
        self.allowance = InlineState::EMPTY;
    }

    /// The number of bytes that may be sent to the peer now.
    pub(super) fn allowance(&self) -> usize {
        self.allowance.get().copied().unwrap_or(usize::MAX)
    }

    /// A datagram of `bytes` was received.
    pub(super) fn received(&mut self, bytes: usize) {
        if let Some(allowance) = self.allowance.get_mut() {
            *allowance = allowance.saturating_add(bytes.saturating_mul(AMPLIFICATION));
        }
    }

    /// A datagram of `bytes` was sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        if let Some(allowance) = self.allowance.get_mut() {
            *allowance = allowance.saturating_sub(bytes);
        }
    }

    fn asked(&mut self) -> Option<&mut Asked> {
        self.check.get_mut()?.asked.as_mut()
    }

    fn candidate(&mut self) -> Option<&mut Candidate> {
        match self.asked()? {
            Asked::Candidate(candidate) => Some(candidate),
            Asked::WhetherKept(_) => None,
        }
    }

    fn forget_question(&mut self) {
        if let Some(check) = self.check.get_mut() {
            check.asked = None;
        }
        self.tidy();
    }

    /// Gives the memory of checks back when there are none.
    fn tidy(&mut self) {
        let is_over = |check: &PathCheck| check.asked.is_none() && check.responses.is_empty();
        if self.check.get().is_some_and(is_over) {
            self.check.clear();
        }
    }
}

impl Connection {
    /// Processes a datagram from any address. Returns whether it has an authentic record, or
    /// authenticated an earlier one.
    pub(crate) fn receive_from(
        &mut self,
        now: Instant,
        from: &AddressPair,
        datagram: &mut [u8],
    ) -> bool {
        self.now = self.now.max(now);
        if !self.path.leads_to(&from.peer) && !self.is_addressed_by(datagram) {
            return false;
        }
        let len = datagram.len();
        let authentic = self.receive_datagram(from, datagram);
        if let Some(candidate) = self.path.candidate()
            && candidate.way.peer == from.peer
            && authentic
        {
            candidate.received += len;
        }
        authentic
    }

    /// The local address to which the peer sends, if the host reports it. The peer is answered from
    /// there.
    pub fn local(&self) -> Option<IpAddr> {
        self.path.to().local
    }

    /// Leaves the source address of the next datagrams to the host until the peer is heard again:
    /// the one in use may no longer have a route to the peer.
    pub fn forget_local(&mut self) {
        self.path.set_local(None);
    }

    /// Sets the local address at which the handshake began.
    pub(crate) fn set_local(&mut self, local: Option<IpAddr>) {
        self.path.set_local(local);
    }

    /// A record that came by `way` was authenticated and has the highest record number so far. A
    /// copy of an older record changes nothing.
    pub(super) fn answer_from_where_asked(&mut self, way: &AddressPair) {
        if way.local.is_some() && self.path.leads_to(&way.peer) && *way != self.path.to() {
            self.path.set(*way);
        }
    }

    /// Whether a datagram from another address may be the peer's: it must begin with one of our
    /// connection IDs.
    fn is_addressed_by(&self, datagram: &[u8]) -> bool {
        self.is_established()
            && cid::of_datagram(datagram, self.cid.len())
                .is_some_and(|cid| self.channel.own_ids.contains(cid))
    }

    /// A record that came by `way`, with this connection ID, was authenticated and has the highest
    /// record number so far.
    pub(super) fn newest_origin(
        &mut self,
        record: RecordId,
        way: &AddressPair,
        own_id: Option<ConnectionId>,
    ) {
        let own_id = own_id.and_then(|id| self.channel.own_ids.position(&id));
        if self.may_repeat(record.epoch, record.number) {
            // The predecessor may have received the record, so that it may be anybody's copy: it can
            // begin a path check, and no more. Without that, a peer that has moved and sends too little
            // to count past what the predecessor had reserved would never be answered.
            let asks = self.path.asked().is_none() && !self.path.leads_to(&way.peer);
            if own_id.is_some() && asks && self.checks_paths() {
                self.newest_record(record, way);
            }
            return;
        }
        if let Some(own_id) = own_id {
            self.channel.own_ids.used(own_id);
            self.newest_record(record, way);
        }
        self.answer_from_where_asked(way);
    }

    /// A record that came by `way` with a connection ID was authenticated and has the highest
    /// record number so far.
    ///
    /// Under shared tags newer records may have arrived and not be verified yet. Without a path
    /// check they keep the peer where they came from, because the record may be a late copy from
    /// an attacker. With a path check, the first of them that is verified ends the check.
    pub(super) fn newest_record(&mut self, record: RecordId, way: &AddressPair) {
        let Some(part) = parts::ConnectionIds::INCLUDED.filter(|_| self.is_established()) else {
            return;
        };
        let from = way.peer;
        if self.path.leads_to(&from) {
            // The old path works: the record from elsewhere may have been a copy.
            self.end_question();
        } else if self.path.candidate().is_some_and(|known| known.way.peer == from) {
        } else if self.checks_paths() {
            self.timers.stop(Timer::PathChallenge);
            let check = self.path.check.get_or_insert_with(part, PathCheck::default);
            let challenges = Challenges::new();
            let candidate = Candidate { way: *way, challenges, received: 0, sent: 0 };
            check.asked = Some(Asked::Candidate(candidate));
        } else if self.settings().unchecked_address_change
            && !self.held.get().is_some_and(|held| held.has_newer_from(self.path.peer(), record))
        {
            self.move_peer(part, *way);
        }
    }

    /// Whether return routability checks were negotiated.
    pub(super) fn checks_paths(&self) -> bool {
        parts::ConnectionIds::IS_INCLUDED
            && self.agreed().is_some_and(|agreed| agreed.return_routability)
    }

    fn end_question(&mut self) {
        self.path.forget_question();
        self.timers.stop(Timer::PathChallenge);
    }

    /// Asks the peer whether it still has this association, because it has begun another one at the
    /// same address (RFC 9147, section 5.11). If it does not answer, the association ends. Returns
    /// `false` if the peer cannot be asked: it takes part in no return routability checks.
    pub(crate) fn ask_whether_kept(&mut self, now: Instant) -> bool {
        self.now = self.now.max(now);
        let Some(part) = parts::ConnectionIds::INCLUDED.filter(|_| self.checks_paths()) else {
            return false;
        };
        if self.ending != Ending::Open || !self.is_established() {
            return false;
        }
        // A peer that is on its way to another address was just heard.
        if self.path.asked().is_none() {
            let check = self.path.check.get_or_insert_with(part, PathCheck::default);
            check.asked = Some(Asked::WhetherKept(Challenges::new()));
        }
        true
    }

    fn move_peer(&mut self, part: parts::ConnectionIds, way: AddressPair) {
        self.end_question();
        let to = way.peer;
        let from = self.path.peer();
        self.path.set(way);
        self.forget_path_mtu();
        self.stats.received(|received| received.moves += 1);
        // An event that the application has not taken yet is updated in place.
        match self.notices.last_mut() {
            Some(Notice::PeerMoved(last)) => last.to = to,
            _ => self.notices.push(Notice::PeerMoved(OfPart::new(part, Move { from, to }))),
        }
        // Observers of both paths must not learn that it is the same peer (RFC 9147, section 9).
        self.use_spare_id();
    }

    /// A challenge was not answered in time.
    pub(super) fn path_challenge_lost(&mut self) {
        match self.path.asked() {
            Some(asked) if asked.challenges().tries < asked.most_tries() => {
                asked.challenges_mut().is_due = true;
            }
            Some(Asked::WhetherKept(_)) => self.abandon(CloseReason::Replaced),
            _ => self.end_question(),
        }
    }

    /// Processes a path message (RFC 9853, section 5).
    #[inline(never)]
    pub(super) fn path_message(&mut self, from: AddressPair, content: &[u8]) -> Result<(), Fault> {
        let part = parts::ConnectionIds::INCLUDED.filter(|_| self.checks_paths());
        let part = part.ok_or(Misbehaviour::UnexpectedMessage)?;
        // Records under shared tags cannot be padded otherwise: zeros after a message are padding.
        let content = match content.split_at_checked(PathMessage::LEN) {
            Some((message, zeros)) if zeros.iter().all(|byte| *byte == 0) => message,
            _ => content,
        };
        // A message that does not parse is discarded (RFC 9853, section 5).
        let Ok(message) = return_routability::read(content) else {
            self.stats.received(|received| received.malformed += 1);
            return Ok(());
        };
        let Some(message) = message else { return Ok(()) };
        match message.kind {
            PathMessageKind::Challenge => {
                // Each challenge is answered once, because no record is accepted twice.
                let check = self.path.check.get_or_insert_with(part, PathCheck::default);
                if check.responses.len() < MAX_PATH_RESPONSES {
                    check.responses.push_back((from, message.cookie));
                }
            }
            PathMessageKind::Response => {
                let known = self.path.leads_to(&from.peer);
                match self.path.asked() {
                    Some(Asked::Candidate(candidate))
                        if candidate.way.peer == from.peer
                            && candidate.challenges.are_answered_by(&message.cookie) =>
                    {
                        self.move_peer(part, from);
                    }
                    Some(Asked::WhetherKept(challenges))
                        if known && challenges.are_answered_by(&message.cookie) =>
                    {
                        self.end_question();
                    }
                    _ if known => self.probe_answered(&message.cookie),
                    _ => {}
                }
            }
            // A path_drop answers a challenge over the old path, which is never sent in basic mode.
            PathMessageKind::Drop => {}
        }
        Ok(())
    }

    /// Writes the next path message; returns its length in bytes and its addresses.
    pub(super) fn build_path_message(&mut self, buf: &mut [u8]) -> Option<(usize, AddressPair)> {
        if self.ending != Ending::Open || !self.is_established() {
            return None;
        }
        if let Some((to, cookie)) = self.path.check.get_mut()?.responses.pop_front() {
            self.path.tidy();
            let kind = PathMessageKind::Response;
            let len = self.seal_path_message(buf, PathMessage { kind, cookie })?;
            return Some((len, to));
        }
        let overhead = self
            .channel
            .send
            .peek()?
            .overhead(ContentType::RETURN_ROUTABILITY_CHECK, self.last_control());
        let to = match self.path.asked()? {
            Asked::Candidate(candidate) => candidate.way,
            Asked::WhetherKept(_) => self.path.to(),
        };
        let asked = self.path.asked().filter(|asked| asked.challenges().is_due)?;
        let doublings = match asked {
            Asked::Candidate(_) => 1,
            Asked::WhetherKept(challenges) => 1 << challenges.tries.min(MAX_QUESTIONS),
        };
        let challenges = asked.challenges_mut();
        challenges.is_due = false;
        challenges.tries += 1;
        // An attacker that sends a copy with a third party's source address cannot make us send
        // more than that there.
        let is_much = self.path.candidate().is_some_and(|candidate| {
            candidate.sent + overhead + PathMessage::LEN > AMPLIFICATION * candidate.received
        });
        // What went to the old address was not answered, which says nothing about the new one.
        let timeout = self.retransmission.timeout().min(self.settings().initial_timeout);
        let interval = PATH_CHALLENGE_INTERVAL.max(timeout * 2) * doublings;
        self.timers.set(Timer::PathChallenge, self.now + interval);
        if is_much {
            return None;
        }
        let cookie = self.channel.rng.array();
        self.path.asked()?.challenges_mut().cookies.push(cookie);
        let kind = PathMessageKind::Challenge;
        let len = self.seal_path_message(buf, PathMessage { kind, cookie })?;
        self.stats.sent(|sent| sent.path_challenges += 1);
        if let Some(candidate) = self.path.candidate() {
            candidate.sent += len;
        }
        Some((len, to))
    }

    fn seal_path_message(&mut self, buf: &mut [u8], message: PathMessage) -> Option<usize> {
        let (kind, shape) = (ContentType::RETURN_ROUTABILITY_CHECK, self.last_control());
        let epoch = self.channel.send.newest()?;
        epoch.seal(buf, kind, shape, |w| message.write(w)).map(|sealed| sealed.len).ok()
    }
}
