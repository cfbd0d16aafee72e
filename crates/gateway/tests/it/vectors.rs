//! Test vectors of the tunnel from an independent implementation
//! (`docs/spec/vectors/macsec_tunnel.py`).

use lightseal_core::{Decode, Random};
use lightseal_gateway::codepoints::{DatagramType, EncryptedContent};
use lightseal_gateway::flows::messages::{Beacon, Message};
use lightseal_gateway::flows::{BaseIdentifier, FlowLimits, keyed};
use lightseal_gateway::link::{Outbound, Prefix};
use lightseal_gateway::schemes::compressed::Compressed;
use lightseal_gateway::schemes::identifier::{Identifier, IdentifierSettings};
use lightseal_gateway::schemes::{Incoming, Scheme};
use lightseal_gateway::stations::Station;
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use testkit::gateway::vectors::{NOW, PEER, ends, file, inbound, links, secret};
use testkit::gateway::world::{address, in_room};
use testkit::vectors::{array, list, number, unhex};

#[test]
fn keys() {
    let file = file();
    let (sender, receiver) = ends(&file);
    let (epoch, lane) = (number(&file["epoch"]) as u32, number(&file["lane"]) as u8);
    let key = secret(&file).lane_key(&sender, &receiver, epoch, lane);
    assert_eq!(key.expose(), (&array(&file["key"]), &array(&file["iv"])));
}

#[test]
fn what_is_sealed() {
    let file = file();
    let (frame, tagged) = (unhex(&file["frame"]), unhex(&file["tagged_frame"]));
    let short: [u8; 5] = [frame[14], frame[15], 0, 0, 0];
    let flow = &number(&file["flow"]).to_be_bytes()[5..];
    let compressed = [flow, &short[..2], &frame[16..20], &frame[28..]].concat();
    let whole = [&[1][..], &unhex(&file["mka_frame"])].concat();
    let total = (frame.len() as u16).to_be_bytes();
    let piece = |offset: u16, part: &[u8]| {
        [&[0x11, 0x22, 0x33, 0x44][..], &offset.to_be_bytes(), &total, part].concat()
    };
    let address = tagged[6..12].try_into().expect("an address");
    let about = |kind: EncryptedContent, vlan| {
        let station = Station::new(vlan, address);
        assert_eq!(Station::from_bytes(station.to_bytes()), station);
        let name = if vlan.is_some() { "station_in_vlan" } else { "station" };
        assert_eq!(station.to_bytes()[..], unhex(&file[name]), "{name}");
        [&[kind as u8][..], &station.to_bytes()].concat()
    };
    let cases = [
        ("sealed", DatagramType::Sealed, 28, frame.clone()),
        ("sealed_tagged", DatagramType::Sealed, 24, tagged),
        ("compressed", DatagramType::Compressed, 9, compressed),
        ("whole", DatagramType::Encrypted, 0, whole),
        ("station_query", DatagramType::Encrypted, 0, about(EncryptedContent::StationQuery, None)),
        (
            "station_heard",
            DatagramType::Encrypted,
            0,
            about(EncryptedContent::StationHeard, Some(5)),
        ),
        ("fragment_first", DatagramType::Fragment, 36, piece(0, &frame[..40])),
        ("fragment_last", DatagramType::Fragment, 8, piece(40, &frame[40..])),
    ];
    let (epoch, lane) = (number(&file["epoch"]) as u32, number(&file["lane"]) as u8);
    for (name, kind, sealed, content) in cases {
        let index = number(&file["index"]) as u32;
        let outbound = Outbound::new(secret(&file), ends(&file), epoch, index, &PROVIDER);
        for _ in 0..number(&file["counter"]) {
            in_room(&content, |packet| outbound.seal(lane, kind, sealed, packet).ok().map(|_| ()));
        }
        let datagram =
            in_room(&content, |packet| outbound.seal(lane, kind, sealed, packet).ok().map(|_| ()));
        assert_eq!(datagram, Some(unhex(&file[name])), "{name}");
        let inbound = inbound(&file);
        let opened = in_room(&unhex(&file[name]), |packet| {
            let prefix = Prefix::decode(packet.bytes())?;
            inbound.open(&prefix, packet).ok().map(|_| ())
        });
        assert_eq!(opened, Some(content), "{name}");
    }
}

#[test]
fn identifiers() {
    let file = file();
    let base = BaseIdentifier::new(array(&file["bidf"]));
    let an = number(&file["an"]) as u8;
    for case in list(&file["identifiers"]) {
        let pn = number(&case["pn"]);
        let ours = keyed(&base, pn, an);
        assert_eq!((ours.identifier, ours.mask), (array(&case["ridf"]), array(&case["mask"])));
    }
}

#[test]
fn an_identifier_comes_out_as_the_frame() {
    let file = file();
    let links = links(&file, inbound(&file));
    let settings = IdentifierSettings::default();
    let scheme = Identifier::new(settings, &mut Random::insecure(1), NOW).unwrap();
    let open = || {
        in_room(&unhex(&file["identifier"]), |packet| {
            let kind = DatagramType::Identifier as u8;
            let from = Incoming { now: NOW, from: address(0), kind, links: &links };
            scheme.open(&from, packet).ok().map(|_| ())
        })
    };
    assert_eq!(open(), None, "before its flow is known");
    scheme.handle_message(NOW, PEER, &unhex(&file["register"])).unwrap();
    assert_eq!(scheme.poll_message(NOW), Some((PEER, unhex(&file["acknowledge"]))));
    assert_eq!(open(), Some(unhex(&file["frame"])));
}

#[test]
fn a_short_header_comes_out_as_the_frame() {
    let file = file();
    let scheme = Compressed::new(FlowLimits::default(), &mut Random::insecure(1), NOW).unwrap();
    scheme.handle_message(NOW, PEER, &unhex(&file["register_compressed"])).unwrap();
    let links = links(&file, inbound(&file));
    let frame = in_room(&unhex(&file["compressed"]), |packet| {
        links.open(NOW, address(0), packet).ok()?;
        scheme.expand(PEER, packet).ok()
    });
    assert_eq!(frame, Some(unhex(&file["frame"])));
}

#[test]
fn messages() {
    let file = file();
    let names = [
        "register",
        "register_compressed",
        "register_paper_encryption",
        "acknowledge",
        "refuse",
        "remove",
    ];
    for name in names {
        let bytes = unhex(&file[name]);
        assert_eq!(Message::decode(&bytes).map(|message| message.to_vec()), Ok(bytes), "{name}");
    }
    let flow = number(&file["flow"]) as u32;
    let beacon = Beacon(vec![(flow, number(&file["pn"])), (1, 1 << 40)]);
    assert_eq!(beacon.to_vec(), unhex(&file["beacon"]));
    assert_eq!(Beacon::decode(&unhex(&file["beacon"])), Ok(beacon));
}
