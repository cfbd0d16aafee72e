//! How a node passes a datagram on to the node that it is for.
//!
//! ```text
//! | 1 (1) | peer: address (16), port (2) | local address (16) | datagram | tag (16) |
//! ```
//!
//! IPv4 addresses are mapped into IPv6; a local address of zeros is unknown. The tag is LightMAC over
//! AES-128 of all that is before it. It keeps everybody who has no key of the fleet from using the way
//! between the nodes. It need not keep anybody from repeating a datagram, because whoever could do so
//! could also repeat it at the front door, with the same sender's address.

use lightmac::{Aes128, LightMac};
use lightseal_core::AddressPair;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const VERSION: u8 = 1;
const ADDRESS: usize = 16;
const HEAD: usize = 1 + ADDRESS + 2 + ADDRESS;
const TAG: usize = 16;
/// The bits of LightMAC's counter: enough for any datagram.
const COUNTER_BITS: u32 = 16;

/// Wraps datagrams that are passed on, and unwraps them.
#[derive(Debug)]
pub(crate) struct Envelope(LightMac<Aes128>);

impl Envelope {
    /// All nodes of a fleet have the same `secret`, from which nothing else is made.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        let (first, last) = secret.split_at(16);
        let [first, last] = [first, last].map(|key| key.try_into().expect("half of 32 bytes"));
        let mac = LightMac::new(first, last, COUNTER_BITS, 8 * TAG as u32);
        Self(mac.expect("LightMAC over AES takes these parameters"))
    }

    /// Writes a datagram that came over these addresses into `out`, wrapped.
    pub(crate) fn seal(&self, addresses: AddressPair, datagram: &[u8], out: &mut Vec<u8>) {
        let AddressPair { peer, local } = addresses;
        out.clear();
        out.push(VERSION);
        out.extend(bytes(peer.ip()));
        out.extend(peer.port().to_be_bytes());
        out.extend(local.map_or([0; ADDRESS], bytes));
        out.extend_from_slice(datagram);
        let tag = self.0.tag(&[out]).expect("shorter than 2^16 blocks");
        out.extend_from_slice(tag.as_bytes());
    }

    /// Whether a node has wrapped this with the secret of this envelope.
    pub(crate) fn has_wrapped(&self, passed: &[u8]) -> bool {
        let parts = passed.len().checked_sub(TAG).and_then(|at| passed.split_at_checked(at));
        parts.is_some_and(|(wrapped, tag)| self.0.verify(&[wrapped], tag).is_ok())
    }

    /// What was wrapped; `None` if another node of the fleet has not wrapped it.
    pub(crate) fn open<'a>(&self, passed: &'a mut [u8]) -> Option<(AddressPair, &'a mut [u8])> {
        let at = passed.len().checked_sub(TAG).filter(|at| *at >= HEAD)?;
        let (wrapped, tag) = passed.split_at_mut(at);
        self.0.verify(&[wrapped], tag).ok()?;
        let (head, datagram) = wrapped.split_first_chunk_mut::<HEAD>()?;
        let [version, head @ ..] = head;
        let (peer, head) = head.split_first_chunk::<ADDRESS>()?;
        let (port, local) = head.split_first_chunk::<2>()?;
        let peer = SocketAddr::new(address(*peer), u16::from_be_bytes(*port));
        let local = Some(address(local.try_into().ok()?)).filter(|local| !local.is_unspecified());
        (*version == VERSION).then_some((AddressPair { peer, local }, datagram))
    }
}

fn bytes(address: IpAddr) -> [u8; ADDRESS] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn address(bytes: [u8; ADDRESS]) -> IpAddr {
    Ipv6Addr::from(bytes).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_node_wraps_another_unwraps_and_nobody_else_can_change() {
        let (one, other) = (Envelope::new(&[1; 32]), Envelope::new(&[2; 32]));
        for (peer, local) in [
            ("192.0.2.1:5684", Some("198.51.100.7")),
            ("[2001:db8::1]:1", Some("2001:db8::2")),
            ("[2001:db8::1]:65535", None),
        ] {
            let addresses = AddressPair {
                peer: peer.parse().unwrap(),
                local: local.map(|local| local.parse().unwrap()),
            };
            for datagram in [&b""[..], b"a datagram", &[7; 65_000]] {
                let mut passed = vec![9; 3];
                one.seal(addresses, datagram, &mut passed);
                assert_eq!(passed.len(), datagram.len() + HEAD + TAG);
                let opened = one.open(&mut passed).map(|(pair, text)| (pair, text.to_vec()));
                assert_eq!(opened, Some((addresses, datagram.to_vec())));
                assert!(other.open(&mut passed).is_none());
                for at in (0..passed.len()).step_by(1 + passed.len() / 100) {
                    let mut changed = passed.clone();
                    changed[at] ^= 1;
                    assert!(one.open(&mut changed).is_none(), "{at}");
                    changed.truncate(at);
                    assert!(one.open(&mut changed).is_none(), "{at}");
                }
            }
        }
    }
}
