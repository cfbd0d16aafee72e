//! Reads what clients and nodes send with the clients' secrets, and looks for record numbers that are
//! used twice under one key.

use lightseal_dtls::passive::{Observer, Secrets, Sender};
use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// A datagram between a client and the fleet, at the client's socket.
pub(crate) struct Captured {
    pub(crate) client: SocketAddr,
    pub(crate) from_client: bool,
    pub(crate) bytes: Vec<u8>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Different records whose number was read.
    pub(crate) records: u64,
    /// Records that were not read.
    pub(crate) unread: u64,
    /// Records of the fleet that are alerts.
    pub(crate) alerts: u64,
    pub(crate) reused: Vec<String>,
}

/// Reads in a thread of its own.
pub(crate) struct Audit {
    captured: Option<mpsc::Sender<Captured>>,
    thread: JoinHandle<Findings>,
}

impl Audit {
    /// Reads with these secrets. `fleet` is the address to which clients send.
    pub(crate) fn start(secrets: &str, fleet: SocketAddr) -> Self {
        let secrets = Secrets::read(secrets).unwrap();
        let (captured, datagrams) = mpsc::channel();
        let thread = std::thread::spawn(move || read(secrets, fleet, &datagrams));
        Self { captured: Some(captured), thread }
    }

    pub(crate) fn take(&self, captured: Captured) {
        self.captured.as_ref().unwrap().send(captured).unwrap();
    }

    /// What was found in all datagrams.
    pub(crate) fn end(mut self) -> Findings {
        self.captured = None;
        self.thread.join().unwrap()
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn read(secrets: Secrets, fleet: SocketAddr, datagrams: &mpsc::Receiver<Captured>) -> Findings {
    let mut observer = Observer::new(&lightseal_dtls::crypto::rustcrypto::PROVIDER, secrets);
    let (mut findings, mut seen) = (Findings::default(), HashMap::new());
    for Captured { client, from_client, mut bytes } in datagrams {
        let original = hash(&bytes);
        let (from, to) = if from_client { (client, fleet) } else { (fleet, client) };
        for (at, record) in observer.datagram(from, to, &mut bytes).into_iter().enumerate() {
            let (Some(number), Some(kind)) = (record.number, record.kind) else {
                findings.unread += 1;
                continue;
            };
            let is_alert = kind == lightseal_dtls::codepoints::ContentType::ALERT;
            findings.alerts += u64::from(is_alert && record.sender == Sender::Server);
            // What is in clear has no key.
            if record.epoch == 0 {
                continue;
            }
            // A datagram that arrives twice has the same bytes.
            let whole = hash(&[original.to_be_bytes(), (at as u64).to_be_bytes()].concat());
            let from_client = record.sender == Sender::Client;
            let place = (record.association, from_client, record.epoch, number);
            match seen.entry(place) {
                Entry::Vacant(entry) => {
                    entry.insert(whole);
                    findings.records += 1;
                }
                Entry::Occupied(entry) if *entry.get() == whole => {}
                Entry::Occupied(_) => findings.reused.push(format!("{place:?}")),
            }
        }
    }
    findings
}
