//! The behaviour of tinydtls that differs from the engine's: every record has a retransmission
//! timer of its own, whatever else is under way. A repeated record is never answered. A record that
//! arrives too early is kept if it is in the clear, and dropped otherwise.

use crate::world::NodeId;
use core::time::Duration;
use lightseal_core::Instant;
use std::collections::{BTreeMap, VecDeque};

/// The default of tinydtls's first timeout. Each further timeout is twice as long.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// How often a record is retransmitted at most.
const TRIES: u32 = 7;

/// Content types and handshake types (RFC 6347), and the offsets of their fields in a datagram of
/// one record.
const CHANGE_CIPHER_SPEC: u8 = 20;
const CLIENT_HELLO: u8 = 1;
const HELLO_VERIFY_REQUEST: u8 = 3;
const SERVER_HELLO_DONE: u8 = 14;
const CLIENT_KEY_EXCHANGE: u8 = 16;
const EPOCH_AT: usize = 3;
const TYPE_AT: usize = 13;
const SEQUENCE_AT: usize = 17;

/// The records that wait for an answer or for their retransmission, and what each peer has sent.
#[derive(Debug)]
pub(super) struct Retransmission {
    timeout: Duration,
    has_cookies: bool,
    peers: BTreeMap<NodeId, Peer>,
    due: VecDeque<(NodeId, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Peer {
    waiting: Vec<Record>,
    received: Vec<Vec<u8>>,
    /// The number of the next handshake message in the clear, and the type of the last one that
    /// came in order.
    next: u16,
    last: u8,
    /// Messages that came too early, by number, with their types.
    early: BTreeMap<u16, u8>,
    /// A ChangeCipherSpec came at a time when it was allowed.
    changed: bool,
    ended: bool,
}

#[derive(Debug)]
struct Record {
    datagram: Vec<u8>,
    tries: u32,
    at: Instant,
}

/// What tinydtls does with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    /// The datagram carries the next message.
    Next,
    /// The datagram is kept until the messages before it have come.
    Buffered,
    /// The datagram is dropped.
    Dropped,
}

fn is_first_hello(datagram: &[u8]) -> bool {
    datagram.get(TYPE_AT) == Some(&CLIENT_HELLO)
        && datagram.get(SEQUENCE_AT..SEQUENCE_AT + 2) == Some(&[0, 0])
}

impl Peer {
    fn judge(&mut self, datagram: &[u8], has_cookies: bool) -> Disposition {
        // The server keeps no state about a first ClientHello: it can answer the same one again.
        if has_cookies && self.next <= 1 && is_first_hello(datagram) {
            return self.judge_new(datagram);
        }
        if self.received.iter().any(|old| old == datagram) {
            return Disposition::Dropped;
        }
        let verdict = self.judge_new(datagram);
        if verdict != Disposition::Dropped {
            self.received.push(datagram.to_vec());
        }
        verdict
    }

    fn judge_new(&mut self, datagram: &[u8]) -> Disposition {
        if datagram.first() == Some(&CHANGE_CIPHER_SPEC) {
            let is_due = matches!(self.last, SERVER_HELLO_DONE | CLIENT_KEY_EXCHANGE);
            self.changed |= is_due;
            return if is_due { Disposition::Next } else { Disposition::Dropped };
        }
        if datagram.get(EPOCH_AT..EPOCH_AT + 2).is_some_and(|epoch| epoch != [0, 0]) {
            return if self.changed { Disposition::Next } else { Disposition::Dropped };
        }
        let kind = datagram.get(TYPE_AT).copied();
        let number = datagram.get(SEQUENCE_AT..SEQUENCE_AT + 2);
        let (Some(kind), Some(number)) = (kind, number) else { return Disposition::Next };
        let number = u16::from_be_bytes([number[0], number[1]]);
        if kind == CLIENT_HELLO {
            (self.next, self.last) = (number + 1, kind);
            return Disposition::Next;
        }
        if number != self.next {
            if number < self.next {
                return Disposition::Dropped;
            }
            self.early.insert(number, kind);
            return Disposition::Buffered;
        }
        (self.next, self.last) = (number + 1, kind);
        while let Some(kind) = self.early.remove(&self.next) {
            (self.next, self.last) = (self.next + 1, kind);
        }
        Disposition::Next
    }
}

impl Retransmission {
    /// Retransmission with a first timeout of `timeout`.
    pub(super) fn new(timeout: Duration, has_cookies: bool) -> Self {
        Self { timeout, has_cookies, peers: BTreeMap::new(), due: VecDeque::new() }
    }

    /// Notes that a record was sent, and starts its timer.
    pub(super) fn sent(&mut self, now: Instant, to: NodeId, datagram: &[u8]) {
        let at = now + self.timeout;
        let peer = self.peers.entry(to).or_default();
        if !peer.ended && datagram.get(TYPE_AT) != Some(&HELLO_VERIFY_REQUEST) {
            peer.waiting.push(Record { datagram: datagram.to_vec(), tries: 0, at });
        }
    }

    /// Takes a datagram from a peer. Returns `false` if tinydtls drops it. If it carries the next
    /// message, nothing need be retransmitted to that peer any more.
    pub(super) fn receive(&mut self, from: NodeId, datagram: &[u8]) -> bool {
        let verdict = self.peers.entry(from).or_default().judge(datagram, self.has_cookies);
        if verdict == Disposition::Next {
            self.forget(from);
        }
        verdict != Disposition::Dropped
    }

    fn forget(&mut self, whom: NodeId) {
        self.peers.entry(whom).or_default().waiting.clear();
        self.due.retain(|(to, _)| *to != whom);
    }

    /// Notes that the handshake with a peer is complete.
    pub(super) fn end(&mut self, with: NodeId) {
        self.forget(with);
        self.peers.entry(with).or_default().ended = true;
    }

    /// Handles the timers that have expired.
    pub(super) fn wake(&mut self, now: Instant) {
        for (to, peer) in &mut self.peers {
            for record in peer.waiting.iter_mut().filter(|record| record.at <= now) {
                record.tries += 1;
                record.at = now + self.timeout * (1 << record.tries);
                self.due.push_back((*to, record.datagram.clone()));
            }
            peer.waiting.retain(|record| record.tries < TRIES);
        }
    }

    /// The next record to retransmit.
    pub(super) fn next(&mut self) -> Option<(NodeId, Vec<u8>)> {
        self.due.pop_front()
    }

    /// When the next timer expires.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.peers.values().flat_map(|peer| &peer.waiting).map(|record| record.at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(1);

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn timeouts_double_until_seven_tries() {
        let mut retransmission = Retransmission::new(TIMEOUT, true);
        retransmission.sent(at(0), PEER, &[22; 50]);
        let mut fired = Vec::new();
        while let Some(wake) = retransmission.wake_at() {
            retransmission.wake(wake);
            assert!(retransmission.next().is_some());
            fired.push(wake.as_micros() / 1_000_000);
        }
        assert_eq!(fired, [2, 6, 14, 30, 62, 126, 254]);
    }

    fn message(kind: u8, number: u8) -> Vec<u8> {
        let mut datagram = vec![22; 40];
        datagram[EPOCH_AT..EPOCH_AT + 2].fill(0);
        datagram[TYPE_AT] = kind;
        datagram[SEQUENCE_AT..SEQUENCE_AT + 2].copy_from_slice(&[0, number]);
        datagram
    }

    #[test]
    fn what_comes_next_clears_and_what_is_old_is_not_answered() {
        let mut retransmission = Retransmission::new(TIMEOUT, true);
        retransmission.sent(at(0), PEER, &[22; 50]);
        // ServerHelloDone arrives before ServerHello.
        assert!(retransmission.receive(PEER, &message(14, 1)));
        assert!(retransmission.wake_at().is_some());
        assert!(retransmission.receive(PEER, &message(2, 0)));
        assert_eq!(retransmission.wake_at(), None);
        assert!(!retransmission.receive(PEER, &message(14, 1)));
        assert!(retransmission.receive(NodeId(2), &message(2, 0)));
    }

    #[test]
    fn keys_are_changed_only_in_turn() {
        let mut retransmission = Retransmission::new(TIMEOUT, true);
        let change = [&[CHANGE_CIPHER_SPEC][..], &[0; 13]].concat();
        let finished = [&[22, 254, 253, 0, 1][..], &[0; 40]].concat();
        assert!(retransmission.receive(PEER, &message(CLIENT_HELLO, 1)));
        assert!(!retransmission.receive(PEER, &change));
        assert!(!retransmission.receive(PEER, &finished));
        assert!(retransmission.receive(PEER, &message(CLIENT_KEY_EXCHANGE, 2)));
        assert!(!retransmission.receive(PEER, &finished));
        assert!(retransmission.receive(PEER, &change));
        assert!(retransmission.receive(PEER, &finished));
    }

    #[test]
    fn a_hello_verify_request_is_not_repeated() {
        let mut retransmission = Retransmission::new(TIMEOUT, true);
        retransmission.sent(at(0), PEER, &[[22; 13].as_slice(), &[3; 30]].concat());
        assert_eq!(retransmission.wake_at(), None);
    }
}
