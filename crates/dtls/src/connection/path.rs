//! Where the peer is. Its address changes only on its newest record, which carries a
//! connection ID, and after a return routability check (RFC 9146, section 6; RFC 9147,
//! section 9; RFC 9853, section 5.1).

use super::{Connection, Ending, Notice};
use crate::codepoints::ContentType;
use crate::error::{Fault, Misbehaviour};
use crate::handshake::State;
use crate::messages::return_routability::{self, PathMessage, PathMessageKind};
use crate::record::cid;
use crate::timer::Timer;
use crate::tuning::{
    AMPLIFICATION, MAX_PATH_CHALLENGES, MAX_PATH_RESPONSES, PATH_CHALLENGE_INTERVAL,
};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use subtle::ConstantTimeEq;
use vocabulary::{AddressPair, Encode};

/// The state.
#[derive(Debug)]
pub(super) struct Path {
    /// The way of the datagram under consideration.
    from: AddressPair,
    /// The address of this host that the peer speaks to, and is answered from.
    pub(super) local: Option<IpAddr>,
    /// Where the peer seems to be now. One at a time: a newer record replaces it.
    candidate: Option<Candidate>,
    /// Cookies to send back, and where to.
    responses: VecDeque<(AddressPair, [u8; 8])>,
    /// Bytes of the hello of a client that has not proved its address, if that limits what goes
    /// there.
    unproved: Option<usize>,
}

/// An address that is being checked. Data goes to the old one meanwhile.
#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    /// Where its first record arrived.
    local: Option<IpAddr>,
    /// Of the challenges sent so far.
    cookies: Vec<[u8; 8]>,
    tries: u8,
    challenge_due: bool,
    /// Bytes of datagrams with an authentic record from there.
    received: usize,
    /// Bytes of challenges sent there.
    sent: usize,
}

impl Path {
    pub(super) const fn new(peer: SocketAddr) -> Self {
        Self {
            from: AddressPair::to(peer),
            local: None,
            candidate: None,
            responses: VecDeque::new(),
            unproved: None,
        }
    }

    /// Where the datagram under consideration came from.
    pub(super) const fn from(&self) -> AddressPair {
        self.from
    }

    /// Limits what goes to the peer, after so many bytes from there, until [`Self::proved`].
    pub(super) const fn limit(&mut self, unproved: Option<usize>) {
        self.unproved = unproved;
    }

    /// The peer receives what is sent to it.
    pub(super) const fn proved(&mut self) {
        self.unproved = None;
    }
}

impl Connection {
    /// Bytes that may go to the peer, as things are (RFC 9147, section 5.1).
    pub(super) fn allowance(&self) -> usize {
        let Some(hello) = self.path.unproved else { return usize::MAX };
        let (received, sent) = (self.stats.received.bytes, self.stats.sent.bytes);
        let allowed = (hello as u64).saturating_add(received).saturating_mul(AMPLIFICATION as u64);
        usize::try_from(allowed.saturating_sub(sent)).unwrap_or(usize::MAX)
    }

    /// Takes a datagram from anywhere.
    pub(super) fn receive_from(&mut self, from: AddressPair, datagram: &mut [u8]) {
        if from.peer != self.peer && !self.is_addressed_by(datagram) {
            return;
        }
        self.path.from = from;
        let (len, before) = (datagram.len(), self.stats.received.records);
        self.receive_datagram(datagram);
        if let Some(candidate) = &mut self.path.candidate
            && candidate.address == from.peer
            && self.stats.received.records > before
        {
            candidate.received += len;
        }
    }

    /// This host's address that the peer speaks to, if the host says so: the peer is answered
    /// from there.
    pub const fn local(&self) -> Option<IpAddr> {
        self.path.local
    }

    /// Leaves it to the host which of its addresses the next datagrams leave from, until the peer
    /// is heard again: the one in use may not lead there any more.
    pub const fn forget_local(&mut self) {
        self.path.local = None;
    }

    /// The handshake began at this address of the host.
    pub(crate) const fn set_local(&mut self, local: Option<IpAddr>) {
        self.path.local = local;
    }

    /// A record that came by `way` was authenticated, and none has a higher number: a copy of an
    /// older one moves nothing.
    pub(super) fn answer_from_where_asked(&mut self, way: AddressPair) {
        let AddressPair { peer, local } = way;
        if peer == self.peer && local.is_some() {
            self.path.local = local;
        }
    }

    /// Whether a datagram from another address may be the peer's: it begins with one of our IDs.
    fn is_addressed_by(&self, datagram: &[u8]) -> bool {
        matches!(self.state, State::Established(_))
            && cid::of_datagram(datagram, self.cid.len())
                .is_some_and(|cid| self.channel.own_ids.contains(cid))
    }

    /// A record that came by `way` with a connection ID was authenticated, and none has a higher
    /// number.
    pub(super) fn newest_record(&mut self, way: AddressPair) {
        let AddressPair { peer: from, local } = way;
        let checked = match self.negotiated() {
            Some(agreed) => agreed.return_routability,
            None => return,
        };
        if from == self.peer {
            // The old path is alive: a copy of a record that took another one shows nothing.
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
        let from = core::mem::replace(&mut self.peer, to);
        self.path.local = way.local;
        self.forget_path_mtu();
        self.stats.received.moves += 1;
        // What the application did not take yet is not worth more than its last word.
        match self.notices.back_mut() {
            Some(Notice::PeerMoved { to: last, .. }) => *last = to,
            _ => self.notices.push_back(Notice::PeerMoved { from, to }),
        }
        // Observers of both paths are not to know that it is the same peer (RFC 9147, section 9).
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

    /// Takes a path message (RFC 9853, section 5).
    pub(super) fn path_message(&mut self, content: &[u8]) -> Result<(), Fault> {
        if !self.negotiated().is_some_and(|agreed| agreed.return_routability) {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        // Records under shared tags have no padding of their own: zeros behind a message are it.
        let content = match content.split_at_checked(PathMessage::LEN) {
            Some((message, zeros)) if zeros.iter().all(|byte| *byte == 0) => message,
            _ => content,
        };
        // What does not parse is discarded (RFC 9853, section 5).
        let Ok(message) = return_routability::read(content) else {
            self.stats.received.malformed += 1;
            return Ok(());
        };
        let Some(message) = message else { return Ok(()) };
        match message.kind {
            PathMessageKind::PathChallenge => {
                // Each is answered once: records are never taken twice.
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
                } else if from.peer == self.peer {
                    self.probe_answered(&message.cookie);
                }
            }
            // Answers a challenge over the old path, which the basic mode does not send.
            PathMessageKind::PathDrop => {}
        }
        Ok(())
    }

    /// The next path message as a datagram: its length and where it goes.
    pub(super) fn build_path_message(&mut self, buf: &mut [u8]) -> Option<(usize, AddressPair)> {
        if self.ending != Ending::Open || !matches!(self.state, State::Established(_)) {
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
        let interval = PATH_CHALLENGE_INTERVAL.max(self.timeout * 2);
        self.timers.set(Timer::PathChallenge, self.now + interval);
        // Nobody who put a third one's address on a copy can make us send that one more.
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
