//! Addresses that members have inside of their group: what applications behind a TUN device see.
//!
//! The group has a network of its own, a unique local /64 (RFC 4193) that its GroupID names. In it
//! stand senders by their SenderIDs, and listeners by their ListenerIDs or, in `axiom-1.2`, by the
//! low half of their addresses. No packet ever carries these addresses over a network.

use group::member::Listener;
use group::{GroupId, ListenerId, SenderId};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// In front of a SenderID, where no listener stands: "se".
const SENDERS: u64 = 0x7365 << 48;

/// A group's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    prefix: u64,
    group: Ipv6Addr,
}

impl Inside {
    /// That of the group with this address.
    pub fn new(group: &GroupId, address: SocketAddr) -> Self {
        let mut digest = Sha256::new();
        digest.update(b"lightseal group network\0");
        digest.update(group.0);
        let digest = digest.finalize();
        let mut prefix = [0xfd, 0, 0, 0, 0, 0, 0, 0];
        prefix[1..6].copy_from_slice(&digest[..5]);
        let group = match address.ip() {
            IpAddr::V6(ip) => ip,
            // Of site scope and not permanent (RFC 4291, section 2.7), the IPv4 address behind it.
            IpAddr::V4(ip) => {
                let low = u128::from(u32::from(ip));
                Ipv6Addr::from(0xff15 << 112 | low)
            }
        };
        Self { prefix: u64::from_be_bytes(prefix), group }
    }

    /// Where requests go.
    pub const fn group(&self) -> Ipv6Addr {
        self.group
    }

    fn at(&self, interface: u64) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(self.prefix) << 64 | u128::from(interface))
    }

    /// Where a sender is.
    pub fn sender(&self, sender: SenderId) -> Ipv6Addr {
        self.at(SENDERS | u64::from(sender.0))
    }

    /// Where a listener is.
    pub fn listener(&self, listener: Listener) -> Ipv6Addr {
        match listener {
            // One more, since 0 stands for routers (RFC 4291, section 2.6.1).
            Listener::Id(id) => self.at(u64::from(id.get()) + 1),
            Listener::Address(IpAddr::V4(ip)) => self.at(u64::from(u32::from(ip))),
            Listener::Address(IpAddr::V6(ip)) => self.at(u128::from(ip) as u64),
        }
    }

    /// Whether an address is of the group's network, but for the routers' own.
    pub fn holds(&self, address: Ipv6Addr) -> bool {
        let bits = u128::from(address);
        (bits >> 64) as u64 == self.prefix && bits as u64 != 0
    }

    /// Which ListenerID has this address.
    pub fn listener_at(&self, address: Ipv6Addr) -> Option<ListenerId> {
        let interface = u128::from(address) as u64;
        let id = ListenerId::new(u32::try_from(interface.checked_sub(1)?).ok()?)?;
        (self.listener(Listener::Id(id)) == address).then_some(id)
    }

    /// Which sender has this address.
    pub fn whose(&self, address: Ipv6Addr) -> Option<SenderId> {
        let id = SenderId(u128::from(address) as u8);
        (self.sender(id) == address).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use group::ListenerId;

    #[test]
    fn nobody_shares_an_address() {
        let group = GroupId([7; 16]);
        let inside = Inside::new(&group, "[ff15::abcd]:5684".parse().unwrap());
        assert_eq!(inside.group().to_string(), "ff15::abcd");
        let sender = inside.sender(SenderId(3));
        assert_eq!(inside.whose(sender), Some(SenderId(3)));
        assert!(sender.is_unique_local());
        let first = inside.listener(Listener::Id(ListenerId::new(0).unwrap()));
        assert_eq!(inside.whose(first), None);
        assert_ne!(first.segments()[7], 0);
        assert_eq!(inside.listener_at(first), ListenerId::new(0));
        let last = ListenerId::new((1 << 24) - 1).unwrap();
        assert_eq!(inside.listener_at(inside.listener(Listener::Id(last))), Some(last));
        let [before, behind] = [0, (1 << 24) + 1].map(|id| inside.at(id));
        assert_eq!([before, behind, sender].map(|at| inside.listener_at(at)), [None; 3]);
        assert!(inside.holds(behind) && inside.holds(sender) && !inside.holds(before));
        let other = Inside::new(&GroupId([8; 16]), "[ff15::abcd]:5684".parse().unwrap());
        assert_eq!(other.whose(sender), None);
        assert_eq!(other.listener_at(first), None);
        assert!(!other.holds(sender));
        let by_address = inside.listener(Listener::Address("fd00::5:7".parse().unwrap()));
        assert_eq!(by_address.segments()[4..], [0, 0, 5, 7]);
    }

    #[test]
    fn a_group_of_ipv4_has_an_address_of_ipv6_inside() {
        let inside = Inside::new(&GroupId([7; 16]), "239.1.2.3:5684".parse().unwrap());
        assert_eq!(inside.group().to_string(), "ff15::ef01:203");
    }
}
