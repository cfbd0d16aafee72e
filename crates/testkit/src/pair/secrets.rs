use super::Direction;
use lightseal_dtls::KeyLog;
use lightseal_dtls::crypto::{Sha256, TrafficSecret};
use lightseal_dtls::record::epochs::HANDSHAKE_EPOCH;
use std::sync::{Arc, Mutex};

/// The key log that both ends write to.
#[derive(Clone, Debug, Default)]
pub struct LoggedSecrets(Arc<Lines>);

#[derive(Debug, Default)]
struct Lines(Mutex<String>);

impl KeyLog for Lines {
    fn log(&self, line: &str) {
        let mut lines = self.0.lock().expect("no thread panics while it holds the log");
        lines.extend([line, "\n"]);
    }
}

impl LoggedSecrets {
    /// The key log for the engines' configurations.
    pub fn log(&self) -> Arc<dyn KeyLog> {
        Arc::clone(&self.0) as Arc<dyn KeyLog>
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        self.0.0.lock().expect("no thread panics while it holds the log").clone()
    }

    /// The newest secret for `direction` in the handshake's or the first application epoch.
    pub fn traffic(&self, direction: Direction, epoch: u64) -> Option<TrafficSecret> {
        let label = match (direction, epoch == HANDSHAKE_EPOCH) {
            (Direction::ToServer, true) => "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            (Direction::ToClient, true) => "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            (Direction::ToServer, false) => "CLIENT_TRAFFIC_SECRET_0",
            (Direction::ToClient, false) => "SERVER_TRAFFIC_SECRET_0",
        };
        let text = self.text();
        let line = text.lines().rfind(|line| line.split(' ').next() == Some(label))?;
        let hex = line.rsplit(' ').next()?;
        let mut secret = [0; 32];
        for (byte, digits) in secret.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(TrafficSecret::new(&Sha256, &secret))
    }
}
