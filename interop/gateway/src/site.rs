//! Two LANs with one host each, a gateway at the edge of each LAN, and a network between the
//! gateways.
//!
//! ```text
//! hostA lan ─── lan gwA wan ─── wan gwB lan ─── lan hostB
//! ```
//!
//! Each of the four is a network namespace; each line is a virtual cable (a veth pair) without
//! offloads. The programs that carry frames between the LANs are not part of it: see
//! [`crate::rows`].

use crate::Failure;
use crate::frames::{FLOWS, Flow, Side};
use crate::namespace::{Namespace, Traffic};
use std::fs;

/// The name of each host's interface, and of each gateway's interface to its LAN.
pub const LAN: &str = "lan";
/// The name of each gateway's interface to the other gateway.
pub const WAN: &str = "wan";

/// The MTUs of the cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    /// The MTU of both LANs: bytes of payload of an Ethernet frame.
    pub lan: u32,
    /// The MTU between the gateways.
    pub underlay: u32,
}

impl Mtu {
    /// Nothing is ever fragmented: a full frame of the LAN still fits with VXLAN (50 bytes) in
    /// WireGuard (60 bytes, and up to 15 of padding).
    pub const ROOMY: Self = Self { lan: 1500, underlay: 1700 };
    /// As on the Internet: a full frame and what a tunnel adds to it do not fit in one packet.
    pub const TIGHT: Self = Self { lan: 1500, underlay: 1500 };
}

/// The four namespaces and the flows between the two hosts.
#[derive(Debug)]
pub struct Site {
    /// The host that sends the measured streams.
    pub host_a: Namespace,
    /// The gateway of host A's LAN.
    pub gateway_a: Namespace,
    /// The gateway of host B's LAN.
    pub gateway_b: Namespace,
    /// The host that receives and answers.
    pub host_b: Namespace,
    /// The MTUs of the cables.
    pub mtu: Mtu,
    /// Flows from host A to host B. Their packet numbers continue from one measurement to the next.
    pub there: Vec<Flow>,
    /// Flows from host B to host A.
    pub back: Vec<Flow>,
}

impl Site {
    /// Makes the namespaces and lays the cables.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if namespaces are forbidden.
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

    /// A single cable from host to host, to measure the cost of the measurement itself.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if namespaces are forbidden.
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

/// A gateway's address in the network between the gateways.
pub const fn underlay_address(side: Side) -> &'static str {
    match side {
        Side::A => "192.0.2.1",
        Side::B => "192.0.2.2",
    }
}

/// A host's address in its LAN.
pub const fn lan_address(side: Side) -> &'static str {
    match side {
        Side::A => "198.51.100.1",
        Side::B => "198.51.100.2",
    }
}

/// The counters of an interface, for a thread in the interface's namespace. They are read from a
/// file, which is cheaper than starting `ip`.
pub fn counted_here(interface: &str) -> Option<Traffic> {
    read_counters(&fs::read_to_string("/proc/thread-self/net/dev").ok()?, interface)
}

/// Reads the line of an interface in `/proc/net/dev`: its name, eight numbers about received frames
/// and eight about sent ones.
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
