//! Targets that run whole engines: sequences of datagrams, and of records behind decryption.

use attacks::cuts::STAGES;
use attacks::peer_with_keys::PeerWithKeys;
use attacks::setup::{Setup, client_address};
use lightseal_core::{Engine, Reader};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::tuning::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::pair::{Direction, Pair};

/// The seed of both ends' randomness. It is the same in the seed inputs and in the targets, so that
/// datagrams of a genuine conversation are valid.
const SEED: u64 = 11;
/// The largest number of pieces of an input, which bounds the time for it.
const MOST_PIECES: usize = 64;

const PAYLOADS: [&[u8]; 4] = [b"one", b"two", b"three", b"four"];

fn setup(input: &mut Reader<'_>) -> Setup {
    let setups = Setup::all();
    setups[usize::from(input.u8().unwrap_or(0)) % setups.len()]
}

/// Splits an input into pieces. Each is a byte that says what to do, a length, and bytes.
fn pieces<'a>(input: &mut Reader<'a>) -> Vec<(u8, &'a [u8])> {
    let mut pieces = Vec::new();
    while pieces.len() < MOST_PIECES
        && let Ok(what) = input.u8()
    {
        let rest = input.rest();
        let bytes = input.vec16().unwrap_or(rest);
        pieces.push((what, bytes));
        if bytes.len() == rest.len() {
            break;
        }
    }
    pieces
}

fn piece(seed: &mut Vec<u8>, what: u8, bytes: &[u8]) {
    seed.push(what);
    seed.extend((bytes.len() as u16).to_be_bytes());
    seed.extend(bytes);
}

fn check(pair: &Pair<'_>) {
    assert!(pair.most_held <= RECEIVE_BUFFER_BYTES + SEND_BUFFER_BYTES);
    for direction in Direction::BOTH {
        let told = pair.events(direction);
        let mut seen: Vec<_> = told.data.iter().collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), told.data.len(), "a payload was delivered twice");
        assert!(
            told.data.iter().all(|data| PAYLOADS.contains(&&data[..])),
            "a payload was delivered that was never sent"
        );
    }
}

fn wait(pair: &mut Pair<'_>, what: u8) {
    match what % 8 {
        0 => pair.run_for(Duration::from_millis(250)),
        1 => pair.run_for(Duration::from_secs(10)),
        _ => {
            pair.drain();
        }
    }
}

/// A client that receives the datagrams of the input.
pub(super) fn client(input: &[u8]) {
    let mut r = Reader::new(input);
    let setup = setup(&mut r);
    let mut pair = setup.pair(SEED).with_rule(|_, _, _| vec![]);
    pair.drain();
    for (what, datagram) in pieces(&mut r) {
        pair.deliver(Direction::ToClient, datagram);
        wait(&mut pair, what);
    }
    pair.run_for(Duration::from_secs(70));
    check(&pair);
    assert!(
        pair.at_client.connected.is_some() || pair.at_client.closed.is_some(),
        "the handshake must end by its deadline"
    );
}

/// A server that receives the datagrams of the input, from three addresses.
pub(super) fn server(input: &[u8]) {
    let mut r = Reader::new(input);
    let setup = setup(&mut r);
    let mut pair = setup.pair(SEED).with_rule(|_, _, _| vec![]);
    for (what, datagram) in pieces(&mut r) {
        let from = match what >> 6 {
            0 | 1 => client_address(),
            port => SocketAddr::new(client_address().ip(), port.into()),
        };
        pair.server.handle_datagram(pair.now, from, &mut datagram.to_vec());
        wait(&mut pair, what);
    }
    // Without cookies, a replayed hello opens an association from any address.
    assert!(pair.most_open <= 3);
    pair.run_for(Duration::from_secs(70));
    check(&pair);
    let half_open = pair.server.connections().filter(|(_, c)| !c.is_connected()).count();
    assert_eq!(half_open, 0, "the handshake must end by its deadline");
}

fn end_seeds(direction: Direction) -> Vec<Vec<u8>> {
    let seeds = Setup::all().into_iter().zip(0u8..).map(|(setup, index)| {
        let mut pair = setup.pair(SEED);
        pair.run_for(Duration::from_secs(1));
        for payload in PAYLOADS {
            pair.send(direction, payload);
        }
        pair.run_for(Duration::from_secs(1));
        let mut seed = vec![index];
        for (_, datagram) in pair.log.iter().filter(|(way, _)| *way == direction) {
            piece(&mut seed, 7, datagram);
        }
        seed
    });
    seeds.collect()
}

pub(super) fn client_seeds() -> Vec<Vec<u8>> {
    end_seeds(Direction::ToClient)
}

pub(super) fn server_seeds() -> Vec<Vec<u8>> {
    end_seeds(Direction::ToServer)
}

/// The content type that a receiver sees. In the standard layout a type of zero is padding, and the
/// last byte that is not zero counts (RFC 8446, section 5.4).
fn content_type(kind: u8, content: &[u8]) -> u8 {
    if kind != 0 { kind } else { content.iter().rfind(|byte| **byte != 0).copied().unwrap_or(0) }
}

/// Records sealed with the right keys, in either direction and in the handshake or application
/// epoch. A piece is a content type and a content.
pub(super) fn plaintext(input: &[u8]) {
    let mut r = Reader::new(input);
    let setup = setup(&mut r);
    let stage = STAGES[usize::from(r.u8().unwrap_or(0)) % STAGES.len()];
    let mut pair = stage.reach(&setup, SEED);
    let Some(mut impostor) = PeerWithKeys::new(&setup, &pair.secrets, stage.direction, stage.epoch)
    else {
        panic!("{stage:?} has no keys");
    };
    let mut data = 0;
    for (kind, content) in pieces(&mut r) {
        let content = &content[..content.len().min(1400)];
        data += usize::from(content_type(kind, content) == ContentType::APPLICATION_DATA.0);
        let datagram = impostor.seal(ContentType(kind), content);
        pair.deliver(stage.direction, &datagram);
        pair.drain();
    }
    pair.run_for(Duration::from_secs(70));
    assert!(pair.most_held <= RECEIVE_BUFFER_BYTES + SEND_BUFFER_BYTES);
    assert!(pair.events(stage.direction).data.len() <= data, "only data is delivered");
}

pub(super) fn plaintext_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (setup, index) in Setup::all().into_iter().zip(0u8..) {
        for (stage, place) in STAGES.into_iter().zip(0u8..) {
            let mut seed = vec![index, place];
            for (kind, content) in stage.contents(&setup, SEED) {
                piece(&mut seed, kind.0, &content);
                seeds.push(seed.clone());
            }
        }
    }
    seeds
}
