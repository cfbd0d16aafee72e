//! wolfSSL against wolfSSL: the peer works before it is used to judge us.

use interop::driven::{Driven, Event};
use interop::pair::{Pair, shake_hands};
use interop::wolfssl::{Context, Mode, Role, Settings, Suite};
use lightseal_core::Instant;
use lightseal_net::virtual_time::Network;
use lightseal_net::{Impairments, Probability};
use std::time::Duration;

fn settings(suite: Suite, mode: Mode, cookie: bool) -> Settings {
    Settings { suite, mode, cookie, identity: b"sensor-7".to_vec(), key: vec![0x5a; 32] }
}

#[test]
fn every_suite_and_mode_carries_data_with_and_without_cookie() {
    for suite in Suite::ALL {
        for mode in Mode::ALL {
            for cookie in [false, true] {
                let settings = settings(suite, mode, cookie);
                let (mut client, mut server) = Pair::new(&settings).peers();
                let datagrams = shake_hands(&mut client, &mut server)
                    .unwrap_or_else(|error| panic!("{suite:?} {mode:?} cookie {cookie}: {error}"));
                println!("{suite:?} {mode:?} cookie {cookie}: {datagrams} datagrams");
                let mut out = [0; 2000];
                for length in [1, 16, 1200] {
                    let payload = vec![length as u8; length];
                    client.send(&payload).expect("connected");
                    client.carry_to(&mut server);
                    assert_eq!(server.recv(&mut out), Ok(Some(length)));
                    assert_eq!(out[..length], payload);
                    server.send(&payload).expect("connected");
                    server.carry_to(&mut client);
                    assert_eq!(client.recv(&mut out), Ok(Some(length)));
                    assert_eq!(out[..length], payload);
                }
                assert_eq!(server.recv(&mut out), Ok(None));
            }
        }
    }
}

#[test]
fn another_key_is_refused() {
    let ours = settings(Suite::Aes128Gcm, Mode::Psk, false);
    let theirs = Settings { key: vec![0x5b; 32], ..ours.clone() };
    let mut client = Context::new(Role::Client, &ours).peer();
    let mut server = Context::new(Role::Server, &theirs).peer();
    assert!(shake_hands(&mut client, &mut server).is_err());
}

#[test]
fn a_lost_flight_is_sent_again() {
    let settings = settings(Suite::Aes128Gcm, Mode::Psk, true);
    let (mut client, mut server) = Pair::new(&settings).peers();
    assert_eq!(client.handshake(), Ok(false));
    assert!(client.poll_transmit(&mut [0; 2000]).is_some(), "a ClientHello");
    assert!(!client.timeout().is_zero());
    client.handle_timeout().expect("there is something to send again");
    shake_hands(&mut client, &mut server).expect("the second ClientHello arrives");
}

#[test]
fn a_fifth_lost_the_handshake_still_ends_in_virtual_time() {
    for seed in 0..6 {
        let settings = settings(Suite::Aes128Ccm8, Mode::Psk, true);
        let mut network = Network::new(seed);
        network.impair_all(&Impairments {
            loss: Probability::ratio(1, 5),
            delay: Duration::from_millis(30),
            ..Impairments::NONE
        });
        let (here, there) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let client = Context::new(Role::Client, &settings);
        network.add(here, Driven::client(&client, there, Instant::ZERO));
        network.add(there, Driven::server(&Context::new(Role::Server, &settings)));
        let mut connected = 0;
        network.run_until(Instant::from_micros(120_000_000), |_, _, event| {
            connected += usize::from(event == Event::Connected);
        });
        assert_eq!(connected, 2, "seed {seed}");
    }
}
