//! The traffic secrets of both ends, and a malicious peer that seals arbitrary records with them.

use crate::world::{Direction, Setup};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuite, Sha256, TrafficSecret};
use lightseal_dtls::record::epochs::HANDSHAKE_EPOCH;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, SendEpoch};
use lightseal_dtls::{KeyLog, Scheme};
use std::sync::{Arc, Mutex};

/// The key log that both ends write to.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<Lines>);

#[derive(Debug, Default)]
struct Lines(Mutex<Vec<String>>);

impl KeyLog for Lines {
    fn log(&self, line: &str) {
        self.0.lock().expect("no thread panics while it holds the log").push(line.to_owned());
    }
}

impl Secrets {
    /// The key log for the engines' configurations.
    pub fn log(&self) -> Arc<dyn KeyLog> {
        Arc::clone(&self.0) as Arc<dyn KeyLog>
    }

    /// The newest secret for `direction` in the handshake's or the first application epoch.
    pub fn traffic(&self, direction: Direction, epoch: u64) -> Option<TrafficSecret> {
        let label = match (direction, epoch == HANDSHAKE_EPOCH) {
            (Direction::ToServer, true) => "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            (Direction::ToClient, true) => "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            (Direction::ToServer, false) => "CLIENT_TRAFFIC_SECRET_0",
            (Direction::ToClient, false) => "SERVER_TRAFFIC_SECRET_0",
        };
        let lines = self.0.0.lock().expect("no thread panics while it holds the log");
        let line = lines.iter().rfind(|line| line.split(' ').next() == Some(label))?;
        let hex = line.rsplit(' ').next()?;
        let mut secret = [0; 32];
        for (byte, digits) in secret.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(TrafficSecret::new(&Sha256, &secret))
    }
}

/// The suite of a setup.
///
/// # Panics
/// If its provider does not have the suite.
pub fn suite(setup: &Setup) -> &'static CipherSuite {
    setup.provider.suite(setup.suite).expect("the provider has the suite")
}

/// The scheme of an epoch. The handshake epoch always has plain tags.
pub fn scheme(setup: &Setup, epoch: u64) -> Scheme {
    if epoch == HANDSHAKE_EPOCH { Scheme::Plain } else { setup.scheme }
}

/// A peer that seals any content with the genuine keys, from record 0 on.
#[derive(Debug)]
pub struct PeerWithKeys(SendEpoch);

impl PeerWithKeys {
    /// An impostor that sends in `direction`; `None` while the epoch has no keys.
    pub fn new(setup: &Setup, secrets: &Secrets, direction: Direction, epoch: u64) -> Option<Self> {
        let secret = secrets.traffic(direction, epoch)?;
        Some(Self(SendEpoch::new(epoch, suite(setup), scheme(setup, epoch), &secret)))
    }

    /// A datagram with one record.
    ///
    /// # Panics
    /// If no record can have this content.
    pub fn seal(&mut self, kind: ContentType, content: &[u8]) -> Vec<u8> {
        let mut buf = vec![0; content.len() + 64];
        let shape = HeaderFormat { number: NumberLength::Two, last: true };
        let sealed = self
            .0
            .seal(&mut buf, kind, shape, |w| w.bytes(content))
            .expect("the key is fresh and the buffer large enough");
        buf.truncate(sealed.len);
        buf
    }
}
