//! The file of test vectors, and what it contains.

#![allow(dead_code, reason = "each test uses a part of it")]

use crate::world::address;
use lightseal_core::{Instant, Random};
use lightseal_gateway::keys::{EpochSecret, GatewayId};
use lightseal_gateway::link::{Inbound, Link, Links, PeerPort};
use lightseal_gateway::stations::PeerIndex;
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use serde_json::Value;

pub(crate) const NOW: Instant = Instant::from_micros(1);
pub(crate) const PEER: PeerIndex = PeerIndex(0);

pub(crate) fn file() -> Value {
    let text = include_str!("../../../../docs/spec/vectors/macsec-tunnel.json");
    serde_json::from_str(text).expect("JSON")
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

pub(crate) fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("hex");
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

pub(crate) fn array<const N: usize>(text: &Value) -> [u8; N] {
    unhex(text).try_into().expect("the right length")
}

pub(crate) fn secret(file: &Value) -> EpochSecret {
    EpochSecret::new(
        &array(&file["exported"]),
        &array(&file["proposer_nonce"]),
        &array(&file["answerer_nonce"]),
    )
}

pub(crate) fn ends(file: &Value) -> (GatewayId, GatewayId) {
    (GatewayId(array(&file["sender"])), GatewayId(array(&file["receiver"])))
}

/// The keys with which the receiver opens.
pub(crate) fn inbound(file: &Value) -> Inbound {
    Inbound::new(secret(file), ends(file), number(&file["epoch"]) as u32, &PROVIDER)
}

/// The receiver's links: the sender is the peer, with these keys.
pub(crate) fn links(file: &Value, inbound: Inbound) -> Links {
    let link = Link::new(PEER, ends(file).0, Some(address(0)), PeerPort::Configured, 1452);
    let links = Links::new(vec![link], &mut Random::insecure(1));
    links.install(number(&file["index"]) as u32, PEER, inbound);
    links
}
