//! Proxies that adapt how much their tags are shared, over real sockets and a lossy relay.

use crate::program;

use program::{KEY, Running, TempDir, application, echo, eventually, relay, start, statistics};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Message lengths in bytes: tags are a large part of a short message, and the loss of a long one
/// costs more.
const SHORT: usize = 10;
const LONG: usize = 100;

/// An application that sends until it is dropped, and ignores the answers.
struct Sending(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Sending {
    fn to(proxy: &str, bytes: usize) -> Self {
        let (socket, proxy) = (application(), proxy.to_owned());
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                socket.send_to(&vec![7; bytes], &proxy).unwrap();
                drain(&socket);
            }
        });
        Self(stopped, Some(thread))
    }
}

/// Receives what has arrived, for about a millisecond.
fn drain(socket: &UdpSocket) {
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    while socket.recv(&mut [0; 4 * LONG]).is_ok() {}
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let sent = self.1.take().map(std::thread::JoinHandle::join);
        assert!(sent.is_none_or(|sent| sent.is_ok()) || std::thread::panicking());
    }
}

/// A server, a relay and a client, where both proxies have these flags.
fn proxies(dir: &TempDir, impairments: &[&str], more: &[&str]) -> ([Running; 3], String) {
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    // The choice must follow losses alone, so messages wait for their sets.
    let more = &[more, &["--max-wait", "200ms"]].concat()[..];
    let (server, address) = start("server", &echo().to_string(), &keys, more);
    let (relay, between) = relay(&address, impairments);
    let (client, local) = start("client", &between, &keys, &[more, &["--no-check"]].concat());
    ([server, relay, client], local)
}

#[test]
fn losses_lead_to_plain_tags_in_both_directions() {
    for family in ["auto", "auto:r2d2"] {
        let dir = TempDir::new();
        let more = ["--aggregate", family];
        let ([mut server, _relay, mut client], local) = proxies(&dir, &["--loss=25%"], &more);
        let _sending = Sending::to(&local, LONG);
        let first = if family == "auto" { "agg:8" } else { "r2d2:100" };
        client.has_said(&format!("tags {first} out, {first} in"));
        server.has_said("tags off out, off in");
        client.has_said("tags off out, off in");
    }
}

#[test]
fn without_losses_more_is_shared() {
    for (deliver, most) in [("verified", "agg:16"), ("progressive:64", "r2d2:50")] {
        let dir = TempDir::new();
        let more = ["--aggregate", "auto", "--deliver", deliver];
        let ([mut server, _relay, mut client], local) = proxies(&dir, &[], &more);
        let _sending = Sending::to(&local, SHORT);
        let both = format!("tags {most} out, {most} in");
        client.has_said(&both);
        server.has_said(&both);
    }
}

#[test]
fn each_end_keeps_to_its_family_for_what_it_receives() {
    let dir = TempDir::new();
    let keys = dir.file("keys.psk", &format!("sensor:{KEY}\n"));
    let auto = ["--aggregate", "auto", "--max-wait", "200ms"];
    let (mut server, address) = start("server", &echo().to_string(), &keys, &auto);
    let early = [&auto[..], &["--deliver", "progressive:64"]].concat();
    let (mut client, local) = start("client", &address, &keys, &early);
    let _sending = Sending::to(&local, SHORT);
    client.has_said("tags agg:16 out, r2d2:50 in");
    server.has_said("tags r2d2:50 out, agg:16 in");
}

#[test]
fn the_status_tells_schemes_losses_goodput_and_bits() {
    if let Err(reason) = program::signals() {
        return skip::test(reason);
    }
    let dir = TempDir::new();
    let stats = dir.path("client.json");
    let more = ["--aggregate", "r2d2:200", "--deliver", "progressive:64", "--status", "250ms"];
    let files = ["--stats-file", &stats];
    let ([_server, _relay, mut client], local) =
        proxies(&dir, &["--loss=5%"], &[&more[..], &files[..]].concat());
    client.has_said("status: no flows");
    let _sending = Sending::to(&local, LONG);
    let line = eventually(|| {
        let line = client.wait_for("status: 1 flow; out: tags r2d2:200, loss ");
        // Both ends measure the loss in the first 64 records.
        (!line.contains("loss unknown")).then_some(line)
    });
    let numbers = line.split(" %").filter_map(|part| part.rsplit(' ').next()?.parse::<f64>().ok());
    let percents: Vec<_> = numbers.take(4).collect();
    let [lost_out, payload, lost_in, goodput] = percents[..] else { panic!("{line}") };
    assert!(lost_out < 30.0 && lost_in < 30.0, "{line}");
    assert!((60.0..98.0).contains(&payload) && goodput > 0.0, "{line}");
    assert!(line.contains("each verified by 64 bits at least"), "{line}");
    client.signal("USR1");
    let json = eventually(|| std::path::Path::new(&stats).exists().then(|| statistics(&stats)));
    let status = &json["status"];
    assert_eq!(status["outward"]["schemes"]["r2d2:200"], 1, "{json}");
    assert_eq!(status["inward"]["delivered_bits"], 64, "{json}");
    for way in ["outward", "inward"] {
        assert!(status[way]["loss"].as_f64().is_some_and(|loss| loss < 0.3), "{json}");
    }
    let goodput = status["inward"]["goodput"].as_f64().unwrap();
    assert!((0.6..1.0).contains(&goodput), "{json}");
}
