//! Keying material for applications (RFC 8446, section 7.5; RFC 5705).

use crate::failure::{Context, Failure};
use lightseal_dtls::{Connection, ExportError};
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
    fn export(
        &self,
        derive: impl FnOnce(&[u8], &[u8], &mut [u8]) -> Result<(), ExportError>,
    ) -> Result<Value, Failure> {
        let mut secret = Zeroizing::new(vec![0; self.bytes]);
        derive(self.label.as_bytes(), &[], &mut secret)
            .context(format_args!("--exporter {}", self.label))?;
        Ok(hex(&secret).into())
    }
}

/// The keying material of an association in hexadecimal, by label.
#[derive(Clone, Debug, Default)]
pub(super) struct Exported {
    /// From the secrets of the complete handshake.
    pub(super) complete: Map<String, Value>,
    /// From the secret of early data (RFC 8446, section 7.5), if the server accepted early data.
    pub(super) early: Map<String, Value>,
}

impl Exported {
    /// The keying material of a connected association.
    pub(super) fn of(exporters: &[Exporter], connection: &Connection) -> Result<Self, Failure> {
        let mut exported = Self::default();
        let has_early = connection.negotiated().is_some_and(|agreed| agreed.early_data);
        for exporter in exporters {
            let label = || exporter.label.clone();
            let secret = exporter.export(|label, context, out| {
                connection.export_keying_material(label, context, out)
            })?;
            exported.complete.insert(label(), secret);
            if has_early {
                let secret = exporter.export(|label, context, out| {
                    connection.export_early_keying_material(label, context, out)
                })?;
                exported.early.insert(label(), secret);
            }
        }
        Ok(exported)
    }

    /// A line for each secret.
    pub(super) fn text(&self) -> String {
        let line = |kind: &str, (label, secret): (&String, &Value)| {
            format!("{kind} {label}: {}\n", secret.as_str().unwrap_or_default())
        };
        let complete = self.complete.iter().map(|entry| line("exported", entry));
        let early = self.early.iter().map(|entry| line("exported early", entry));
        complete.chain(early).collect()
    }

    /// Adds the secrets to the object of an association.
    pub(super) fn add_to(&self, json: &mut Value) {
        json["exported"] = self.complete.clone().into();
        if !self.early.is_empty() {
            json["exported_early"] = self.early.clone().into();
        }
    }
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
