//! The IPv6 addresses of members inside of their group, which applications behind a TUN device see.
//!
//! Each group has an inner network, a unique local /64 (RFC 4193) that is derived from its GroupID.
//! The interface identifier of a sender is made from its SenderID. The interface identifier of a
//! listener is made from its ListenerID or, in `axiom-1.2`, from the low half of its address. These
//! addresses never occur in packets on a real network.

use lightseal_group::member::Listener;
use lightseal_group::{GroupId, ListenerId, SenderId};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The upper bits of a sender's interface identifier, "se" in ASCII. No ListenerID reaches this
/// range.
const SENDERS: u64 = 0x7365 << 48;

/// A group's inner network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerNetwork {
    prefix: u64,
    group: Ipv6Addr,
}

impl InnerNetwork {
    /// The inner network of a group. `address` is the multicast address of its requests.
    pub fn new(group: &GroupId, address: SocketAddr) -> Self {
        let mut digest = Sha256::new();
        digest.update(b"lightseal group network\0");
        digest.update(group.0);
        let digest = digest.finalize();
        let mut prefix = [0xfd, 0, 0, 0, 0, 0, 0, 0];
        prefix[1..6].copy_from_slice(&digest[..5]);
        let group = match address.ip() {
            IpAddr::V6(ip) => ip,
            // A multicast address of site-local scope that is not permanently assigned (RFC 4291,
            // section 2.7), with the IPv4 address in its low bits.
            IpAddr::V4(ip) => {
                let low = u128::from(u32::from(ip));
                Ipv6Addr::from(0xff15 << 112 | low)
            }
        };
        Self { prefix: u64::from_be_bytes(prefix), group }
    }

    /// The inner multicast address that requests are sent to.
    pub const fn group(&self) -> Ipv6Addr {
        self.group
    }

    fn at(&self, interface: u64) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(self.prefix) << 64 | u128::from(interface))
    }

    /// The inner address of a sender.
    pub fn sender(&self, sender: SenderId) -> Ipv6Addr {
        self.at(SENDERS | u64::from(sender.0))
    }

    /// The inner address of a listener.
    pub fn listener(&self, listener: Listener) -> Ipv6Addr {
        match listener {
            // The identifier is one higher than the ListenerID, because 0 is the anycast address of
            // routers (RFC 4291, section 2.6.1).
            Listener::Id(id) => self.at(u64::from(id.get()) + 1),
            Listener::Address(IpAddr::V4(ip)) => self.at(u64::from(u32::from(ip))),
            Listener::Address(IpAddr::V6(ip)) => self.at(u128::from(ip) as u64),
        }
    }

    /// Whether an address belongs to the group's inner network and is not the anycast address of
    /// its routers.
    pub fn contains(&self, address: Ipv6Addr) -> bool {
        let bits = u128::from(address);
        (bits >> 64) as u64 == self.prefix && bits as u64 != 0
    }

    /// The ListenerID with this inner address, if there is one.
    pub fn listener_at(&self, address: Ipv6Addr) -> Option<ListenerId> {
        let interface = u128::from(address) as u64;
        let id = ListenerId::new(u32::try_from(interface.checked_sub(1)?).ok()?)?;
        (self.listener(Listener::Id(id)) == address).then_some(id)
    }

    /// The SenderID with this inner address, if there is one.
    pub fn sender_at(&self, address: Ipv6Addr) -> Option<SenderId> {
        let id = SenderId(u128::from(address) as u8);
        (self.sender(id) == address).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_group::ListenerId;

    #[test]
    fn nobody_shares_an_address() {
        let group = GroupId([7; 16]);
        let inside = InnerNetwork::new(&group, "[ff15::abcd]:5684".parse().unwrap());
        assert_eq!(inside.group().to_string(), "ff15::abcd");
        let sender = inside.sender(SenderId(3));
        assert_eq!(inside.sender_at(sender), Some(SenderId(3)));
        assert!(sender.is_unique_local());
        let first = inside.listener(Listener::Id(ListenerId::new(0).unwrap()));
        assert_eq!(inside.sender_at(first), None);
        assert_ne!(first.segments()[7], 0);
        assert_eq!(inside.listener_at(first), ListenerId::new(0));
        let last = ListenerId::new((1 << 24) - 1).unwrap();
        assert_eq!(inside.listener_at(inside.listener(Listener::Id(last))), Some(last));
        let [before, behind] = [0, (1 << 24) + 1].map(|id| inside.at(id));
        assert_eq!([before, behind, sender].map(|at| inside.listener_at(at)), [None; 3]);
        assert!(inside.contains(behind) && inside.contains(sender) && !inside.contains(before));
        let other = InnerNetwork::new(&GroupId([8; 16]), "[ff15::abcd]:5684".parse().unwrap());
        assert_eq!(other.sender_at(sender), None);
        assert_eq!(other.listener_at(first), None);
        assert!(!other.contains(sender));
        let by_address = inside.listener(Listener::Address("fd00::5:7".parse().unwrap()));
        assert_eq!(by_address.segments()[4..], [0, 0, 5, 7]);
    }

    #[test]
    fn a_group_of_ipv4_has_an_address_of_ipv6_inside() {
        let inside = InnerNetwork::new(&GroupId([7; 16]), "239.1.2.3:5684".parse().unwrap());
        assert_eq!(inside.group().to_string(), "ff15::ef01:203");
    }
}
