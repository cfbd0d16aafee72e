//! The epochs in which alerts go before a handshake is complete: the peer must have their keys.

use crate::certificates12::{RAW, X509, alert, changing, configs, mutual, verifier};
use lightseal_dtls::codepoints::{AlertDescription, HandshakeType};
use lightseal_dtls::{ClientAuthentication, Packing, ProtocolVersion};
use std::time::Duration;
use testkit::pair::{Configs, Direction, Pair, pass};

const DTLS12: ProtocolVersion = ProtocolVersion::Dtls12;
const DTLS13: ProtocolVersion = ProtocolVersion::Dtls13;

/// The content type of alerts in plaintext and in records of DTLS 1.2.
const ALERT: u8 = 21;

/// Where an alert goes.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Clear,
    Protected { epoch: u8 },
}

/// How an alert that is alone in a datagram is sent.
fn sent(datagram: &[u8]) -> Sent {
    match *datagram {
        // The unified header of DTLS 1.3 has the last two bits of the epoch.
        [first, ..] if first >> 5 == 0b001 => Sent::Protected { epoch: first & 3 },
        [ALERT, _, _, 0, 0, ..] => {
            assert_eq!(datagram.len(), 13 + 2, "level and description");
            Sent::Clear
        }
        [ALERT, _, _, _, epoch, ..] => Sent::Protected { epoch },
        _ => panic!("no alert: {datagram:x?}"),
    }
}

fn speaking(version: ProtocolVersion, mut configs: Configs) -> Configs {
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![version];
        settings.packing = Packing::RecordPerDatagram;
    }
    configs
}

/// How a client's alert goes that closes after what has reached it so far.
fn client_closes(mut pair: Pair<'_>) -> Sent {
    pair.run_for(Duration::from_millis(500));
    assert!(pair.at_client.connected.is_none());
    let before = pair.log.len();
    pair.client.close(pair.now);
    pair.run_for(Duration::from_millis(1));
    let mut after = pair.log[before..].iter().filter(|(way, _)| *way == Direction::ToServer);
    let (_, datagram) = after.next().expect("an alert");
    assert!(after.next().is_none(), "nothing follows it");
    sent(datagram)
}

/// Whether a datagram has a record in plaintext: then its first byte is a content type and its epoch
/// is 0.
fn is_clear(datagram: &[u8]) -> bool {
    datagram[0] >> 5 == 0 && datagram[3..5] == [0, 0]
}

#[test]
fn a_client_sends_alerts_under_keys_that_the_server_has() {
    for version in [DTLS13, DTLS12] {
        // The client has no keys.
        let nothing = |way, _: usize, datagram: &[u8]| match way {
            Direction::ToServer => pass(datagram),
            Direction::ToClient => Vec::new(),
        };
        let pair = speaking(version, Configs::new()).pair(1).with_rule(nothing);
        assert_eq!(client_closes(pair), Sent::Clear, "{version}");
    }
    // DTLS 1.3: of the server's flight, only the ServerHello arrives. It has the handshake's keys.
    let only_clear = |way, _: usize, datagram: &[u8]| match way {
        Direction::ToClient if !is_clear(datagram) => Vec::new(),
        _ => pass(datagram),
    };
    let pair = speaking(DTLS13, Configs::new()).pair(1).with_rule(only_clear);
    assert_eq!(client_closes(pair), Sent::Protected { epoch: 2 });
    // DTLS 1.2: the client has sent its Finished, and so its ChangeCipherSpec.
    let pair = speaking(DTLS12, Configs::new()).pair(1).with_rule(only_clear);
    assert_eq!(client_closes(pair), Sent::Protected { epoch: 1 });
}

#[test]
fn a_server_sends_alerts_under_keys_that_the_client_has() {
    let last_to_client = |mut pair: Pair<'_>| {
        pair.run_for(Duration::from_secs(5));
        assert!(pair.at_server.connected.is_none());
        let mut to_client = pair.log.iter().filter(|(way, _)| *way == Direction::ToClient);
        sent(&to_client.next_back().unwrap().1)
    };
    // DTLS 1.2: the server has keys when it notices that the client has seen another message, and
    // has not sent its ChangeCipherSpec.
    let kind = HandshakeType::CERTIFICATE_REQUEST;
    let altering = changing(Direction::ToClient, kind, |body| body[10] ^= 0x40);
    let pair = speaking(DTLS12, mutual(RAW, RAW)).pair(1).with_rule(altering);
    assert_eq!(last_to_client(pair), Sent::Clear);
    // DTLS 1.3: after its Finished the server has only the application's keys (RFC 8446, appendix
    // A.2). The client has no certificate, which the server notices then.
    let mut configs = configs(RAW);
    configs.server.clients = ClientAuthentication::Required(verifier(&[X509]));
    let mut pair = speaking(DTLS13, configs).pair(1);
    pair.run_for(Duration::from_secs(5));
    let to_client = pair.log.iter().filter(|(way, _)| *way == Direction::ToClient);
    let mut protected = to_client.filter(|(_, datagram)| !is_clear(datagram));
    assert!(protected.any(|(_, datagram)| sent(datagram) == Sent::Protected { epoch: 3 }));
    assert!(pair.at_server.connected.is_none());
    assert_eq!(pair.at_client.closed, alert(AlertDescription::CERTIFICATE_REQUIRED));
}
