//! Attackers without a key that see an association's datagrams and send some of their own: replayed
//! hellos, forged ACKs, and hellos with another host's address.

use crate::credentials::{client, server};
use crate::setup::{defaults, pair, pass};
use lightseal_core::Random;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::{
    ClientConfig, ConnectionIds, CookiePolicy, ProtocolVersion, ServerConfig, Settings,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::Direction;

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];

/// The results for associations during which older hellos of the client are replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replays {
    /// Number of associations.
    pub associations: u64,
    /// Number of replayed hellos, which were recorded or held back in earlier attempts.
    pub played: u64,
    /// Number of associations that ended, were replaced, or lost a message.
    pub ended: u64,
    /// The largest number of handshakes at once that replayed hellos have begun. The associations of
    /// the earlier attempts do not count: those with connection IDs may stay beside a later one.
    pub most_begun: usize,
}

/// The results for handshakes with one datagram lost and forged ACKs for all records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// Number of handshakes.
    pub handshakes: u64,
    /// Number of forged ACKs in clear.
    pub forged: u64,
    /// Number of handshakes that did not complete.
    pub failed: u64,
}

/// How much a server without cookies sends to an address that never answers, after one hello from
/// there.
#[derive(Clone, Debug, PartialEq)]
pub struct Amplification {
    /// The version, and whether the server may send data before the client's Finished.
    pub kind: String,
    /// Length in bytes of the hello.
    pub hello: usize,
    /// Number of bytes that the server sent.
    pub sent: usize,
}

impl Amplification {
    /// The amplification factor: bytes sent per byte of the hello.
    pub fn factor(&self) -> f64 {
        self.sent as f64 / self.hello as f64
    }
}

fn settings(version: ProtocolVersion) -> Settings {
    let mut settings = defaults();
    settings.versions = vec![version];
    settings
}

fn configs(version: ProtocolVersion, ids: ConnectionIds) -> (ClientConfig, ServerConfig) {
    let mut settings = settings(version);
    settings.connection_ids = ids;
    (client(settings.clone()), server(settings))
}

/// Runs `count` associations, each after three attempts of its client at the same address.
///
/// # Panics
/// If an association does not begin, which no attack causes.
pub fn replays(seed: u64, count: u64) -> Replays {
    let mut report = Replays::default();
    for n in 0..count {
        let version = VERSIONS[(n % 2) as usize];
        let ids = [ConnectionIds::Off, ConnectionIds::Bytes(4)][(n / 2 % 2) as usize];
        let (client, server) = configs(version, ids);
        let mut rng = Random::insecure(seed ^ n << 20);
        let mut pair = pair(client.clone(), server, seed ^ n);
        let mut hellos = Vec::new();
        for attempt in 0..3 {
            let held_back = rng.below(2) == 0;
            pair.rule = Box::new(
                move |_, index, datagram| {
                    if held_back && index >= 2 { vec![] } else { pass(datagram) }
                },
            );
            pair.run_for(Duration::from_millis(10 + rng.below(15_000)));
            let mut to_server = pair.log.iter().filter(|(to, _)| *to == Direction::ToServer);
            hellos.push(to_server.nth(1).expect("a hello with a cookie").1.clone());
            pair.replace_client(Arc::new(client.clone()), seed ^ n << 8 ^ attempt);
        }
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        pair.run_for(Duration::from_secs(2));
        let live = pair.handle.expect("an association");
        report.associations += 1;
        let mut said = 0;
        for _ in 0..40 {
            let hello = &hellos[rng.below(hellos.len() as u64) as usize];
            pair.deliver(Direction::ToServer, hello);
            report.played += 1;
            pair.run_for(Duration::from_millis(rng.below(3_000)));
            let begun = pair.server.connections().filter(|(_, of)| !of.is_connected());
            report.most_begun = report.most_begun.max(begun.count());
            if rng.below(4) == 0 && pair.client.is_connected() && pair.handle == Some(live) {
                pair.send(Direction::ToServer, b"ping");
                pair.send(Direction::ToClient, b"pong");
                said += 1;
            }
        }
        pair.run_for(Duration::from_secs(90));
        let alive = pair.client.is_connected()
            && pair.handle == Some(live)
            && pair.server.connection(live).is_some_and(|connection| connection.is_connected());
        let heard = (pair.at_server.data.len(), pair.at_client.data.len());
        if !alive || heard != (said, said) {
            report.ended += 1;
        }
    }
    report
}

/// An unprotected ACK for the records 0 to 5 of epoch 0.
fn forged_ack() -> Vec<u8> {
    let numbers = 0..6_u64;
    let mut content = 96_u16.to_be_bytes().to_vec();
    for number in numbers {
        content.extend([0; 8]);
        content.extend(number.to_be_bytes());
    }
    let mut datagram = vec![26, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9];
    datagram.extend((content.len() as u16).to_be_bytes());
    datagram.extend(content);
    datagram
}

/// Runs `count` handshakes of alternating versions, each with one of its datagrams lost, while both
/// ends receive forged ACKs.
pub fn acks(seed: u64, count: u64) -> Acks {
    let mut report = Acks::default();
    for n in 0..count {
        let of_server = settings(VERSIONS[(n % 2) as usize]);
        let mut of_client = of_server.clone();
        if n % 3 == 0 {
            of_client.versions = VERSIONS.to_vec();
        }
        let (client, server) = (client(of_client), server(of_server));
        let mut rng = Random::insecure(seed ^ n << 20);
        let lost = rng.below(6) as usize;
        let mut pair = pair(client, server, seed ^ n).with_rule(move |_, index, datagram| {
            if index == lost { vec![] } else { pass(datagram) }
        });
        pair.run_for(Duration::ZERO);
        for _ in 0..100 {
            for direction in Direction::BOTH {
                pair.deliver(direction, &forged_ack());
                report.forged += 1;
            }
            pair.run_for(Duration::from_micros(rng.below(40_000)));
        }
        pair.run_for(Duration::from_secs(60));
        report.handshakes += 1;
        report.failed += u64::from(!(pair.client.is_connected() && pair.handle.is_some()));
    }
    report
}

/// Sends one hello of every kind and does not answer for two minutes.
pub fn amplification(seed: u64) -> Vec<Amplification> {
    let modes = [PskKeyExchangeMode::PSK_KE, PskKeyExchangeMode::PSK_DHE_KE];
    let kinds = VERSIONS.into_iter().flat_map(|version| {
        let of_mode = move |mode| [false, true].map(|half_rtt| (version, mode, half_rtt));
        modes.into_iter().flat_map(of_mode)
    });
    let measure = |(version, mode, half_rtt)| {
        let mut of_client = settings(version);
        of_client.psk_modes = vec![mode];
        let server = server(settings(version)).with_cookies(CookiePolicy::WhenRetrying);
        let server = if half_rtt { server.with_half_rtt_data() } else { server };
        let client = client(of_client);
        let mut pair = pair(client, server, seed)
            .with_rule(|_, index, datagram| if index == 0 { pass(datagram) } else { vec![] });
        pair.run_for(Duration::from_secs(130));
        let hello = pair.log.first().map_or(0, |(_, datagram)| datagram.len());
        let to_client = pair.log.iter().filter(|(to, _)| *to == Direction::ToClient);
        let sent = to_client.map(|(_, datagram)| datagram.len()).sum();
        Amplification { kind: format!("{version} {mode:?}, half-RTT data {half_rtt}"), hello, sent }
    };
    kinds.map(measure).collect()
}
