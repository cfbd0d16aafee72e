//! Test vectors of the paper's schemes from an independent implementation
//! (`docs/spec/vectors/macsec_tunnel.py`).

use lightseal_core::{Instant, Random};
use lightseal_gateway::flows::{BaseIdentifier, FlowLimits};
use lightseal_gateway::keys::{DirectionSecret, EpochSecret, GatewayId};
use lightseal_gateway::link::{Inbound, Link, Links, PeerPort};
use lightseal_gateway::schemes::Incoming;
use lightseal_gateway::stations::PeerIndex;
use lightseal_gateway_papers::{PaperScheme, encryption, identifier};
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use serde_json::Value;
use testkit::gateway::world::{address, in_room};
use testkit::vectors::{self, array, list, number, unhex};

const NOW: Instant = Instant::from_micros(1);
const PEER: PeerIndex = PeerIndex(0);

fn file() -> Value {
    vectors::file(include_str!("../../../../docs/spec/vectors/macsec-tunnel.json"))
}

#[test]
fn identifiers() {
    let file = file();
    let base = BaseIdentifier::new(array(&file["bidf"]));
    let an = number(&file["an"]) as u8;
    for case in list(&file["identifiers"]) {
        let derived = identifier::derive(&base, number(&case["pn"]), an);
        assert_eq!(derived.identifier, array(&case["paper"]));
    }
}

#[test]
fn datagrams_come_out_as_the_frame() {
    let file = file();
    let secret = EpochSecret::new(
        &array(&file["exported"]),
        &array(&file["proposer_nonce"]),
        &array(&file["answerer_nonce"]),
    );
    let [sender, receiver] = ["sender", "receiver"].map(|name| GatewayId(array(&file[name])));
    let (epoch, index) = (number(&file["epoch"]) as u32, number(&file["index"]) as u32);
    let direction = DirectionSecret::new(&secret, &sender, &receiver, epoch);
    assert_eq!(direction.derive::<16>(encryption::LABEL)[..], unhex(&file["block_key"]));
    let random = &mut Random::insecure(1);
    for (name, register, scheme, kind) in [
        ("identifier_paper", "register", PaperScheme::Identifier, identifier::TYPE),
        (
            "encryption_paper",
            "register_paper_encryption",
            PaperScheme::Encryption,
            encryption::TYPE,
        ),
    ] {
        let scheme = scheme.make(FlowLimits::default(), random, NOW);
        let inbound = Inbound::new(secret.clone(), (sender, receiver), epoch, &PROVIDER)
            .with_cipher(scheme.cipher(&direction));
        let link = Link::new(PEER, sender, Some(address(0)), PeerPort::Configured, 1452);
        let links = Links::new(vec![link], &mut Random::insecure(1));
        links.install(index, PEER, inbound);
        let open = || {
            in_room(&unhex(&file[name]), |packet| {
                let from = Incoming { now: NOW, from: address(0), kind, links: &links };
                scheme.open(&from, packet).ok().map(|_| ())
            })
        };
        assert_eq!(open(), None, "{name} before its flow is known");
        scheme.handle_message(NOW, PEER, &unhex(&file[register])).unwrap();
        assert_eq!(scheme.poll_message(NOW), Some((PEER, unhex(&file["acknowledge"]))));
        assert_eq!(open(), Some(unhex(&file["frame"])), "{name}");
    }
}
