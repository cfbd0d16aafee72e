//! Test vectors of the paper's schemes from an independent implementation
//! (`docs/spec/vectors/macsec_tunnel.py`).

use lightseal_core::Random;
use lightseal_gateway::flows::{BaseIdentifier, FlowLimits};
use lightseal_gateway::keys::DirectionSecret;
use lightseal_gateway::schemes::Incoming;
use lightseal_gateway_papers::{PaperScheme, encryption, identifier};
use testkit::gateway::vectors::{NOW, PEER, ends, file, inbound, links, secret};
use testkit::gateway::world::{address, in_room};
use testkit::vectors::{array, list, number, unhex};

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
    let (secret, (sender, receiver)) = (secret(&file), ends(&file));
    let epoch = number(&file["epoch"]) as u32;
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
        let scheme = scheme.make(FlowLimits::default(), random, NOW).unwrap();
        let links = links(&file, inbound(&file).with_cipher(scheme.cipher(&direction)));
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
