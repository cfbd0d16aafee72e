//! Associations with shared tags survive their server proxy, over loopback.

use crate::dtls_clients::Service;
use crate::program::{Running, application, eventually, start_with, statistics};
use crate::proxy_state::Place;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

/// The messages of a stream that a restart cuts: more than a set has.
const STREAM: u64 = 50;

/// An application that counts what comes back.
struct Counter<'a> {
    socket: UdpSocket,
    proxy: &'a str,
    sent: u64,
    received: BTreeMap<u64, u32>,
}

impl<'a> Counter<'a> {
    fn of(proxy: &'a str) -> Self {
        Self { socket: application(), proxy, sent: 0, received: BTreeMap::new() }
    }

    fn send(&mut self) -> u64 {
        self.sent += 1;
        self.socket.send_to(&self.sent.to_be_bytes(), self.proxy).unwrap();
        self.sent
    }

    /// Receives what comes within a time.
    fn receive(&mut self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut number = [0; 8];
        while let Ok(8) = self.socket.recv(&mut number) {
            *self.received.entry(u64::from_be_bytes(number)).or_default() += 1;
        }
    }

    /// Sends until one of these messages comes back.
    fn echo(&mut self) {
        let first = self.sent + 1;
        eventually(|| {
            self.send();
            self.receive(Duration::from_millis(200));
            self.received.range(first..).next().map(|_| ())
        });
    }
}

fn ends_go_on(place: &Place, scheme: &str, ends: &[&str]) {
    let service = Service::start();
    let server = ["--aggregate", scheme];
    let start = || place.start(&service.address(), &server);
    let mut proxy = start();
    let stats = place.path("client.json");
    let flags =
        ["--psk-file", &place.keys, "--no-check", "--keepalive", "0", "--stats-file", &stats];
    let flags = [&flags[..], &["--aggregate", scheme]].concat();
    let (client, local) = start_with("client", &place.listen, &flags);
    let mut counter = Counter::of(&local);
    counter.echo();
    for end in ends {
        for _ in 0..STREAM {
            counter.send();
        }
        counter.receive(Duration::from_millis(5));
        proxy.signal(end);
        let code = proxy.wait();
        if *end == "TERM" {
            assert_eq!(code, Some(0), "{scheme}");
        }
        let said = proxy.rest();
        assert!(!said.iter().any(|line| line.contains("ERROR")), "{scheme}: {said:?}");
        proxy = start();
        counter.echo();
        let report = place.statistics(&proxy);
        let facts = [&report["endpoint"]["accepted"], &report["flows"]["opened"]];
        assert_eq!(facts, [0, 0], "{scheme}, {end}: {report:#}");
        assert_eq!(report["state"]["restored"], 1, "{scheme}, {end}: {report:#}");
        let dtls = &report["dtls"];
        assert_eq!([&dtls["forged"], &dtls["unauthentic"]], [0, 0], "{scheme}, {end}");
        let tags = &report["peers"][0];
        assert_ne!([&tags["inward_tags"], &tags["outward_tags"]], ["off", "off"], "{report:#}");
        if *end == "KILL" {
            assert!(report["state"]["untagged"].is_object(), "{scheme}: {report:#}");
        }
    }
    assert_eq!(service.repeated(), [0; 0], "{scheme}");
    assert!(counter.received.values().all(|times| *times == 1), "{scheme}");
    client.signal("USR1");
    eventually(|| std::path::Path::new(&stats).exists().then_some(()));
    let report = statistics(&stats);
    assert_eq!(report["dtls"]["forged"], 0, "{scheme}: {report:#}");
    assert_eq!(report["handshakes"]["complete"], 1, "{scheme}: {report:#}");
    drop::<Running>(client);
}

#[test]
fn shared_tags_go_on_after_a_kill_and_after_an_orderly_end() {
    ends_go_on(&Place::new(1), "agg:8", &["KILL", "TERM"]);
    ends_go_on(&Place::new(1), "r2d2:100", &["TERM", "KILL"]);
    ends_go_on(&Place::new(1), "auto", &["KILL"]);
}
