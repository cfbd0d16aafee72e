//! Two LANs of one host each, a gateway at the edge of each, and a network between these.
//!
//! ```text
//! hostA lan ─── lan gwA wan ─── wan gwB lan ─── lan hostB
//! ```
//!
//! Each of the four is a network namespace, each line a pair of virtual cables' ends without
//! offloads. What carries frames between the LANs is not a part of this: see [`crate::rows`].

use crate::Failure;
use crate::frames::{FLOWS, Flow, Side};
use crate::namespace::{Namespace, Traffic};
use std::fs;

/// The cable's end at every host, and at a gateway towards it.
pub const LAN: &str = "lan";
/// The cable's end at a gateway towards the other.
pub const WAN: &str = "wan";

/// What cables carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    /// On either LAN, in bytes of payload of an Ethernet frame.
    pub lan: u32,
    /// Between the gateways.
    pub underlay: u32,
}

impl Mtu {
    /// Nothing is ever split: a full frame of the LAN fits under VXLAN (50 bytes) under WireGuard
    /// (60, and up to 15 of padding), too.
    pub const ROOMY: Self = Self { lan: 1500, underlay: 1700 };
    /// As on the Internet: what a tunnel adds to a full frame does not fit.
    pub const TIGHT: Self = Self { lan: 1500, underlay: 1500 };
}

/// The four namespaces and the flows between the two hosts.
#[derive(Debug)]
pub struct Site {
    /// The host whose streams are measured.
    pub host_a: Namespace,
    /// The gateway of its LAN.
    pub gateway_a: Namespace,
    /// The gateway of the other LAN.
    pub gateway_b: Namespace,
    /// The host that answers.
    pub host_b: Namespace,
    /// What its cables carry.
    pub mtu: Mtu,
    /// Frames from A to B so far; packet numbers go on from one measurement to the next.
    pub there: Vec<Flow>,
    /// Frames from B to A.
    pub back: Vec<Flow>,
}

impl Site {
    /// Lays the cables.
    ///
    /// # Errors
    /// [`Failure::NotHere`] where namespaces are forbidden.
    pub fn build(mtu: Mtu) -> Result<Self, Failure> {
        let site = Self::bare(mtu)?;
        site.host_a.cable(LAN, &site.gateway_a, LAN, mtu.lan)?;
        site.gateway_a.cable(WAN, &site.gateway_b, WAN, mtu.underlay)?;
        site.gateway_b.cable(LAN, &site.host_b, LAN, mtu.lan)?;
        for side in [Side::A, Side::B] {
            let (gateway, host) = (site.gateway(side), site.host(side));
            gateway.ip(&format!("addr add {}/24 dev {WAN}", underlay_address(side)))?;
            host.ip(&format!("addr add {}/24 dev {LAN}", lan_address(side)))?;
        }
        Ok(site)
    }

    /// One cable from host to host and nothing between: what the measurement itself takes.
    ///
    /// # Errors
    /// [`Failure::NotHere`] where namespaces are forbidden.
    pub fn one_cable(mtu: Mtu) -> Result<Self, Failure> {
        let site = Self::bare(mtu)?;
        site.host_a.cable(LAN, &site.host_b, LAN, mtu.lan)?;
        for side in [Side::A, Side::B] {
            site.host(side).ip(&format!("addr add {}/24 dev {LAN}", lan_address(side)))?;
        }
        Ok(site)
    }

    fn bare(mtu: Mtu) -> Result<Self, Failure> {
        let flows = |side| (0..FLOWS).map(|number| Flow::new(side, number)).collect();
        Ok(Self {
            host_a: Namespace::new("hostA")?,
            gateway_a: Namespace::new("gwA")?,
            gateway_b: Namespace::new("gwB")?,
            host_b: Namespace::new("hostB")?,
            mtu,
            there: flows(Side::A),
            back: flows(Side::B),
        })
    }

    /// The host of a side.
    pub const fn host(&self, side: Side) -> &Namespace {
        match side {
            Side::A => &self.host_a,
            Side::B => &self.host_b,
        }
    }

    /// The gateway of a side.
    pub const fn gateway(&self, side: Side) -> &Namespace {
        match side {
            Side::A => &self.gateway_a,
            Side::B => &self.gateway_b,
        }
    }
}

/// A gateway's address in the network between the two.
pub const fn underlay_address(side: Side) -> &'static str {
    match side {
        Side::A => "192.0.2.1",
        Side::B => "192.0.2.2",
    }
}

/// A host's address.
pub const fn lan_address(side: Side) -> &'static str {
    match side {
        Side::A => "198.51.100.1",
        Side::B => "198.51.100.2",
    }
}

/// What an interface has counted, read from a thread that is in its namespace; a file, and no
/// program that has to be started.
pub fn counted_here(interface: &str) -> Option<Traffic> {
    read_counters(&fs::read_to_string("/proc/thread-self/net/dev").ok()?, interface)
}

/// From the lines of `/proc/net/dev`: a name, eight numbers of what came and eight of what went.
fn read_counters(text: &str, interface: &str) -> Option<Traffic> {
    let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    let (_, numbers) = lines.find(|(name, _)| *name == interface)?;
    let numbers: Vec<u64> =
        numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Traffic {
        received: *numbers.get(1)?,
        received_bytes: *numbers.first()?,
        sent: *numbers.get(9)?,
        sent_bytes: *numbers.get(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_interface() {
        let text = "Inter-|   Receive\n face |bytes packets\n    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n\
                    lan:700 7 0 0 0 0 0 0 90 1 0 0 0 0 0 0\n";
        let expected = Traffic { received: 7, received_bytes: 700, sent: 1, sent_bytes: 90 };
        assert_eq!(read_counters(text, "lan"), Some(expected));
        assert_eq!(read_counters(text, "wan"), None);
    }
}
