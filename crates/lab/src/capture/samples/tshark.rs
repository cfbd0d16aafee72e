//! Dissection of the samples by Wireshark's tshark, with the dissectors of tools/wireshark.

use super::{ExpectedFields, Sample, SampleDatagram};
use lightseal_core::Random;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::process::{Command, Stdio};

/// What tshark found in a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DissectionResult {
    /// Number of records that were expected.
    pub expected: usize,
    /// Number of records that tshark found.
    pub records: usize,
    /// Number of records, expected or found, that do not show the expected fields.
    pub wrong: usize,
    /// Descriptions of the first such records.
    pub failures: Vec<String>,
    /// Number of errors raised by the dissector's Lua script itself.
    pub lua_errors: usize,
}

/// The version that tshark reports.
///
/// # Errors
///
/// Fails when tshark is not installed.
pub fn version() -> io::Result<String> {
    let output = Command::new("tshark").arg("--version").stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // The first line of the output is like "TShark (Wireshark) 4.0.17 (Git ...)."
    let version = text.split_ascii_whitespace().nth(2).unwrap_or_default();
    Ok(version.to_owned())
}

/// Writes the sample into `folder`, has tshark dissect it with the sample's plugin from `plugins`,
/// and compares the fields of each record with the expected ones.
///
/// # Errors
///
/// Fails when a file cannot be written, or when tshark is not installed or fails.
pub fn dissect(sample: &Sample, folder: &Path, plugins: &Path) -> io::Result<DissectionResult> {
    let capture = folder.join(format!("{}.pcap", sample.name));
    sample.write(BufWriter::new(File::create(&capture)?))?;
    let plugin = plugins.join(format!("{}.lua", sample.dissector));
    if !plugin.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, plugin.display().to_string()));
    }
    let mut command = Command::new("tshark");
    // The preferences of the user who runs this must not take effect.
    command.env("WIRESHARK_CONFIG_DIR", folder.join("no-such-folder"));
    command.arg("-X").arg(format!("lua_script:{}", plugin.display()));
    for preference in &sample.preferences {
        command.args(["-o", preference]);
    }
    command.arg("-r").arg(&capture).args(["-T", "pdml"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = said.lines().last().unwrap_or_default();
        return Err(io::Error::other(format!("tshark: {}: {last}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found = compare(&sample.datagrams, &packets(&text));
    // The script may also fail as it is loaded.
    found.lua_errors = [&text, &said].map(|text| text.matches("Lua Error").count()).iter().sum();
    found.lua_errors += said.lines().filter(|line| line.starts_with("tshark: Lua")).count();
    Ok(found)
}

/// The value of an attribute in a line of PDML, which has one element on each line.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let begin = line.find(&format!(" {name}=\""))? + name.len() + 3;
    line[begin..].split('"').next()
}

/// The fields of our protocols in each record of each packet of a PDML file.
fn packets(pdml: &str) -> Vec<Vec<ExpectedFields>> {
    let mut packets: Vec<Vec<ExpectedFields>> = Vec::new();
    for line in pdml.lines().map(str::trim_start) {
        if line.starts_with("<packet>") {
            packets.push(Vec::new());
        }
        let Some(records) = packets.last_mut() else { continue };
        let name = attribute(line, "name").unwrap_or_default();
        // Rekey messages are carried in a group record and never stand alone.
        if line.starts_with("<proto ") && matches!(name, "lsgroup" | "lsdtls") {
            records.push(ExpectedFields::default());
        }
        let is_ours = ["lsgroup.", "lsdtls.", "lsrekey."].iter().any(|ours| name.starts_with(ours));
        if line.starts_with("<field ")
            && is_ours
            && let Some(record) = records.last_mut()
        {
            record.put(name, attribute(line, "show").unwrap_or_default());
        }
    }
    packets
}

fn sorted(shown: &ExpectedFields) -> Vec<(String, String)> {
    let mut fields = shown.0.clone();
    fields.sort();
    fields
}

/// The largest number of failures that are described.
const MAX_FAILURES: usize = 5;

fn compare(datagrams: &[SampleDatagram], packets: &[Vec<ExpectedFields>]) -> DissectionResult {
    let mut found = DissectionResult::default();
    let none = Vec::new();
    for at in 0..datagrams.len().max(packets.len()) {
        let expected = datagrams.get(at).map_or(&none, |datagram| &datagram.records);
        let shown = packets.get(at).unwrap_or(&none);
        found.expected += expected.len();
        found.records += shown.len();
        for record in 0..expected.len().max(shown.len()) {
            let [expected, shown] =
                [expected.get(record), shown.get(record)].map(|shown| shown.map(sorted));
            if expected == shown {
                continue;
            }
            found.wrong += 1;
            if found.failures.len() < MAX_FAILURES {
                let [expected, shown] = [expected, shown].map(Option::unwrap_or_default);
                let missing = expected.iter().filter(|field| !shown.contains(field));
                let others = shown.iter().filter(|field| !expected.contains(field));
                let (missing, others): (Vec<_>, Vec<_>) = (missing.collect(), others.collect());
                let what =
                    format!("datagram {at}, record {record}: not {missing:?} but {others:?}");
                found.failures.push(what);
            }
        }
    }
    found
}

/// Datagrams of one dissector's samples that were altered, cut, joined or made up, under the
/// preferences of the sample `of`. No fields are expected of their records.
pub fn noise(samples: &[Sample], of: &Sample, seed: u64, count: usize) -> Sample {
    let mut rng = Random::insecure(seed);
    let genuine: Vec<&SampleDatagram> = samples
        .iter()
        .filter(|sample| sample.dissector == of.dissector)
        .flat_map(|sample| &sample.datagrams)
        .collect();
    let mut below = |limit: usize| rng.below(limit.max(1) as u64) as usize;
    let datagrams = (0..count)
        .map(|_| {
            let SampleDatagram { from, to, payload, .. } = genuine[below(genuine.len())];
            let mut payload = payload.clone();
            for _ in 0..below(4) {
                let at = below(payload.len() + 1);
                match below(5) {
                    0 => payload.truncate(at),
                    1 => payload.extend_from_slice(&genuine[below(genuine.len())].payload),
                    2 => payload = (0..below(100)).map(|_| below(256) as u8).collect(),
                    3 => payload.insert(at, below(256) as u8),
                    _ => {
                        if let Some(byte) = payload.get_mut(at) {
                            *byte ^= 1 << below(8);
                        }
                    }
                }
            }
            payload.truncate(2000);
            SampleDatagram { from: *from, to: *to, payload, records: Vec::new() }
        })
        .collect();
    Sample { name: format!("{}-noise", of.name), datagrams, ..of.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PDML: &str = r#"
<packet>
  <proto name="udp" showname="User Datagram Protocol">
    <field name="udp.length" show="10"/>
  </proto>
  <proto name="lsgroup" showname="Lightseal group record" size="31" pos="48">
    <field name="lsgroup.type" showname="Content type" size="1" pos="48" show="23" value="17"/>
    <proto name="lsrekey" showname="Lightseal group rekeying" size="31" pos="48">
      <field name="lsrekey.kind" show="1"/>
    </proto>
  </proto>
</packet>
"#;

    fn sampled(records: Vec<ExpectedFields>) -> SampleDatagram {
        let address = "[::1]:1".parse().unwrap();
        SampleDatagram { from: address, to: address, payload: vec![], records }
    }

    #[test]
    fn a_field_more_or_less_or_other_is_a_difference() {
        let shown = |fields: &[(&str, &str)]| {
            ExpectedFields(
                fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            )
        };
        let found = packets(PDML);
        assert_eq!(found, [[shown(&[("lsgroup.type", "23"), ("lsrekey.kind", "1")])]]);
        let wrong = |records| compare(&[sampled(records)], &found).wrong;
        assert_eq!(wrong(found[0].clone()), 0);
        assert_eq!(wrong(vec![shown(&[("lsgroup.type", "23")])]), 1);
        assert_eq!(wrong(vec![shown(&[("lsgroup.type", "22"), ("lsrekey.kind", "1")])]), 1);
        assert_eq!(wrong(vec![found[0][0].clone(), found[0][0].clone()]), 1);
        assert_eq!(compare(&[], &found).wrong, 1);
        assert_eq!(compare(&[sampled(found[0].clone())], &[]).wrong, 1);
    }
}
