//! Lightseal and wolfSSL over real sockets of the loopback interface.

use interop::driven::{Driven, Event};
use interop::ours::{Ours, client_config, server_config};
use interop::wolfssl::{Context, Group, Mode, Role, Settings, Suite};
use lightseal_core::{Engine, Instant};
use lightseal_dtls::crypto::rustcrypto;
use lightseal_net::blocking::Driver;
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Echoes payloads until told to stop, or until the other end closes.
fn echo<E>(mut driver: Driver<E>, stop: &Receiver<()>, send: impl Fn(&mut E, Instant, &[u8]))
where
    E: for<'a> Engine<Event<'a> = Event> + 'static,
{
    while stop.try_recv().is_err() {
        let mut data = Vec::new();
        let turn = driver.turn(Duration::from_millis(50), |_, event| {
            if let Event::Data(payload) = event {
                data.push(payload);
            }
        });
        turn.expect("the loopback interface works");
        for payload in data {
            driver.call(|engine, now| send(engine, now, &payload));
        }
    }
}

/// Sends each payload once connected and waits for its echo. Returns the echoes.
fn ask<E>(
    mut driver: Driver<E>,
    payloads: &[Vec<u8>],
    send: impl Fn(&mut E, Instant, &[u8]),
) -> Vec<Vec<u8>>
where
    E: for<'a> Engine<Event<'a> = Event> + 'static,
{
    let mut back = Vec::new();
    // The number of turns is far more than needed, and bounds a test that fails.
    for _ in 0..200 {
        let mut next = None;
        let turn = driver.turn(Duration::from_millis(50), |_, event| match event {
            Event::Connected => next = Some(0),
            Event::Data(payload) => {
                back.push(payload);
                next = Some(back.len());
            }
            Event::Moved | Event::Retagged => {}
            Event::Closed(reason) => panic!("closed: {reason}"),
        });
        turn.expect("the loopback interface works");
        if let Some(payload) = next.and_then(|next| payloads.get(next)) {
            driver.call(|engine, now| send(engine, now, payload));
        }
        if back.len() == payloads.len() {
            break;
        }
    }
    back
}

fn settings() -> Settings {
    Settings {
        suite: Suite::Aes128Gcm,
        mode: Mode::PskWith(Group::X25519),
        cookie: true,
        identity: b"sensor-7".to_vec(),
        key: vec![0x5a; 32],
    }
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("there is a loopback interface")
}

fn payloads() -> Vec<Vec<u8>> {
    (1..=40).map(|n| vec![n; usize::from(n) * 25]).collect()
}

#[test]
fn our_client_and_their_server() {
    let (here, there) = (socket(), socket());
    let server = there.local_addr().expect("bound");
    let (stop, stopped) = channel();
    let echoing = thread::spawn(move || {
        let engine = Driven::server(&Context::new(Role::Server, &settings()));
        echo(Driver::new(there, engine), &stopped, |end, _, payload| {
            end.send(payload).expect("connected");
        });
    });
    let config = client_config(&settings(), &rustcrypto::PROVIDER);
    let client = Ours::client(config, server, Instant::ZERO, 1);
    let back = ask(Driver::new(here, client), &payloads(), |end, now, payload| {
        end.send(now, payload).expect("connected");
    });
    stop.send(()).expect("it listens until now");
    echoing.join().expect("it ends well");
    assert_eq!(back, payloads());
}

#[test]
fn their_client_and_our_server() {
    let (here, there) = (socket(), socket());
    let server = there.local_addr().expect("bound");
    let (stop, stopped) = channel();
    let echoing = thread::spawn(move || {
        let engine = Ours::server(server_config(&settings(), &rustcrypto::PROVIDER), 1);
        echo(Driver::new(there, engine), &stopped, |end, now, payload| {
            end.send(now, payload).expect("connected");
        });
    });
    let client = Driven::client(&Context::new(Role::Client, &settings()), server, Instant::ZERO);
    let back = ask(Driver::new(here, client), &payloads(), |end, _, payload| {
        end.send(payload).expect("connected");
    });
    stop.send(()).expect("it listens until now");
    echoing.join().expect("it ends well");
    assert_eq!(back, payloads());
}
