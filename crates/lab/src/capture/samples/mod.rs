//! Sample captures of records in every form, with the fields that each should show, for dissectors
//! and their tests.
//!
//! The expected fields come from the input that a record was sealed from, and not from parsing the
//! record.

mod dtls13;
mod group;
pub mod tshark;

use super::datagrams::ipv6_packet;
use super::pcap::{LinkType, Writer};
use crate::Error;
use core::net::SocketAddr;
use lightseal_core::Instant;
use std::fmt::Write as _;
use std::io;

/// The UDP port of groups and of servers in samples.
pub const PORT: u16 = 5684;
/// Time from one datagram to the next, in microseconds.
const PAUSE: u64 = 10_000;

/// A capture of records that can all be dissected with one set of Wireshark preferences.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The name of the capture file, without extension.
    pub name: String,
    /// The dissector in tools/wireshark that the sample is for, without `.lua`.
    pub dissector: &'static str,
    /// Wireshark preferences, such as `lsgroup.ports:5684`.
    pub preferences: Vec<String>,
    /// The datagrams in the capture.
    pub datagrams: Vec<SampleDatagram>,
}

/// A datagram of a sample.
#[derive(Clone, Debug)]
pub struct SampleDatagram {
    /// The sender's address.
    pub from: SocketAddr,
    /// The receiver's address.
    pub to: SocketAddr,
    /// The UDP payload.
    pub payload: Vec<u8>,
    /// The expected fields of each record in the datagram.
    pub records: Vec<ExpectedFields>,
}

/// The fields that a record should show: their names, and their values as Wireshark writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedFields(pub Vec<(String, String)>);

impl ExpectedFields {
    fn put(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.push((name.into(), value.to_string()));
    }

    fn put_bytes(&mut self, name: impl Into<String>, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.put(name, colons(bytes));
        }
    }
}

/// Bytes in hex with colons between them, as Wireshark shows them.
fn colons(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(3 * bytes.len());
    for byte in bytes {
        let colon = if text.is_empty() { "" } else { ":" };
        let _ = write!(text, "{colon}{byte:02x}");
    }
    text
}

/// All samples: each profile of groups under each of its suites, and DTLS 1.3 under each kind of
/// scheme.
///
/// # Errors
///
/// Fails when an engine refuses its own suites or schemes.
pub fn all() -> Result<Vec<Sample>, Error> {
    let mut samples = group::axiom()?;
    samples.extend(group::compact()?);
    samples.extend(dtls13::aggregated()?);
    Ok(samples)
}

impl Sample {
    /// Writes the datagrams as a capture of IPv6 packets.
    ///
    /// # Errors
    ///
    /// Fails when the capture cannot be written.
    pub fn write<W: io::Write>(&self, out: W) -> io::Result<W> {
        let mut writer = Writer::new(out, LinkType::Ip)?;
        for (at, datagram) in self.datagrams.iter().enumerate() {
            let SampleDatagram { from, to, payload, .. } = datagram;
            let packet = ipv6_packet(*from, *to, payload);
            let packet = packet.ok_or_else(|| io::Error::other("a datagram too long for IPv6"))?;
            writer.write(Instant::from_micros(at as u64 * PAUSE), &packet)?;
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn samples_have_names_of_their_own_and_every_form() {
        let samples = all().unwrap();
        let names: BTreeSet<_> = samples.iter().map(|sample| &sample.name).collect();
        assert_eq!(names.len(), samples.len());
        let mut forms = BTreeSet::new();
        for record in samples.iter().flat_map(|s| &s.datagrams).flat_map(|d| &d.records) {
            let value = |name: &str| record.0.iter().find(|field| field.0 == name);
            let form = ["lsgroup.profile", "lsgroup.direction", "lsgroup.form", "lsgroup.kind"]
                .map(|name| value(name).map_or("", |field| &field.1));
            forms.insert(form);
        }
        // The forms are two of axiom-1.2, seven of compact (two with a number in part, four with a
        // number in full, one to a single listener), and DTLS.
        assert_eq!(forms.len(), 2 + 2 + 4 + 1 + 1, "{forms:?}");
    }

    #[test]
    fn a_capture_has_every_datagram() {
        let samples = all().unwrap();
        let file = samples[0].write(Vec::new()).unwrap();
        let mut reader = super::super::pcap::Reader::new(&file[..]).unwrap();
        let mut frames = 0;
        while reader.next_frame().unwrap().is_some() {
            frames += 1;
        }
        assert_eq!(frames, samples[0].datagrams.len());
    }
}
