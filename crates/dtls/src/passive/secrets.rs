//! The secrets in a key log.

use crate::crypto::{Hash, MasterSecret12, TrafficSecret};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroizing;

/// The kind of a secret. The names in key logs are those of RFC 9850.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Master,
    ClientHandshake,
    ServerHandshake,
    ClientTraffic,
    ServerTraffic,
}

impl Label {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "CLIENT_RANDOM" => Self::Master,
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Self::ClientHandshake,
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Self::ServerHandshake,
            "CLIENT_TRAFFIC_SECRET_0" => Self::ClientTraffic,
            "SERVER_TRAFFIC_SECRET_0" => Self::ServerTraffic,
            _ => return None,
        })
    }
}

/// Secrets by label and client random, from the lines of a key log (SSLKEYLOGFILE, RFC 9850).
///
/// Zeroized when dropped.
#[derive(Default)]
pub struct Secrets(BTreeMap<([u8; 32], Label), Zeroizing<Vec<u8>>>);

/// A line of a key log that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub reason: &'static str,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl core::error::Error for BadLine {}

impl Secrets {
    /// Parses a key log. Empty lines, comments and unused labels are skipped. If lines contradict
    /// each other, the last one counts.
    ///
    /// # Errors
    /// Fails if a line is not `LABEL client_random secret` with the numbers in hexadecimal.
    pub fn read(text: &str) -> Result<Self, BadLine> {
        let mut secrets = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if !(line.is_empty() || line.starts_with('#')) {
                secrets.line(line).map_err(|reason| BadLine { line: at + 1, reason })?;
            }
        }
        Ok(secrets)
    }

    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let mut words = line.split_ascii_whitespace();
        let (Some(label), Some(random), Some(secret), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("not LABEL, client random and secret");
        };
        let random = hex(random).ok_or("the client random is not hexadecimal")?;
        let random = <[u8; 32]>::try_from(&random[..])
            .map_err(|_| "the client random does not have 32 bytes")?;
        let secret = hex(secret).ok_or("the secret is not hexadecimal")?;
        if let Some(label) = Label::named(label) {
            // A master secret of DTLS 1.2 has 48 bytes, other secrets are as long as a hash value.
            let expected: &[usize] = if label == Label::Master { &[48] } else { &[32, 48] };
            if expected.contains(&secret.len()) {
                self.0.insert((random, label), secret);
            }
        }
        Ok(())
    }

    /// The number of secrets.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn traffic(
        &self,
        random: &[u8; 32],
        label: Label,
        hash: &'static dyn Hash,
    ) -> Option<TrafficSecret> {
        let secret = self.0.get(&(*random, label))?;
        let right = secret.len() == hash.algorithm().output_len();
        right.then(|| TrafficSecret::new(hash, secret))
    }

    pub(super) fn master(
        &self,
        random: &[u8; 32],
        hash: &'static dyn Hash,
    ) -> Option<MasterSecret12> {
        let secret = self.0.get(&(*random, Label::Master))?;
        Some(MasterSecret12::from_bytes(hash, *secret.first_chunk()?))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

fn hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    // The buffer has its final length from the beginning: growing would leave copies of the secret
    // in memory.
    let mut out = Zeroizing::new(Vec::with_capacity(text.len() / 2 + 1));
    for byte in bytes {
        out.push(byte?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Sha256;
    #[cfg(feature = "sha384")]
    use crate::crypto::Sha384;
    use std::format;
    use std::string::String;

    fn line(label: &str, random: usize, secret: usize) -> String {
        format!("{label} {} {}", "a7".repeat(random), "5C".repeat(secret))
    }

    #[test]
    fn what_is_known_is_kept_and_what_is_not_passed_over() {
        let text = format!(
            "# comment\n\n  {}\r\n{}\n{}\n{}",
            line("CLIENT_RANDOM", 32, 48),
            line("CLIENT_TRAFFIC_SECRET_0", 32, 32),
            line("EXPORTER_SECRET", 32, 32),
            line("SERVER_TRAFFIC_SECRET_0", 32, 48),
        );
        let secrets = Secrets::read(&text).unwrap();
        assert_eq!(secrets.len(), 3);
        assert!(secrets.master(&[0xa7; 32], &Sha256).is_some());
        assert!(secrets.traffic(&[0xa7; 32], Label::ClientTraffic, &Sha256).is_some());
        assert!(secrets.traffic(&[0xa7; 32], Label::ServerTraffic, &Sha256).is_none());
        #[cfg(feature = "sha384")]
        assert!(secrets.traffic(&[0xa7; 32], Label::ServerTraffic, &Sha384).is_some());
        assert!(secrets.master(&[0xa6; 32], &Sha256).is_none());
        assert!(!format!("{secrets:?}").contains("5c"));
    }

    #[test]
    fn bad_lines_are_named() {
        let bad = |text: &str| Secrets::read(&format!("# first\n{text}")).unwrap_err();
        assert_eq!(bad("CLIENT_RANDOM").to_string(), "line 2: not LABEL, client random and secret");
        assert!(bad(&(line("CLIENT_RANDOM", 32, 48) + " 00")).reason.starts_with("not LABEL"));
        assert!(bad(&line("CLIENT_RANDOM", 31, 48)).reason.contains("32 bytes"));
        assert!(bad(&line("CLIENT_RANDOM", 32, 48)[..150]).reason.contains("secret is not"));
        assert!(bad("CLIENT_RANDOM xx 00").reason.contains("random is not"));
        assert!(bad("CLIENT_RANDOM +a 00").reason.contains("random is not"));
    }

    use std::string::ToString;
}
