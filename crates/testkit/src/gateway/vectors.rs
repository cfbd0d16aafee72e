//! The test vectors of the tunnel, from an independent implementation.

use crate::gateway::world::address;
use crate::vectors::{self, array, number};
use lightseal_core::{Instant, Random};
use lightseal_gateway::keys::{EpochSecret, GatewayId};
use lightseal_gateway::link::{Inbound, Link, Links, PeerPort};
use lightseal_gateway::stations::PeerIndex;
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use serde_json::Value;

/// The time of the vectors.
pub const NOW: Instant = Instant::from_micros(1);
/// The only peer.
pub const PEER: PeerIndex = PeerIndex(0);

/// The content of the file.
///
/// # Panics
/// If it is no JSON.
pub fn file() -> Value {
    vectors::file(include_str!("../../../../docs/spec/vectors/macsec-tunnel.json"))
}

/// The secret of the epoch.
pub fn secret(file: &Value) -> EpochSecret {
    EpochSecret::new(
        &array(&file["exported"]),
        &array(&file["proposer_nonce"]),
        &array(&file["answerer_nonce"]),
    )
}

/// The identifiers of the sender and of the receiver.
pub fn ends(file: &Value) -> (GatewayId, GatewayId) {
    (GatewayId(array(&file["sender"])), GatewayId(array(&file["receiver"])))
}

/// The keys with which the receiver opens.
pub fn inbound(file: &Value) -> Inbound {
    Inbound::new(secret(file), ends(file), number(&file["epoch"]) as u32, &PROVIDER)
}

/// The receiver's links: the sender is the peer, with these keys.
pub fn links(file: &Value, inbound: Inbound) -> Links {
    let link = Link::new(PEER, ends(file).0, Some(address(0)), PeerPort::Configured, 1452);
    let links = Links::new(vec![link], &mut Random::insecure(1));
    links.install(number(&file["index"]) as u32, PEER, inbound);
    links
}
