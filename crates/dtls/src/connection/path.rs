//! The peer's address. It changes only on the peer's newest record, if that carries a connection
//! ID, and after a return routability check (RFC 9146, section 6; RFC 9147, section 9; RFC 9853,
//! section 5.1).

use super::receive::Arrival;
use super::{Connection, Ending, Notice};
use crate::codepoints::ContentType;
use crate::error::{Fault, Misbehaviour};
use crate::messages::return_routability::{self, PathMessage, PathMessageKind};
use crate::record::cid;
use crate::timer::Timer;
use crate::tuning::{
    AMPLIFICATION, MAX_PATH_CHALLENGES, MAX_PATH_RESPONSES, PATH_CHALLENGE_INTERVAL,
};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use lightseal_core::{AddressPair, Encode, Instant};
use subtle::ConstantTimeEq;

/// The addresses of an association, and the check of a new one.
#[derive(Debug)]
pub(super) struct Path {
    /// The addresses of the datagram being processed.
    from: AddressPair,
    /// The peer's address, and the local address to which it sends and from which it is answered.
    pub(super) to: AddressPair,
    /// The address where the peer seems to be now, which is being checked. A newer record replaces
    /// it.
    candidate: Option<Candidate>,
    /// Cookies of path challenges to be answered, and the addresses to answer to.
    responses: VecDeque<(AddressPair, [u8; 8])>,
    /// The size in bytes of the hello of a client that has not proved its address, if it limits
    /// what may be sent there.
    unproved: Option<usize>,
}

/// An address that is being checked. Data is sent to the old one meanwhile.
#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    /// The local address at which its first record arrived.
    local: Option<IpAddr>,
    /// The cookies of the challenges sent so far.
    cookies: Vec<[u8; 8]>,
    tries: u8,
    challenge_due: bool,
    /// Bytes of datagrams from this address that contained an authentic record.
    received: usize,
    /// Bytes of challenges sent to this address.
    sent: usize,
}

impl Path {
    pub(super) const fn new(peer: SocketAddr) -> Self {
        Self {
            from: AddressPair::to(peer),
            to: AddressPair::to(peer),
            candidate: None,
            responses: VecDeque::new(),
            unproved: None,
        }
    }

    /// The addresses of the datagram being processed.
    pub(super) const fn from(&self) -> AddressPair {
        self.from
    }

    /// Limits what may be sent to the peer until [`Self::proved`]. `unproved` is the size in bytes
    /// of its hello; `None` removes the limit.
    pub(super) const fn limit(&mut self, unproved: Option<usize>) {
        self.unproved = unproved;
    }

    /// Whether no path message is due.
    pub(super) fn is_quiet(&self) -> bool {
        self.responses.is_empty()
            && !self.candidate.as_ref().is_some_and(|candidate| candidate.challenge_due)
    }

    /// The peer has proved that it receives what is sent to its address.
    pub(super) const fn proved(&mut self) {
        self.unproved = None;
    }
}

impl Connection {
    /// The number of bytes that may be sent to the peer now (RFC 9147, section 5.1).
    pub(super) fn allowance(&self) -> usize {
        let Some(hello) = self.path.unproved else { return usize::MAX };
        let (received, sent) = (self.stats.received.bytes, self.stats.sent.bytes);
        let allowed = (hello as u64).saturating_add(received).saturating_mul(AMPLIFICATION as u64);
        usize::try_from(allowed.saturating_sub(sent)).unwrap_or(usize::MAX)
    }

    /// Processes a datagram from any address.
    pub(crate) fn receive_from(
        &mut self,
        now: Instant,
        from: AddressPair,
        datagram: &mut [u8],
    ) -> Arrival {
        self.now = self.now.max(now);
        if from.peer != self.path.to.peer && !self.is_addressed_by(datagram) {
            return Arrival::default();
        }
        self.path.from = from;
        let len = datagram.len();
        let arrival = self.receive_datagram(datagram);
        if let Some(candidate) = &mut self.path.candidate
            && candidate.address == from.peer
            && arrival.authentic
        {
            candidate.received += len;
        }
        arrival
    }

    /// The local address to which the peer sends, if the host reports it. The peer is answered from
    /// there.
    pub const fn local(&self) -> Option<IpAddr> {
        self.path.to.local
    }

    /// Leaves the source address of the next datagrams to the host until the peer is heard again:
    /// the one in use may no longer have a route to the peer.
    pub const fn forget_local(&mut self) {
        self.path.to.local = None;
    }

    /// Sets the local address at which the handshake began.
    pub(crate) const fn set_local(&mut self, local: Option<IpAddr>) {
        self.path.to.local = local;
    }

    /// A record that came by `way` was authenticated and has the highest record number so far. A
    /// copy of an older record changes nothing.
    pub(super) fn answer_from_where_asked(&mut self, way: AddressPair) {
        let AddressPair { peer, local } = way;
        if peer == self.path.to.peer && local.is_some() {
            self.path.to.local = local;
        }
    }

    /// Whether a datagram from another address may be the peer's: it must begin with one of our
    /// connection IDs.
    fn is_addressed_by(&self, datagram: &[u8]) -> bool {
        self.is_established()
            && cid::of_datagram(datagram, self.cid.len())
                .is_some_and(|cid| self.channel.own_ids.contains(cid))
    }

    /// A record that came by `way` with a connection ID was authenticated and has the highest
    /// record number so far.
    pub(super) fn newest_record(&mut self, way: AddressPair) {
        let AddressPair { peer: from, local } = way;
        let checked = match self.negotiated() {
            Some(agreed) => agreed.return_routability,
            None => return,
        };
        if from == self.path.to.peer {
            // The old path works: the record from elsewhere may have been a copy.
            self.give_up_candidate();
        } else if self.path.candidate.as_ref().is_some_and(|known| known.address == from) {
        } else if checked {
            self.timers.stop(Timer::PathChallenge);
            self.path.candidate = Some(Candidate {
                address: from,
                local,
                cookies: Vec::new(),
                tries: 0,
                challenge_due: true,
                received: 0,
                sent: 0,
            });
        } else if self.settings().unchecked_address_change {
            self.move_peer(way);
        }
    }

    fn give_up_candidate(&mut self) {
        self.path.candidate = None;
        self.timers.stop(Timer::PathChallenge);
    }

    fn move_peer(&mut self, way: AddressPair) {
        self.give_up_candidate();
        let to = way.peer;
        let from = core::mem::replace(&mut self.path.to.peer, to);
        self.path.to.local = way.local;
        self.forget_path_mtu();
        self.stats.received.moves += 1;
        // An event that the application has not taken yet is updated in place.
        match self.notices.back_mut() {
            Some(Notice::PeerMoved { to: last, .. }) => *last = to,
            _ => self.notices.push_back(Notice::PeerMoved { from, to }),
        }
        // Observers of both paths must not learn that it is the same peer (RFC 9147, section 9).
        self.use_spare_id();
    }

    /// A challenge was not answered in time.
    pub(super) fn path_challenge_lost(&mut self) {
        match &mut self.path.candidate {
            Some(candidate) if candidate.tries < MAX_PATH_CHALLENGES => {
                candidate.challenge_due = true;
            }
            _ => self.give_up_candidate(),
        }
    }

    /// Processes a path message (RFC 9853, section 5).
    #[inline(never)]
    pub(super) fn path_message(&mut self, content: &[u8]) -> Result<(), Fault> {
        if !self.negotiated().is_some_and(|agreed| agreed.return_routability) {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        // Records under shared tags cannot be padded otherwise: zeros after a message are padding.
        let content = match content.split_at_checked(PathMessage::LEN) {
            Some((message, zeros)) if zeros.iter().all(|byte| *byte == 0) => message,
            _ => content,
        };
        // A message that does not parse is discarded (RFC 9853, section 5).
        let Ok(message) = return_routability::read(content) else {
            self.stats.received.malformed += 1;
            return Ok(());
        };
        let Some(message) = message else { return Ok(()) };
        match message.kind {
            PathMessageKind::PathChallenge => {
                // Each challenge is answered once, because no record is accepted twice.
                if self.path.responses.len() < MAX_PATH_RESPONSES {
                    self.path.responses.push_back((self.path.from, message.cookie));
                }
            }
            PathMessageKind::PathResponse => {
                let from = self.path.from;
                let right = self.path.candidate.as_ref().is_some_and(|candidate| {
                    candidate.address == from.peer
                        && candidate.cookies.iter().any(|c| c.ct_eq(&message.cookie).into())
                });
                if right {
                    self.move_peer(from);
                } else if from.peer == self.path.to.peer {
                    self.probe_answered(&message.cookie);
                }
            }
            // A path_drop answers a challenge over the old path, which is never sent in basic mode.
            PathMessageKind::PathDrop => {}
        }
        Ok(())
    }

    /// Writes the next path message; returns its length in bytes and its addresses.
    pub(super) fn build_path_message(&mut self, buf: &mut [u8]) -> Option<(usize, AddressPair)> {
        if self.ending != Ending::Open || !self.is_established() {
            return None;
        }
        if let Some((to, cookie)) = self.path.responses.pop_front() {
            let kind = PathMessageKind::PathResponse;
            let len = self.seal_path_message(buf, PathMessage { kind, cookie })?;
            return Some((len, to));
        }
        let overhead = self
            .channel
            .send
            .peek()?
            .overhead(ContentType::RETURN_ROUTABILITY_CHECK, super::transmit::LAST_CONTROL);
        let candidate = self.path.candidate.as_mut().filter(|candidate| candidate.challenge_due)?;
        candidate.challenge_due = false;
        candidate.tries += 1;
        let interval = PATH_CHALLENGE_INTERVAL.max(self.retransmission.timeout * 2);
        self.timers.set(Timer::PathChallenge, self.now + interval);
        // An attacker that sends a copy with a third party's source address cannot make us send
        // more than that there.
        if candidate.sent + overhead + PathMessage::LEN > AMPLIFICATION * candidate.received {
            return None;
        }
        let to = AddressPair { peer: candidate.address, local: candidate.local };
        let cookie = self.channel.rng.array();
        candidate.cookies.push(cookie);
        let kind = PathMessageKind::PathChallenge;
        let len = self.seal_path_message(buf, PathMessage { kind, cookie })?;
        self.stats.sent.path_challenges += 1;
        if let Some(candidate) = &mut self.path.candidate {
            candidate.sent += len;
        }
        Some((len, to))
    }

    fn seal_path_message(&mut self, buf: &mut [u8], message: PathMessage) -> Option<usize> {
        let (kind, shape) = (ContentType::RETURN_ROUTABILITY_CHECK, super::transmit::LAST_CONTROL);
        let epoch = self.channel.send.newest()?;
        epoch.seal(buf, kind, shape, |w| message.write(w)).map(|sealed| sealed.len).ok()
    }
}
