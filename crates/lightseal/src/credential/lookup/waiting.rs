//! Identities that wait for their look-up, and the order in which they are taken.

use super::source::PeerIdentity;
use lightseal_dtls::Identity;
use std::collections::{HashMap, VecDeque};

/// The most identities that wait in each of the queues for known and for new ones.
const MOST_WAITING: usize = 1024;

/// The most identities that wait for clients with places in the engines: as many as 255 workers have
/// places for waiting hellos ([`MAX_WAITING_HELLOS`](lightseal_dtls::tuning::MAX_WAITING_HELLOS)).
const MOST_AGAIN: usize = 16_320;

/// The most of them that wait for clients of one network. Whoever has one address leaves half of the
/// places to others.
const MOST_OF_NETWORK: usize = MOST_AGAIN / 2;

/// In which queue an identity waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Identities that were known before come first, so that a flood of invented ones does not keep
    /// devices away that were here before.
    Known,
    /// Identities of clients of this network for which an engine has asked again. They come before new
    /// ones, which a single stranger can send in any number.
    Again(u128),
    New,
}

/// The place of an identity that waits.
#[derive(Clone, Copy, Debug)]
struct Place {
    queue: Queue,
    /// The last round in which an engine has asked for it again.
    round: u64,
}

/// All queues of identities.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    known: VecDeque<PeerIdentity>,
    again: Lines,
    new: VecDeque<PeerIdentity>,
    /// The place of each identity that waits. What an identity has left behind in another queue does
    /// not count.
    places: HashMap<PeerIdentity, Place>,
    /// The rounds in which the engines have asked again for their clients.
    round: u64,
}

/// A line of identities for each network. The networks take turns, so that one with many clients
/// delays those of another one by one look-up each.
#[derive(Debug, Default)]
struct Lines {
    lines: HashMap<u128, VecDeque<PeerIdentity>>,
    /// The networks with a line, in the order of their turns.
    turns: VecDeque<u128>,
    len: usize,
}

impl Lines {
    fn has_room(&self, network: u128) -> bool {
        let len = self.lines.get(&network).map_or(0, VecDeque::len);
        self.len < MOST_AGAIN && len < MOST_OF_NETWORK
    }

    fn push(&mut self, network: u128, identity: PeerIdentity) {
        let turns = &mut self.turns;
        let line = self.lines.entry(network).or_insert_with(|| {
            turns.push_back(network);
            VecDeque::new()
        });
        line.push_back(identity);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<PeerIdentity> {
        let network = self.turns.pop_front()?;
        let line = self.lines.get_mut(&network)?;
        let identity = line.pop_front()?;
        self.len -= 1;
        match line.is_empty() {
            true => drop(self.lines.remove(&network)),
            false => self.turns.push_back(network),
        }
        Some(identity)
    }

    fn retain(&mut self, mut keeps: impl FnMut(&PeerIdentity) -> bool) {
        self.lines.retain(|_, line| {
            line.retain(&mut keeps);
            !line.is_empty()
        });
        self.turns.retain(|network| self.lines.contains_key(network));
        self.len = self.lines.values().map(VecDeque::len).sum();
    }
}

impl Waiting {
    /// The number of identities that wait.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Gives an identity a place at the end of a queue. One that waits already keeps its place, but
    /// moves from the new ones to those that are asked for again. Returns `false` if the queue is full.
    pub(super) fn wait(&mut self, identity: &Identity, queue: Queue) -> bool {
        if let Some(place) = self.places.get_mut(identity) {
            place.round = self.round;
            if place.queue != Queue::New || !matches!(queue, Queue::Again(_)) {
                return true;
            }
        }
        let has_room = match queue {
            Queue::Known => self.known.len() < MOST_WAITING,
            Queue::Again(network) => self.again.has_room(network),
            Queue::New => self.new.len() < MOST_WAITING,
        };
        if !has_room {
            return false;
        }
        let identity: PeerIdentity = identity.clone().into();
        let waits = PeerIdentity::clone(&identity);
        match queue {
            Queue::Known => self.known.push_back(waits),
            Queue::Again(network) => self.again.push(network, waits),
            Queue::New => self.new.push_back(waits),
        }
        self.places.insert(identity, Place { queue, round: self.round });
        true
    }

    /// The engines are about to ask again for all clients that wait there. Returns the round's number.
    pub(super) fn begin_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    /// The engines have asked again for all clients. Identities for which none has asked since this
    /// round began lose their places: nobody waits for them. All others keep their order.
    pub(super) fn end_round(&mut self, round: u64) {
        let places = &mut self.places;
        self.again.retain(|identity| {
            let is_asked = places.get(identity).is_some_and(|place| place.round >= round);
            if !is_asked {
                places.remove(identity);
            }
            is_asked
        });
    }

    /// Takes the identity of a client whose turn it is.
    pub(super) fn next(&mut self) -> Option<PeerIdentity> {
        self.next_known().or_else(|| self.next_again()).or_else(|| self.next_new())
    }

    fn next_known(&mut self) -> Option<PeerIdentity> {
        let identity = self.known.pop_front()?;
        self.places.remove(&identity);
        Some(identity)
    }

    fn next_again(&mut self) -> Option<PeerIdentity> {
        let identity = self.again.pop()?;
        self.places.remove(&identity);
        Some(identity)
    }

    fn next_new(&mut self) -> Option<PeerIdentity> {
        while let Some(identity) = self.new.pop_front() {
            if self.places.get(&identity).is_some_and(|place| place.queue == Queue::New) {
                self.places.remove(&identity);
                return Some(identity);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::known::tests::id;
    use super::*;

    const HERE: Queue = Queue::Again(1);
    const THERE: Queue = Queue::Again(2);

    fn taken(waiting: &mut Waiting) -> Vec<PeerIdentity> {
        std::iter::from_fn(|| waiting.next()).collect()
    }

    #[test]
    fn who_is_asked_for_again_keeps_the_place_and_who_is_not_loses_it() {
        let mut waiting = Waiting::default();
        for asked in [&["a", "b", "c"][..], &["d", "c", "a"], &["e", "a", "d", "c"]] {
            let round = waiting.begin_round();
            assert!(asked.iter().all(|identity| waiting.wait(&id(identity), HERE)));
            waiting.end_round(round);
        }
        assert_eq!(waiting.len(), 4);
        assert_eq!(taken(&mut waiting), ["a", "c", "d", "e"].map(id));
        assert!(waiting.is_empty() && waiting.again.lines.is_empty() && waiting.again.len == 0);
    }

    #[test]
    fn networks_take_turns() {
        let mut waiting = Waiting::default();
        for n in 0..100 {
            assert!(waiting.wait(&id(&format!("invented-{n}")), HERE));
        }
        assert!(waiting.wait(&id("device"), THERE) && waiting.wait(&id("known"), Queue::Known));
        assert!(waiting.wait(&id("new"), Queue::New));
        let all = taken(&mut waiting);
        let first = ["known", "invented-0", "device", "invented-1"];
        assert_eq!((&all[..4], &all[102]), (&first.map(id)[..], &id("new")));
    }

    #[test]
    fn one_network_cannot_take_all_places() {
        let mut waiting = Waiting::default();
        let mut wait = |queue, prefix: &str| {
            let all = 0..MOST_AGAIN;
            all.filter(|n| waiting.wait(&id(&format!("{prefix}{n}")), queue)).count()
        };
        assert_eq!(wait(HERE, "a"), MOST_OF_NETWORK);
        assert_eq!(wait(THERE, "b"), MOST_OF_NETWORK);
        assert_eq!(wait(Queue::Again(3), "c"), 0);
        assert_eq!(waiting.len(), MOST_AGAIN);
        // Whoever lost its place is forgotten as a whole.
        let round = waiting.begin_round();
        waiting.end_round(round);
        assert!(waiting.is_empty() && waiting.again.turns.is_empty());
    }
}
