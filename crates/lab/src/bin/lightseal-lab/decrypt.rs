//! `lightseal-lab decrypt`: decrypts the DTLS in a capture with a key log.

use clap::{Args, ValueEnum};
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_cli::units::counted;
use lightseal_dtls::NumberMasks;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::passive::{Record, Secrets, Sender};
use lightseal_lab::capture::pcap::Reader;
use lightseal_lab::capture::{
    Datagram, DecryptedDatagram, Decryption, DecryptionCounts, PlaintextWriter, describe,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

#[derive(Clone, Debug, Args)]
pub(crate) struct DecryptArgs {
    /// Capture in pcap format: of IEEE 802.15.4, Ethernet, IP or Linux's "any".
    #[arg(value_name = "FILE.pcap")]
    capture: PathBuf,
    /// Key log that one end wrote (SSLKEYLOGFILE).
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// Skip datagrams that are not from or to this UDP port [default: skip datagrams of
    /// associations whose beginning was not captured].
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// How both ends mask the numbers of records with shared tags.
    #[arg(long, value_enum, default_value_t = Masks::Standard)]
    number_masks: Masks,
    /// Write the decrypted application data into this pcap file, as UDP datagrams.
    #[arg(long, value_name = "FILE.pcap")]
    out: Option<PathBuf>,
    /// Print everything as JSON instead.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Masks {
    /// As in RFC 9147.
    Standard,
    /// As in the paper on MAC aggregation.
    Paper,
    /// With a pad for short records.
    Strong,
}

impl From<Masks> for NumberMasks {
    fn from(masks: Masks) -> Self {
        match masks {
            Masks::Standard => Self::Standard,
            Masks::Paper => Self::Paper,
            Masks::Strong => Self::Strong,
        }
    }
}

/// Lists every datagram and record.
pub(crate) fn run(args: &DecryptArgs) -> Result<(), Failure> {
    let secrets = read_keys(&args.keys)?;
    let name = args.capture.display();
    let file = File::open(&args.capture).context(&name)?;
    let bytes = file.metadata().ok().filter(Metadata::is_file).map(|metadata| metadata.len());
    // A list on the terminal shows the progress by itself.
    let progress = Progress::bytes(bytes, std::io::stdout().is_terminal());
    let file = Metered { file, progress, bytes: 0 };
    let reader = Reader::new(BufReader::new(file)).context(&name)?;
    let mut decryption =
        Decryption::new(reader, secrets).of_port(args.port).with_masks(args.number_masks.into());
    let mut stripped = args.out.as_deref().map(create).transpose()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let wrote = |result: std::io::Result<()>| result.context("standard output");
    if args.json {
        wrote(out.write_all(b"{\"datagrams\":["))?;
    }
    let mut separator = "\n";
    // A damaged file is listed up to the damage.
    let end = loop {
        match decryption.next_datagram() {
            Ok(Some(entry)) => {
                if let (Some(stripped), Some(path)) = (&mut stripped, &args.out) {
                    stripped.write(&entry).context(path.display())?;
                }
                if args.json {
                    wrote(write!(out, "{separator}{}", datagram_as_json(&entry)))?;
                    separator = ",\n";
                } else {
                    wrote(out.write_all(datagram_as_text(&entry).as_bytes()))?;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error).context(&name),
        }
    };
    let (frames, counts) = (decryption.frames(), decryption.counts());
    if args.json {
        wrote(writeln!(out, "\n],\"summary\":{}}}", counts_as_json(frames, &counts)))?;
    } else {
        wrote(out.write_all(counts_as_text(frames, &counts).as_bytes()))?;
    }
    wrote(out.flush())?;
    if let (Some(stripped), Some(path)) = (stripped, &args.out) {
        stripped.finish().context(path.display())?;
    }
    end
}

/// A file that shows how much of it was read.
struct Metered {
    file: File,
    progress: Progress,
    bytes: u64,
}

impl Read for Metered {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buf)?;
        self.bytes += read as u64;
        self.progress.set_bytes(self.bytes);
        Ok(read)
    }
}

fn read_keys(path: &Path) -> Result<Secrets, Failure> {
    let name = path.display();
    let mut file = File::open(path).context(&name)?;
    let len = file.metadata().context(&name)?.len();
    // The buffer has its full size from the beginning: a buffer that grows leaves copies of keys in
    // memory.
    let mut text = Zeroizing::new(String::with_capacity(len as usize + 1));
    file.read_to_string(&mut text).context(&name)?;
    Secrets::read(&text).context(&name)
}

fn create(path: &Path) -> Result<PlaintextWriter<BufWriter<File>>, Failure> {
    let file = File::create(path).context(path.display())?;
    PlaintextWriter::new(BufWriter::new(file)).context(path.display())
}

const MICROS: u64 = 1_000_000;

fn datagram_as_text(entry: &DecryptedDatagram) -> String {
    let Datagram { at, from, to, payload } = &entry.datagram;
    let (seconds, micros) = (at.as_micros() / MICROS, at.as_micros() % MICROS);
    let mut text = format!("{seconds}.{micros:06}  {from} > {to}  {} B\n", payload.len());
    for record in &entry.records {
        let number = record.number.map_or_else(|| "?".into(), |number| number.to_string());
        let kind = record.kind.map_or_else(|| "?".into(), describe::kind);
        let _ = write!(text, "  {}/{number} {kind} {} B", record.epoch, record.len);
        let _ = write!(text, " {}", describe::proof(record.proof));
        if record.repeated {
            text.push_str(", again");
        }
        let content = describe::content(record);
        if !content.is_empty() {
            let _ = write!(text, ": {content}");
        }
        text.push('\n');
    }
    text
}

fn datagram_as_json(entry: &DecryptedDatagram) -> Value {
    let Datagram { at, from, to, payload } = &entry.datagram;
    json!({
        "time_us": at.as_micros(),
        "from": from.to_string(),
        "to": to.to_string(),
        "bytes": payload.len(),
        "records": entry.records.iter().map(record_as_json).collect::<Vec<_>>(),
    })
}

fn record_as_json(record: &Record) -> Value {
    let Record { association, sender, epoch, number, kind, len, content, proof, .. } = record;
    let mut value = json!({
        "association": association,
        "sender": match sender { Sender::Client => "client", Sender::Server => "server" },
        "epoch": epoch,
        "number": number,
        "content_type": kind.map(describe::kind),
        "bytes": len,
        "proof": describe::proof(*proof),
        "repeated": record.repeated,
        "content_hex": describe::hex(content),
    });
    if kind.is_some_and(|kind| kind != ContentType::APPLICATION_DATA) {
        value["content"] = describe::content(record).into();
    }
    value
}

fn counts_as_text((frames, repeated): (u64, u64), counts: &DecryptionCounts) -> String {
    let DecryptionCounts { datagrams, other_datagrams, records, .. } = counts;
    let mut text = format!(
        "{} ({repeated} sent again), {} with DTLS, {other_datagrams} others; {}, {} under keys",
        counted(frames, "frame"),
        counted(*datagrams, "datagram"),
        counted(*records, "record"),
        counts.protected()
    );
    for kind in DecryptionCounts::PROOFS {
        if counts.of(kind) > 0 {
            let _ = write!(text, ", {} {}", counts.of(kind), describe::proof(kind));
        }
    }
    text.push('\n');
    text
}

fn counts_as_json((frames, repeated): (u64, u64), counts: &DecryptionCounts) -> Value {
    let mut value = json!({
        "frames": frames,
        "frames_repeated": repeated,
        "datagrams": counts.datagrams,
        "datagrams_other": counts.other_datagrams,
        "records": counts.records,
        "protected": counts.protected(),
    });
    for kind in DecryptionCounts::PROOFS {
        value[describe::proof(kind)] = counts.of(kind).into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::Instant;
    use lightseal_dtls::passive::Proof;

    fn entry() -> DecryptedDatagram {
        let [from, to] = ["[fe80::1]:5684", "[fe80::2]:5684"].map(str::parse);
        let record = Record {
            serial: 0,
            association: 0,
            sender: Sender::Client,
            epoch: 3,
            number: Some(7),
            kind: Some(ContentType::APPLICATION_DATA),
            len: 20,
            content: b"23.5 C".to_vec(),
            proof: Proof::Verified,
            repeated: true,
        };
        let locked = Record {
            number: None,
            kind: None,
            content: Vec::new(),
            proof: Proof::Locked,
            repeated: false,
            ..record.clone()
        };
        let (at, payload) = (Instant::from_micros(1_000_002), vec![0; 40]);
        DecryptedDatagram {
            datagram: Datagram { at, from: from.unwrap(), to: to.unwrap(), payload },
            records: vec![record, locked],
        }
    }

    #[test]
    fn every_record_has_its_line() {
        assert_eq!(
            datagram_as_text(&entry()),
            "1.000002  [fe80::1]:5684 > [fe80::2]:5684  40 B\n  \
             3/7 application_data 20 B verified, again: \"23.5 C\"\n  \
             3/? ? 20 B locked\n"
        );
        let value = datagram_as_json(&entry());
        assert_eq!(value["records"][0]["content_hex"], "32332e352043");
        assert_eq!(value["records"][1]["number"], Value::Null);
    }

    #[test]
    fn what_cannot_be_read_is_said_in_one_line() {
        let missing = DecryptArgs {
            capture: "no such file.pcap".into(),
            keys: "no such file.keys".into(),
            port: None,
            number_masks: Masks::Standard,
            out: None,
            json: false,
        };
        let text = run(&missing).unwrap_err().to_string();
        assert!(text.starts_with("no such file.keys: "), "{text}");
        assert_eq!(text.lines().count(), 1);
    }
}
