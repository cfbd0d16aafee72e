//! Keying material for applications (RFC 8446, section 7.5; RFC 5705).

use crate::failure::{Context, Failure};
use lightseal_dtls::Connection;
use serde_json::{Map, Value};
use std::str::FromStr;
use zeroize::Zeroizing;

/// The longest keying material that is exported, in bytes.
const MOST_BYTES: usize = 8160;

/// Keying material that the user wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exporter {
    label: String,
    bytes: usize,
}

impl FromStr for Exporter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A label may contain colons.
        let split = text.rsplit_once(':').filter(|(label, _)| !label.is_empty());
        let (label, bytes) = split.ok_or("expected LABEL:LENGTH, as in EXPORTER-mine:32")?;
        let bytes = bytes.parse().ok().filter(|bytes| (1..=MOST_BYTES).contains(bytes));
        let bytes = bytes.ok_or(format!("the length must be 1 to {MOST_BYTES} bytes"))?;
        Ok(Self { label: label.to_owned(), bytes })
    }
}

impl Exporter {
    fn export(&self, connection: &Connection) -> Result<Zeroizing<String>, Failure> {
        let mut secret = Zeroizing::new(vec![0; self.bytes]);
        connection
            .export_keying_material(self.label.as_bytes(), &[], &mut secret)
            .context(format_args!("--exporter {}", self.label))?;
        Ok(Zeroizing::new(hex(&secret)))
    }
}

/// The keying material of a connected association in hexadecimal, by label.
pub(super) fn export(exporters: &[Exporter], connection: &Connection) -> Result<Value, Failure> {
    let mut all = Map::new();
    for exporter in exporters {
        let secret = exporter.export(connection)?;
        all.insert(exporter.label.clone(), secret.as_str().into());
    }
    Ok(all.into())
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Formatting into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_have_colons_and_the_length_has_bounds() {
        let exporter = |label: &str, bytes| Ok(Exporter { label: label.to_owned(), bytes });
        assert_eq!("EXPORTER-a:32".parse(), exporter("EXPORTER-a", 32));
        assert_eq!("a:b:8160".parse(), exporter("a:b", 8160));
        for wrong in ["", "32", ":32", "a:", "a:0", "a:8161", "a:-1", "a:b"] {
            assert!(wrong.parse::<Exporter>().is_err(), "{wrong}");
        }
    }
}
