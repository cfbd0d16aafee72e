//! The open flows by the addresses of their applications.

use super::lane::Flow;
use lightseal_core::AddressPair;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// The flows of applications. Addresses of IPv4 have a map of their own, which takes half of the
/// memory.
#[derive(Debug)]
pub(super) struct OpenFlows<F = Flow> {
    v4: HashMap<Pair4, F>,
    others: HashMap<AddressPair, F>,
}

impl<F> Default for OpenFlows<F> {
    fn default() -> Self {
        Self { v4: HashMap::new(), others: HashMap::new() }
    }
}

/// An address pair of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pair4 {
    peer: Ipv4Addr,
    port: u16,
    local: Option<Ipv4Addr>,
}

impl Pair4 {
    fn of(pair: &AddressPair) -> Option<Self> {
        let local = match pair.local {
            None => None,
            Some(IpAddr::V4(local)) => Some(local),
            Some(IpAddr::V6(_)) => return None,
        };
        match pair.peer {
            SocketAddr::V4(peer) => Some(Self { peer: *peer.ip(), port: peer.port(), local }),
            SocketAddr::V6(_) => None,
        }
    }

    fn pair(&self) -> AddressPair {
        let peer = SocketAddrV4::new(self.peer, self.port).into();
        AddressPair { peer, local: self.local.map(IpAddr::V4) }
    }
}

impl<F> OpenFlows<F> {
    pub(super) fn get(&self, application: &AddressPair) -> Option<&F> {
        match Pair4::of(application) {
            Some(pair) => self.v4.get(&pair),
            None => self.others.get(application),
        }
    }

    pub(super) fn contains(&self, application: &AddressPair) -> bool {
        self.get(application).is_some()
    }

    pub(super) fn insert(&mut self, application: AddressPair, flow: F) {
        match Pair4::of(&application) {
            Some(pair) => drop(self.v4.insert(pair, flow)),
            None => drop(self.others.insert(application, flow)),
        }
    }

    pub(super) fn remove(&mut self, application: &AddressPair) -> Option<F> {
        match Pair4::of(application) {
            Some(pair) => self.v4.remove(&pair),
            None => self.others.remove(application),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.v4.len() + self.others.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (AddressPair, &F)> {
        let v4 = self.v4.iter().map(|(pair, flow)| (pair.pair(), flow));
        v4.chain(self.others.iter().map(|(pair, flow)| (*pair, flow)))
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &F> {
        self.iter().map(|(_, flow)| flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn flows_are_found_by_addresses_of_either_family_and_of_both() {
        let peers =
            ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1", "[::ffff:10.0.0.1]:1", "[fe80::1%3]:1"];
        let locals = [None, Some("10.0.0.9"), Some("10.0.0.8"), Some("::ffff:10.0.0.9")];
        let (mut open, mut expected) = (OpenFlows::default(), BTreeMap::new());
        let pairs = peers.iter().flat_map(|peer| {
            locals.map(|local| AddressPair {
                peer: peer.parse().unwrap(),
                local: local.map(|local| local.parse().unwrap()),
            })
        });
        for (number, pair) in pairs.enumerate() {
            assert!(!open.contains(&pair));
            open.insert(pair, number);
            expected.insert(pair, number);
        }
        assert_eq!(open.len(), expected.len());
        let all: BTreeMap<_, _> = open.iter().map(|(pair, number)| (pair, *number)).collect();
        assert_eq!(all, expected);
        assert_eq!(open.flows().count(), expected.len());
        for (pair, number) in &expected {
            assert_eq!(open.get(pair), Some(number));
            open.insert(*pair, number + 100);
            assert_eq!(open.remove(pair), Some(number + 100));
            assert_eq!(open.remove(pair), None);
        }
        assert_eq!(open.len(), 0);
    }
}
