//! The next hop of a datagram: the kernel's routes and neighbours, read over rtnetlink.

use crate::kernel::{device, socket};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long an answer of the kernel is used.
const MAX_AGE: Duration = Duration::from_secs(1);
/// The interval after which a request without an answer is repeated.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The largest number of peers whose next hop is stored.
const MAX_PEERS: usize = 4096;

/// Numbers of linux/rtnetlink.h, linux/neighbour.h and linux/netlink.h.
mod number {
    pub(super) const REQUEST: u16 = 1;
    pub(super) const NEW_ROUTE: u16 = 24;
    pub(super) const GET_ROUTE: u16 = 26;
    pub(super) const NEW_NEIGHBOUR: u16 = 28;
    pub(super) const GET_NEIGHBOUR: u16 = 30;
    pub(super) const ROUTE_DESTINATION: u16 = 1;
    pub(super) const ROUTE_SOURCE: u16 = 2;
    pub(super) const ROUTE_INTERFACE: u16 = 4;
    pub(super) const ROUTE_GATEWAY: u16 = 5;
    pub(super) const ROUTE_VIA: u16 = 18;
    pub(super) const UNICAST: u8 = 1;
    pub(super) const NEIGHBOUR_DESTINATION: u16 = 1;
    pub(super) const NEIGHBOUR_MAC: u16 = 2;
    pub(super) const STALE: u16 = 0x04;
    /// The states reachable, stale, delay, probe and permanent.
    pub(super) const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
}
const HEADER: usize = 16;
const ROUTE: usize = 12;
const NEIGHBOUR: usize = 12;

/// The next hop to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextHop {
    /// The Ethernet address of the next hop.
    pub(super) mac: [u8; 6],
    /// The kernel has not heard of that host for a while. It probes the host when it sends a
    /// datagram itself.
    pub(super) stale: bool,
}

pub(super) struct NextHopCache {
    netlink: OwnedFd,
    interface: u32,
    own: IpAddr,
    known: HashMap<IpAddr, (Instant, Option<NextHop>)>,
}

impl NextHopCache {
    /// Opens a table for datagrams sent from the address `own` over the interface.
    pub(super) fn open(interface: u32, own: IpAddr) -> io::Result<Self> {
        let netlink = socket::open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        Ok(Self { netlink, interface, own, known: HashMap::new() })
    }

    /// The next hop to a peer; `None` if the route is not over this interface, or the kernel does
    /// not know the next hop. `stale` is returned only once for each answer of the kernel.
    pub(super) fn next_hop(&mut self, to: IpAddr, now: Instant) -> Option<NextHop> {
        if let Some((asked, next_hop)) = self.known.get_mut(&to) {
            let max_age = if next_hop.is_some() { MAX_AGE } else { RETRY_INTERVAL };
            if now.duration_since(*asked) < max_age {
                let answer = *next_hop;
                if let Some(next_hop) = next_hop {
                    next_hop.stale = false;
                }
                return answer;
            }
        }
        let next_hop = self.ask(to);
        if self.known.len() >= MAX_PEERS {
            self.known.clear();
        }
        self.known.insert(to, (now, next_hop.map(|next_hop| NextHop { stale: false, ..next_hop })));
        next_hop
    }

    fn ask(&self, to: IpAddr) -> Option<NextHop> {
        let next = self.next_host(to)?;
        let mut body = [0; NEIGHBOUR];
        body[0] = family(next);
        body[4..8].copy_from_slice(&self.interface.to_ne_bytes());
        let answer = self.request(
            number::GET_NEIGHBOUR,
            &body,
            &[(number::NEIGHBOUR_DESTINATION, next)],
            number::NEW_NEIGHBOUR,
        )?;
        let state = u16::from_ne_bytes(answer.get(8..10)?.try_into().ok()?);
        if state & number::USABLE == 0 {
            return None;
        }
        let (_, mac) = attributes(answer.get(NEIGHBOUR..)?)
            .find(|(kind, _)| *kind == number::NEIGHBOUR_MAC)?;
        Some(NextHop { mac: mac.try_into().ok()?, stale: state & number::STALE != 0 })
    }

    /// The address of the next hop to which the kernel would send a packet, if that is over this
    /// interface.
    fn next_host(&self, to: IpAddr) -> Option<IpAddr> {
        let mut body = [0; ROUTE];
        let bits = if to.is_ipv4() { 32 } else { 128 };
        (body[0], body[1], body[2]) = (family(to), bits, bits);
        let answer = self.request(
            number::GET_ROUTE,
            &body,
            &[(number::ROUTE_DESTINATION, to), (number::ROUTE_SOURCE, self.own)],
            number::NEW_ROUTE,
        )?;
        if *answer.get(7)? != number::UNICAST {
            return None;
        }
        let (mut next, mut over) = (to, None);
        for (kind, value) in attributes(answer.get(ROUTE..)?) {
            match kind {
                number::ROUTE_INTERFACE => over = value.try_into().ok().map(u32::from_ne_bytes),
                number::ROUTE_GATEWAY => next = address(value)?,
                number::ROUTE_VIA => next = address(value.get(2..)?)?,
                _ => {}
            }
        }
        (over == Some(self.interface)).then_some(next)
    }

    /// Sends a request and returns the answer without its header, if it is of the wanted kind. The
    /// kernel answers such requests before the system call that sends them returns.
    fn request(
        &self,
        kind: u16,
        body: &[u8],
        addresses: &[(u16, IpAddr)],
        wanted: u16,
    ) -> Option<Vec<u8>> {
        let mut message = vec![0; HEADER];
        message.extend(body);
        for (kind, address) in addresses {
            let octets = match address {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            message.extend((octets.len() as u16 + 4).to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(octets);
        }
        let len = message.len() as u32;
        message[..4].copy_from_slice(&len.to_ne_bytes());
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message[6..8].copy_from_slice(&number::REQUEST.to_ne_bytes());
        device::write(self.netlink.as_fd(), &message).ok()??;
        let mut answer = vec![0; 4096];
        let read = device::read(self.netlink.as_fd(), &mut answer).ok()??;
        let len = u32::from_ne_bytes(answer[..4].try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(answer[4..6].try_into().ok()?);
        answer.truncate(len.min(read));
        (kind == wanted && answer.len() >= HEADER).then(|| answer.split_off(HEADER))
    }
}

fn family(ip: IpAddr) -> u8 {
    (if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(octets).ok().map(IpAddr::from)
}

/// The kinds and values of attributes. A truncated attribute ends the list.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        // The upper bits are flags (NLA_TYPE_MASK).
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & 0x3FFF;
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_attributes_end_the_list() {
        let list = [6, 0, 1, 0, 7, 7, 0, 0, 5, 0, 2, 0, 9];
        let read: Vec<_> = attributes(&list).collect();
        assert_eq!(read, [(1, &[7, 7][..]), (2, &[9][..])]);
        for cut in 0..list.len() {
            assert!(attributes(&list[..cut]).count() < 2);
        }
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0, "shorter than its header");
    }

    #[test]
    fn loopback_has_no_neighbours() {
        let own = IpAddr::from([127, 0, 0, 1]);
        let mut next_hops = NextHopCache::open(1, own).unwrap();
        assert_eq!(next_hops.next_hop(own, Instant::now()), None, "a local route");
    }
}
