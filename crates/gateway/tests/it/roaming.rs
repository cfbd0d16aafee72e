//! The address of a peer, which is learned from the datagrams that it sends.

use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::{Instant, PacketBuf, Random};
use lightseal_gateway::codepoints::DatagramType;
use lightseal_gateway::keys::{EpochSecret, GatewayId};
use lightseal_gateway::link::{Inbound, Link, Links, Outbound};
use lightseal_gateway::stations::PeerIndex;
use lightseal_macsec::crypto::rustcrypto::PROVIDER;

const NOW: Instant = Instant::from_micros(1);
const PEER: PeerIndex = PeerIndex(0);
const INDEX: u32 = 7;
/// The ports of the peer's lanes, at two hosts.
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
        self.outbound.seal(lane, DatagramType::Sealed, 8, &mut packet).unwrap();
        packet.bytes().to_vec()
    }

    fn rekey(&mut self) {
        let secret = || EpochSecret::new(&[1; 32], &[4; 32], &[5; 32]);
        let ends = (GatewayId([1; 32]), GatewayId([2; 32]));
        self.links.install(INDEX + 1, PEER, Inbound::new(secret(), ends, 2, &PROVIDER));
        self.outbound = Outbound::new(secret(), ends, 2, INDEX + 1, &PROVIDER);
    }

    /// The address of the peer after `datagram` came from `from`.
    fn after(&self, datagram: Vec<u8>, from: SocketAddr) -> Option<SocketAddr> {
        self.at(NOW, datagram, from)
    }

    fn at(&self, now: Instant, mut datagram: Vec<u8>, from: SocketAddr) -> Option<SocketAddr> {
        let len = datagram.len();
        let mut packet = PacketBuf::new(&mut datagram, 0..len).unwrap();
        // A datagram that is refused does not change the address.
        let _ = self.links.open(now, from, &mut packet);
        self.links.get(PEER).unwrap().address()
    }
}

#[test]
fn lanes_with_ports_of_their_own_do_not_move_a_peer_to_and_fro() {
    for first in [0, 2] {
        let pair = Pair::new(true);
        let known = HOME[usize::from(first)];
        assert_eq!(
            pair.after(pair.sealed(first), known),
            Some(known),
            "the first datagram under new keys sets the address"
        );
        for round in 0..100 {
            for lane in [0, 1, 2, 1, 0] {
                let at = NOW + Duration::from_millis(round * 100);
                let from = HOME[usize::from(lane)];
                assert_eq!(pair.at(at, pair.sealed(lane), from), Some(known), "{first} {lane}");
            }
        }
    }
}

#[test]
fn a_peer_has_moved_when_any_lane_comes_from_elsewhere() {
    let pair = Pair::new(true);
    pair.after(pair.sealed(0), HOME[0]);
    let (old, late) = (pair.sealed(0), pair.sealed(1));
    assert_eq!(pair.after(pair.sealed(1), AWAY[1]), Some(AWAY[1]));
    assert_eq!(
        pair.after(pair.sealed(0), AWAY[0]),
        Some(AWAY[1]),
        "the port of another lane changes nothing"
    );
    assert_eq!(
        pair.after(pair.sealed(1), at(2, 9)),
        Some(at(2, 9)),
        "the port of the lane has changed, as after a NAT has forgotten it"
    );
    for behind in [old, late] {
        assert_eq!(
            pair.after(behind, HOME[0]),
            Some(at(2, 9)),
            "a datagram that is older than the newest changes nothing"
        );
    }
    let mut forged = pair.sealed(0);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(pair.after(forged, HOME[0]), Some(at(2, 9)));
}

#[test]
fn a_lane_from_whose_port_nothing_comes_any_more_gives_way_to_another() {
    let pair = Pair::new(true);
    pair.after(pair.sealed(0), HOME[0]);
    pair.after(pair.sealed(1), HOME[1]);
    // The NAT restarts. Only lane 1 has a station, and sends from a new port.
    let fresh = at(1, 2001);
    for (millis, expected) in [(0, HOME[0]), (1999, HOME[0]), (2000, fresh), (2001, fresh)] {
        let time = NOW + Duration::from_millis(millis);
        assert_eq!(pair.at(time, pair.sealed(1), fresh), Some(expected), "{millis}");
    }
    // A keepalive now and then does not change the address while the other lane is heard.
    let keepalive = at(1, 2000);
    let time = NOW + Duration::from_millis(4000);
    assert_eq!(pair.at(time, pair.sealed(0), keepalive), Some(fresh));
    let time = NOW + Duration::from_millis(4001);
    assert_eq!(pair.at(time, pair.sealed(0), keepalive), Some(keepalive));
}

#[test]
fn new_keys_show_at_once_where_the_peer_is() {
    let mut pair = Pair::new(true);
    pair.after(pair.sealed(1), HOME[1]);
    pair.rekey();
    assert_eq!(pair.after(pair.sealed(0), HOME[0]), Some(HOME[0]));
    assert_eq!(pair.after(pair.sealed(1), HOME[1]), Some(HOME[0]));
}

#[test]
fn a_peer_with_an_endpoint_is_followed_to_another_host_and_back_but_not_to_another_port() {
    let pair = Pair::new(false);
    let endpoint = at(1, 8885);
    let link = || pair.links.get(PEER).unwrap();
    link().set_address(Some(endpoint));
    assert_eq!(
        pair.after(pair.sealed(0), HOME[0]),
        Some(endpoint),
        "the port of a lane changes nothing"
    );
    assert_eq!(link().destination(), Some((endpoint, false)));
    let (old, replayed) = (pair.sealed(0), pair.sealed(0));
    assert_eq!(pair.after(replayed.clone(), HOME[0]), Some(endpoint));
    let mut forged = pair.sealed(0);
    *forged.last_mut().unwrap() ^= 1;
    for behind in [old, replayed, forged] {
        assert_eq!(
            pair.after(behind, AWAY[0]),
            Some(endpoint),
            "a datagram that is not authentic, new and the newest changes nothing"
        );
    }
    assert_eq!(pair.after(pair.sealed(1), AWAY[1]), Some(AWAY[1]));
    assert_eq!(link().destination(), Some((AWAY[1], true)), "the peer may be behind a NAT now");
    assert_eq!(
        pair.after(pair.sealed(0), AWAY[0]),
        Some(AWAY[1]),
        "the port of another lane changes nothing"
    );
    link().configure_address(endpoint);
    assert_eq!(link().address(), Some(AWAY[1]), "a learned address is kept");
    assert_eq!(
        pair.after(pair.sealed(0), HOME[0]),
        Some(endpoint),
        "the peer is back at its endpoint"
    );
    link().configure_address(at(3, 8885));
    assert_eq!(link().address(), Some(at(3, 8885)), "the name has another address");
}

#[test]
fn a_management_channel_from_another_host_moves_a_peer_that_is_not_heard() {
    let pair = Pair::new(false);
    let (endpoint, other) = (at(1, 8885), at(2, 8885));
    let link = || pair.links.get(PEER).unwrap();
    let after = |millis| NOW + Duration::from_millis(millis);
    link().set_address(Some(endpoint));
    pair.at(after(5000), pair.sealed(0), HOME[0]);
    link().note_channel_address(after(6999), other);
    assert_eq!(link().address(), Some(endpoint), "the peer was heard just now");
    link().note_channel_address(after(7000), other);
    assert_eq!(link().address(), Some(other));
    link().configure_address(endpoint);
    assert_eq!(link().address(), Some(other), "the configuration is unchanged");
    assert_eq!(
        pair.at(after(7001), pair.sealed(0), AWAY[0]),
        Some(other),
        "the port of a lane changes nothing"
    );
    assert_eq!(pair.at(after(7002), pair.sealed(0), HOME[0]), Some(endpoint));
}
