//! Chooses the flow that ends when there are too many, so that no identity and no network can keep
//! the others out.

use lightseal_core::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The shortest time between two searches for such a flow. A refused sender may repeat its
/// datagrams as fast as the network allows.
const PAUSE: Duration = Duration::from_millis(10);

/// Finds the flow that ends in favour of a new one.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    last: Option<Instant>,
}

impl Shares {
    /// The longest idle flow of the owner that has most flows, if that owner has at least two
    /// flows more than `newcomer`. `flows` are all flows with their owners; `quiet` orders flows by
    /// their last activity, the longest idle first.
    pub(crate) fn who_gives_way<F, K: Ord, Q: Ord>(
        &mut self,
        now: Instant,
        newcomer: &K,
        flows: impl Iterator<Item = (F, K)>,
        quiet: impl Fn(&F) -> Q,
    ) -> Option<F> {
        if !self.may_search(now) {
            return None;
        }
        let mut owners = BTreeMap::<K, Vec<F>>::new();
        for (flow, owner) in flows {
            owners.entry(owner).or_default().push(flow);
        }
        let own = owners.get(newcomer).map_or(0, Vec::len);
        let most = owners.into_values().max_by_key(Vec::len)?;
        if most.len() < own + 2 {
            return None;
        }
        most.into_iter().min_by_key(quiet)
    }

    /// Whether all flows may be searched now, which then counts as done.
    fn may_search(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.saturating_since(last) < PAUSE) {
            return false;
        }
        self.last = Some(now);
        true
    }
}

/// The network of an address: the IPv4 address itself, or the first 64 bits of an IPv6 address,
/// which belong to one owner.
pub(crate) fn network(address: SocketAddr) -> u128 {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip) >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greediest_owner_gives_up_its_quietest_flow_until_shares_are_equal() {
        let mut now = Instant::from_micros(1_000_000);
        let mut shares = Shares::default();
        // Each entry is a flow's owner and the time of its last activity.
        let mut flows: Vec<(char, u32)> = (0..8).map(|n| ('a', 100 - n)).collect();
        for newcomer in ['b', 'b', 'b', 'c'] {
            let all = flows.iter().map(|flow| (*flow, flow.0));
            let gives_way = shares.who_gives_way(now, &newcomer, all, |(_, at)| *at).unwrap();
            let quietest = flows.iter().filter(|(owner, _)| *owner == 'a').min_by_key(|f| f.1);
            assert_eq!(Some(&gives_way), quietest);
            flows.retain(|flow| *flow != gives_way);
            flows.push((newcomer, 1));
            now += PAUSE;
        }
        // The flows are four of a, three of b and one of c: b has its share.
        let all = || flows.iter().map(|flow| (*flow, flow.0));
        assert_eq!(shares.who_gives_way(now, &'b', all(), |(_, at)| *at), None);
        assert_eq!(shares.who_gives_way(now, &'c', all(), |(_, at)| *at), None, "too soon");
        assert!(shares.who_gives_way(now + PAUSE, &'c', all(), |(_, at)| *at).is_some());
        assert_eq!(shares.who_gives_way(now + PAUSE * 2, &'a', all(), |(_, at)| *at), None);
    }

    #[test]
    fn a_network_of_ipv6_has_64_bits() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:0:0:2]:9"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_eq!(of("192.0.2.1:1"), of("[::ffff:192.0.2.1]:2"));
        assert_ne!(of("192.0.2.1:1"), of("192.0.2.2:1"));
    }
}
