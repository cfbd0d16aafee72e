//! Where a peer is whose address is that of what it sends.

use core::net::SocketAddr;
use gateway::bridge::PeerIndex;
use gateway::codepoints::Type;
use gateway::keys::{EpochSecret, GatewayId};
use gateway::link::{Inbound, Link, Links, Outbound};
use macsec::crypto::rustcrypto::PROVIDER;
use vocabulary::{Instant, PacketBuf, Random};

const NOW: Instant = Instant::from_micros(1);
const PEER: PeerIndex = PeerIndex(0);
const INDEX: u32 = 7;
/// Ports of the peer's lanes, at two hosts.
const HOME: [SocketAddr; 3] = [at(1, 1000), at(1, 1001), at(1, 1002)];
const AWAY: [SocketAddr; 2] = [at(2, 1000), at(2, 1001)];

const fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, host)), port)
}

struct Pair {
    outbound: Outbound,
    links: Links,
}

impl Pair {
    fn new(roams: bool) -> Self {
        let secret = || EpochSecret::new(&[1; 32], &[2; 32], &[3; 32]);
        let ends = (GatewayId([1; 32]), GatewayId([2; 32]));
        let link = Link::new(PEER, ends.0, None, roams, 1452);
        let links = Links::new(vec![link], &mut Random::insecure(1));
        links.install(INDEX, PEER, Inbound::new(secret(), ends, 1, &PROVIDER));
        Self { outbound: Outbound::new(secret(), ends, 1, INDEX, &PROVIDER), links }
    }

    fn sealed(&self, lane: u8) -> Vec<u8> {
        let mut buffer = [0; 128];
        let mut packet = PacketBuf::new(&mut buffer, 40..80).unwrap();
        self.outbound.seal(lane, Type::Sealed, 8, &mut packet).unwrap();
        packet.bytes().to_vec()
    }

    /// Where the peer is after `datagram` came from there.
    fn after(&self, mut datagram: Vec<u8>, from: SocketAddr) -> Option<SocketAddr> {
        let len = datagram.len();
        let mut packet = PacketBuf::new(&mut datagram, 0..len).unwrap();
        // What is refused moves nobody.
        let _ = self.links.open(NOW, from, &mut packet);
        self.links.get(PEER).unwrap().address()
    }
}

#[test]
fn lanes_with_ports_of_their_own_do_not_move_a_peer_to_and_fro() {
    let pair = Pair::new(true);
    for lane in [2, 1, 2] {
        let from = HOME[usize::from(lane)];
        assert_eq!(pair.after(pair.sealed(lane), from), Some(from), "lane 0 was not heard yet");
    }
    for lane in [0, 1, 2, 1, 0] {
        assert_eq!(pair.after(pair.sealed(lane), HOME[usize::from(lane)]), Some(HOME[0]));
    }
}

#[test]
fn a_peer_has_moved_when_any_lane_comes_from_elsewhere() {
    let pair = Pair::new(true);
    pair.after(pair.sealed(0), HOME[0]);
    let (old, late) = (pair.sealed(0), pair.sealed(1));
    assert_eq!(pair.after(pair.sealed(1), AWAY[1]), Some(AWAY[1]));
    assert_eq!(pair.after(pair.sealed(0), AWAY[0]), Some(AWAY[0]));
    assert_eq!(pair.after(pair.sealed(1), AWAY[1]), Some(AWAY[0]));
    assert_eq!(pair.after(pair.sealed(0), at(2, 9)), Some(at(2, 9)), "as when a NAT forgets");
    for behind in [old, late] {
        assert_eq!(pair.after(behind, HOME[0]), Some(at(2, 9)), "older than what came");
    }
    let mut forged = pair.sealed(0);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(pair.after(forged, HOME[0]), Some(at(2, 9)));
}

#[test]
fn a_peer_whose_address_is_told_stays_there() {
    let pair = Pair::new(false);
    assert_eq!(pair.after(pair.sealed(0), HOME[0]), None);
}
