//! How many bytes a tunnel adds to frames: this gateway's, VXLAN's, and those of VXLAN in WireGuard
//! according to their specifications.

use super::rows;
use serde_json::{Value, json};
use testkit::gateway::trials::growth;

/// Lengths in bytes of the frames' secure data. The frames are 44 bytes longer.
const LENGTHS: [usize; 7] = [20, 52, 84, 212, 468, 980, 1356];
/// Length in bytes of the addresses, the SecTAG with an SCI, and the ICV.
const MACSEC: usize = 28 + 16;
/// Length in bytes of the headers of IPv4 without options and UDP.
const OUTER: usize = 20 + 8;

/// A frame in VXLAN (RFC 7348, section 5), from the outer IPv4 header on.
fn vxlan(frame: &[u8]) -> Vec<u8> {
    let header = [0x08, 0, 0, 0, 0, 0, 7, 0];
    ip_and_udp([&header, frame].concat())
}

/// An IPv4 packet in WireGuard: padded to 16 bytes, behind type, receiver and counter, and followed
/// by a tag (its paper, section 5.4.6).
fn wireguard(mut packet: Vec<u8>) -> Vec<u8> {
    packet.resize(packet.len().next_multiple_of(16), 0);
    let header = [[4, 0, 0, 0], [1; 4], [0; 4], [0; 4]].concat();
    ip_and_udp([header, packet, vec![0; 16]].concat())
}

/// Puts IPv4 and UDP headers before a payload. Only their length matters here.
fn ip_and_udp(payload: Vec<u8>) -> Vec<u8> {
    let mut headers = [0; OUTER];
    headers[0] = 0x45;
    [&headers[..], &payload].concat()
}

/// For each scheme: the number of bytes added to frames of several lengths, without the outer
/// Ethernet header, and the differences to VXLAN and to VXLAN in WireGuard.
pub fn bytes(names: &[String]) -> Value {
    rows(names, |scheme, make| {
        let row = |len: usize| {
            let frame = vec![0; len + MACSEC];
            let ours = growth(make, len) + OUTER as isize;
            let vxlan = vxlan(&frame);
            let both = wireguard(vxlan.clone()).len() as isize - frame.len() as isize;
            let vxlan = (vxlan.len() - frame.len()) as isize;
            json!({
                "frame_bytes": frame.len(),
                "added": ours,
                "vxlan_added": vxlan,
                "vxlan_wireguard_added": both,
                "beside_vxlan": ours - vxlan,
                "beside_vxlan_wireguard": ours - both,
            })
        };
        json!({ "scheme": scheme, "frames": LENGTHS.map(row) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vxlan_adds_36_bytes_and_wireguard_60_and_padding() {
        for len in 60..1500 {
            let inner = vxlan(&vec![0; len]);
            assert_eq!(inner.len(), len + 36);
            let padding = (16 - inner.len() % 16) % 16;
            assert_eq!(wireguard(inner).len(), len + 36 + 60 + padding);
        }
    }
}
