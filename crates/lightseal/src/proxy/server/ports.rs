//! Which identities have had which ports towards the service.
//!
//! A service that knows its peers by address and port may still send to a port what was for the client
//! that had it last. So a port that a client has left rests before another identity gets it.

use lightseal_core::Instant;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long a port rests.
const REST: Duration = Duration::from_secs(600);

/// A hash of an identity; `None` for clients without one, who may be anybody.
type Owner = Option<u64>;

/// The ports that associations have, or that rest. There is an entry for each port at most.
#[derive(Debug)]
pub(super) struct Ports {
    used: HashMap<u16, Used>,
    resting: Resting,
    most_resting: usize,
    hasher: RandomState,
}

#[derive(Debug)]
struct Used {
    by: Owner,
    /// When the association's socket was closed; `None` while it is open.
    left: Option<Instant>,
}

/// Ports that rest, and since when.
#[derive(Debug, Default)]
struct Resting {
    all: BTreeSet<(Instant, u16)>,
    of_owners: HashMap<Owner, BTreeSet<(Instant, u16)>>,
    /// The owners by the number of their ports.
    counts: BTreeSet<(usize, Owner)>,
}

impl Resting {
    fn insert(&mut self, owner: Owner, since: Instant, port: u16) {
        self.all.insert((since, port));
        let own = self.of_owners.entry(owner).or_default();
        self.counts.remove(&(own.len(), owner));
        own.insert((since, port));
        self.counts.insert((own.len(), owner));
    }

    fn remove(&mut self, owner: Owner, since: Instant, port: u16) {
        self.all.remove(&(since, port));
        let Some(own) = self.of_owners.get_mut(&owner) else { return };
        self.counts.remove(&(own.len(), owner));
        own.remove(&(since, port));
        match own.is_empty() {
            true => drop(self.of_owners.remove(&owner)),
            false => drop(self.counts.insert((own.len(), owner))),
        }
    }

    /// The port that rests longest of whoever has most; of `leaver` if no one has more.
    fn of_greediest(&self, leaver: Owner) -> Option<u16> {
        let (most, owner) = self.counts.last()?;
        let own = self.of_owners.get(&leaver).filter(|own| own.len() == *most);
        own.or_else(|| self.of_owners.get(owner))?.first().map(|(_, port)| *port)
    }
}

impl Ports {
    /// No ports, of which at most `most_resting` rest at a time. Beyond that, the oldest one of whoever
    /// left most of them rests no more; if no one has more than whoever has just left one, the oldest of
    /// these. An identity that leaves port after port does not end the rest of another one's.
    pub(super) fn new(most_resting: usize) -> Self {
        Self {
            used: HashMap::new(),
            resting: Resting::default(),
            most_resting,
            hasher: RandomState::new(),
        }
    }

    /// Whether a client with this identity may have a port, as far as others have had it.
    pub(super) fn may_have(&self, now: Instant, port: u16, identity: Option<&str>) -> bool {
        let Some(used) = self.used.get(&port) else { return true };
        let Some(left) = used.left else { return false };
        let own = identity.is_some_and(|identity| used.by == Some(self.hasher.hash_one(identity)));
        own || now.saturating_since(left) >= REST
    }

    /// Notes that a client has a port.
    pub(super) fn taken(&mut self, port: u16, identity: Option<&str>) {
        self.end_rest(port);
        let by = identity.map(|identity| self.hasher.hash_one(identity));
        self.used.insert(port, Used { by, left: None });
    }

    /// Notes that the client has left its port. Nothing happens if none was noted to have it.
    pub(super) fn left(&mut self, now: Instant, port: u16) {
        let Some(used) = self.used.get_mut(&port).filter(|used| used.left.is_none()) else {
            return;
        };
        used.left = Some(now);
        let by = used.by;
        self.resting.insert(by, now, port);
        while let Some((since, port)) = self.resting.all.first().copied()
            && now.saturating_since(since) >= REST
        {
            self.end_rest(port);
        }
        while self.resting.all.len() > self.most_resting
            && let Some(port) = self.resting.of_greediest(by)
        {
            self.end_rest(port);
        }
    }

    /// Forgets a port that rests.
    fn end_rest(&mut self, port: u16) {
        if let Some(Used { by, left: Some(since) }) = self.used.get(&port) {
            self.resting.remove(*by, *since, port);
            self.used.remove(&port);
        }
    }

    /// Ports that rest, those that have rested longest first.
    pub(super) fn longest_rested(&self) -> impl Iterator<Item = u16> {
        self.resting.all.iter().map(|(_, port)| *port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_rests_before_another_identity_has_it() {
        let (mut ports, now) = (Ports::new(100), Instant::from_micros(1));
        assert!(ports.may_have(now, 40_000, Some("a")));
        ports.taken(40_000, Some("a"));
        assert!(!ports.may_have(now, 40_000, Some("a")), "it has it");
        ports.left(now, 40_000);
        for (identity, at, may) in [
            (Some("a"), now, true),
            (Some("b"), now, false),
            (None, now, false),
            (Some("b"), now + (REST - Duration::from_micros(1)), false),
            (Some("b"), now + REST, true),
            (None, now + REST, true),
        ] {
            assert_eq!(ports.may_have(at, 40_000, identity), may, "{identity:?}");
        }
        // Nobody knows whether two clients without identities are one.
        ports.taken(40_001, None);
        ports.left(now, 40_001);
        assert!(!ports.may_have(now, 40_001, None));
        ports.left(now, 40_002);
        assert!(ports.may_have(now, 40_002, None));
    }

    #[test]
    fn whoever_leaves_port_after_port_ends_no_rest_but_its_own() {
        let mut ports = Ports::new(8);
        let at = |second| Instant::from_micros(1) + Duration::from_secs(second);
        for port in 0..3 {
            ports.taken(port, Some("quiet"));
            ports.left(at(port.into()), port);
        }
        for port in 10..30 {
            ports.taken(port, Some(["busy", "second key"][usize::from(port % 2)]));
            ports.left(at(port.into()), port);
        }
        let resting = |ports: &Ports| ports.longest_rested().collect::<Vec<_>>();
        let all = resting(&ports);
        assert_eq!((&all[..3], all.len()), (&[0, 1, 2][..], 8));
        assert!((0..3).all(|port| !ports.may_have(at(30), port, Some("busy"))));
        assert!(ports.may_have(at(30), 10, Some("quiet")), "its rest has ended early");
        // What is taken, or has rested, takes no room.
        ports.taken(1, Some("quiet"));
        assert_eq!(resting(&ports).len(), 7);
        ports.left(at(2000), 1);
        assert_eq!(resting(&ports), [1]);
        assert!(ports.used.len() == 1 && ports.resting.of_owners.len() == 1);
        ports.taken(1, None);
        assert!(ports.resting.counts.is_empty() && ports.resting.of_owners.is_empty());
    }
}
