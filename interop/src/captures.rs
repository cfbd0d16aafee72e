//! The lab's captures, as Wireshark's `tshark` reads them.

use lightseal_dtls::codepoints::{ContentType, PskKeyExchangeMode};
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_dtls::passive::{Proof, Secrets};
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, ConnectionIds, CookiePolicy, ProtocolVersion, Psk,
    ServerConfig, Settings,
};
use lightseal_lab::capture::pcap::Reader;
use lightseal_lab::capture::{Captured, Conversation, Decryption, DecryptionCounts};
use lightseal_lab::handshakes::{HandshakeRun, Profile};
use lightseal_lab::links::{Layer, beacon, tsch, xmac};
use lightseal_lab::network::Network;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// An association that is captured.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name in files and tables.
    pub name: &'static str,
    /// The protocol version.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub suite: CipherSuiteId,
    /// Bytes of its connection IDs; `None` without the extension.
    pub id_bytes: Option<u8>,
    /// The scheme by which tags are shared; `None` for plain tags.
    pub scheme: Option<&'static str>,
    /// Whether tshark 4.0.17 decrypts it. It cannot decrypt DTLS 1.2 with ECDHE_PSK or with
    /// ChaCha20-Poly1305, and does not know the records of DTLS 1.3.
    pub readable: bool,
    /// A handshake over a real link layer; `None` for a conversation over an ideal one.
    pub air: Option<SimulatedRadio>,
}

/// The link layer and the profile of a simulated handshake.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRadio {
    /// The lab's name of the handshake profile.
    pub profile: &'static str,
    /// Number of nodes in the line, both ends included.
    pub nodes: u16,
    /// The link layer.
    pub layer: fn() -> Layer,
}

/// The probability that a frame or an acknowledgement is delivered.
const DELIVERY: f64 = 0.85;

fn xmac() -> Layer {
    Layer::XMac(xmac::XMacSettings::contiki(125.0))
}

fn tsch() -> Layer {
    Layer::Tsch(tsch::TschSettings::dedicated(101, 3))
}

fn beacon() -> Layer {
    let downlink = beacon::Downlink::Indirect;
    Layer::Beacon(beacon::BeaconSettings { downlink, ..beacon::BeaconSettings::direct(3, 1) })
}

const CCM_8_12: Case = Case {
    name: "12-ccm8",
    version: ProtocolVersion::Dtls12,
    suite: CipherSuiteId::PSK_WITH_AES_128_CCM_8,
    id_bytes: None,
    scheme: None,
    readable: true,
    air: None,
};

const CCM_13: Case = Case {
    name: "13-ccm",
    version: ProtocolVersion::Dtls13,
    suite: CipherSuiteId::AES_128_CCM_SHA256,
    readable: false,
    ..CCM_8_12
};

/// Every case.
pub const CASES: &[Case] = &[
    CCM_8_12,
    Case { name: "12-ccm8-id", id_bytes: Some(3), ..CCM_8_12 },
    Case {
        name: "12-ecdhe-ccm8",
        suite: CipherSuiteId::ECDHE_PSK_WITH_AES_128_CCM_8_SHA256,
        readable: false,
        ..CCM_8_12
    },
    Case { name: "12-ccm", suite: CipherSuiteId::PSK_WITH_AES_128_CCM, ..CCM_8_12 },
    Case { name: "12-gcm", suite: CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256, ..CCM_8_12 },
    Case {
        name: "12-ecdhe-gcm",
        suite: CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256,
        readable: false,
        ..CCM_8_12
    },
    Case {
        name: "12-chacha",
        suite: CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
        readable: false,
        ..CCM_8_12
    },
    CCM_13,
    Case { name: "13-ccm-id", id_bytes: Some(3), ..CCM_13 },
    Case { name: "13-ccm8", suite: CipherSuiteId::AES_128_CCM_8_SHA256, ..CCM_13 },
    Case { name: "13-gcm", suite: CipherSuiteId::AES_128_GCM_SHA256, ..CCM_13 },
    Case { name: "13-chacha", suite: CipherSuiteId::CHACHA20_POLY1305_SHA256, ..CCM_13 },
    Case { name: "13-lightmac", suite: CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256, ..CCM_13 },
    Case { name: "13-agg8", scheme: Some("agg:8"), ..CCM_13 },
    Case { name: "13-r2d2", scheme: Some("r2d2:100"), id_bytes: Some(2), ..CCM_13 },
    Case {
        name: "12-tinydtls-x-mac",
        air: Some(SimulatedRadio { profile: "tinydtls", nodes: 3, layer: xmac }),
        ..CCM_8_12
    },
    Case {
        name: "12-tsch",
        air: Some(SimulatedRadio { profile: "1.2", nodes: 2, layer: tsch }),
        ..CCM_8_12
    },
    Case {
        name: "12-beacon",
        air: Some(SimulatedRadio { profile: "1.2", nodes: 2, layer: beacon }),
        ..CCM_8_12
    },
    Case {
        name: "13-x-mac",
        air: Some(SimulatedRadio { profile: "1.3", nodes: 3, layer: xmac }),
        ..CCM_13
    },
    Case {
        name: "13-tsch",
        air: Some(SimulatedRadio { profile: "1.3-dhe", nodes: 3, layer: tsch }),
        ..CCM_13
    },
];

/// The files of a captured association.
#[derive(Clone, Debug)]
pub struct Files {
    /// The capture file.
    pub capture: PathBuf,
    /// The key log with the association's secrets.
    pub keys: PathBuf,
}

/// The contents of a capture, as our own tools read them.
#[derive(Clone, Debug)]
pub struct OurReading {
    /// Counts of datagrams and records.
    pub counts: DecryptionCounts,
    /// Number of frames that repeat the previous one. tshark counts them again.
    pub repeated: u64,
    /// Decrypted application data, in hex, and the number of times that it occurs.
    payloads: BTreeMap<String, usize>,
}

/// The contents of a capture, as tshark reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TsharkReading {
    /// Number of frames.
    pub frames: usize,
    /// Frames that tshark calls malformed, or that have another link layer than ours.
    pub malformed: usize,
    /// Frames with a wrong frame check sequence or UDP checksum.
    pub bad_checksums: usize,
    /// Frames with a UDP datagram.
    pub udp: usize,
    /// Frames with a DTLS datagram.
    pub dtls: usize,
    /// Protected records of DTLS 1.2.
    pub protected: usize,
    /// Protected records whose decrypted content is the one that we sent.
    pub decrypted: usize,
}

impl Case {
    /// Runs the association and captures it.
    ///
    /// # Panics
    /// Our own engines do not connect.
    pub fn captured(&self) -> Captured {
        if let Some(air) = &self.air {
            let network = Network::line(air.nodes, (air.layer)()).with_delivery(DELIVERY);
            let profile = Profile::by_name(air.profile).expect("it is known");
            let course = HandshakeRun::single(&network, profile, 3);
            return Captured::record(&course).expect("both ends are ours").1;
        }
        let psk = Psk::external(b"Client_identity", b"secretPSKsecretP").expect("legal lengths");
        let mut settings = Settings::new(&rustcrypto::PROVIDER);
        settings.versions = vec![self.version];
        settings.suites = vec![self.suite];
        settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
        settings.connection_ids = self.id_bytes.map_or(ConnectionIds::Off, ConnectionIds::of_bytes);
        if let Some(scheme) = self.scheme {
            settings.aggregation = AggregationPolicy::both(scheme.parse().expect("a scheme"));
        }
        let client = ClientConfig::with(psk.clone(), settings.clone()).expect("valid settings");
        let server = ServerConfig::with(Arc::new(psk), settings).expect("valid settings");
        let server = server.with_cookies(CookiePolicy::Always);
        let messages = (0..20).map(coap).collect();
        let conversation =
            Conversation { client, server, messages, new_keys_after: Some(10), seed: 1 };
        conversation.run().expect("both ends are ours")
    }

    /// Runs the association and writes its capture and its key log into `folder`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<Files> {
        std::fs::create_dir_all(folder)?;
        let file = |ending| folder.join(format!("{}.{ending}", self.name));
        let files = Files { capture: file("pcap"), keys: file("keys") };
        let captured = self.captured();
        captured.write(io::BufWriter::new(std::fs::File::create(&files.capture)?))?;
        captured.keys.save(&files.keys)?;
        Ok(files)
    }
}

/// A message that CoAP dissectors accept: non-confirmable POST with a message ID and a payload.
fn coap(number: u8) -> Vec<u8> {
    let payload = (0..=number).flat_map(|i| [b'a' + i, number, 0x80 | i, b'z', 0, 0xff]);
    [0x50, 0x02, 0x12, number, 0xff].into_iter().chain(payload).collect()
}

impl Files {
    /// Reads the capture with our own tools.
    ///
    /// # Panics
    /// The file is no capture of ours.
    pub fn ours(&self) -> OurReading {
        let keys = std::fs::read_to_string(&self.keys).expect("a key log");
        let file = io::BufReader::new(std::fs::File::open(&self.capture).expect("a capture"));
        let reader = Reader::new(file).expect("a capture");
        let secrets = Secrets::read(&keys).expect("our own lines");
        let mut decryption = Decryption::new(reader, secrets);
        let mut payloads = BTreeMap::new();
        while let Some(entry) = decryption.next_datagram().expect("our own file") {
            for record in &entry.records {
                let data = record.kind == Some(ContentType::APPLICATION_DATA);
                if data && record.proof == Proof::Verified {
                    let payload = lightseal_lab::capture::describe::hex(&record.content[5..]);
                    *payloads.entry(payload).or_default() += 1;
                }
            }
        }
        let repeated = decryption.frames().1;
        OurReading { counts: decryption.counts(), repeated, payloads }
    }

    /// Opens the capture with tshark, whose DTLS dissector is turned off if `up_to_udp`.
    ///
    /// # Errors
    /// tshark is missing or fails.
    pub fn theirs(&self, ours: &OurReading, up_to_udp: bool) -> io::Result<TsharkReading> {
        let mut command = Command::new("tshark");
        // A folder that does not exist keeps the user's preferences out.
        command.env("WIRESHARK_CONFIG_DIR", std::env::temp_dir().join("no-such-folder"));
        command.arg("-r").arg(&self.capture).args(["-T", "fields", "-E", "separator=;"]);
        command.arg("-o").arg(format!("tls.keylog_file:{}", self.keys.display()));
        command.args(["-o", "udp.check_checksum:TRUE", "-d", "udp.port==5684,dtls"]);
        // The prefix of relayed packets, which is not carried in frames.
        command.args(["-o", "6lowpan.context0:2001:db8::/64"]);
        if up_to_udp {
            command.args(["--disable-protocol", "dtls"]);
        }
        for field in FIELDS {
            command.args(["-e", field]);
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            return Err(io::Error::other(format!("{}: {last}", output.status)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut theirs = TsharkReading::default();
        let mut payloads = ours.payloads.clone();
        text.lines().for_each(|line| theirs.add(line, &mut payloads));
        Ok(theirs)
    }
}

const FIELDS: [&str; 7] = [
    "frame.protocols",
    "wpan.fcs_ok",
    "udp.checksum.status",
    "dtls.record.epoch",
    "dtls.handshake.type",
    "dtls.alert_message.desc",
    "data.data",
];

impl TsharkReading {
    /// Counts a line with the fields [`FIELDS`]. `payloads` are those that are still expected.
    fn add(&mut self, line: &str, payloads: &mut BTreeMap<String, usize>) {
        /// The type of a Finished message, which never goes in clear.
        const FINISHED: &str = "20";
        let mut fields = line.split(';');
        let mut field = || fields.next().unwrap_or_default();
        let [protocols, fcs, udp, epochs, messages, alerts, data] = FIELDS.map(|_| field());
        let has = |name: &str| protocols.split(':').any(|protocol| protocol == name);
        self.frames += 1;
        self.malformed += usize::from(has("_ws.malformed") || !has("wpan"));
        self.bad_checksums += usize::from(fcs != "1" || udp == "0");
        self.udp += usize::from(has("udp"));
        if !has("dtls") {
            return;
        }
        self.dtls += 1;
        let protected = |epoch: &&str| !matches!(*epoch, "" | "0");
        self.protected += epochs.split(',').filter(protected).count();
        self.decrypted += messages.split(',').filter(|kind| *kind == FINISHED).count();
        self.decrypted += alerts.split(',').filter(|alert| !alert.is_empty()).count();
        for payload in data.split(',') {
            if let Some(count) = payloads.get_mut(payload).filter(|count| **count > 0) {
                *count -= 1;
                self.decrypted += 1;
            }
        }
    }
}

/// The version that tshark reports.
///
/// # Errors
/// tshark is missing.
pub fn tshark_version() -> io::Result<String> {
    let output = Command::new("tshark").arg("--version").stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // The output begins with "TShark (Wireshark) 4.0.17 (Git ...)."
    let version = text.split_ascii_whitespace().nth(2).unwrap_or_default();
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tshark_says_is_counted() {
        let mut theirs = TsharkReading::default();
        let mut payloads = BTreeMap::from([("abcd".to_owned(), 1)]);
        let mut add = |line: &str| theirs.add(line, &mut payloads);
        add("wpan:6lowpan:data;1;;;;;abcd");
        add("wpan:6lowpan:ipv6:udp:dtls:coap:data;1;1;1;;;abcd");
        add("wpan:6lowpan:ipv6:udp:dtls:coap:data;1;1;1;;;abcd");
        add("wpan:6lowpan:ipv6:udp:dtls;1;1;0,1;16,20;;");
        add("wpan:6lowpan:ipv6:udp:dtls;0;1;1;;0;");
        add("wpan:6lowpan:ipv6:udp:dtls:_ws.malformed;1;0;;;;");
        let expected = TsharkReading {
            frames: 6,
            malformed: 1,
            bad_checksums: 2,
            udp: 5,
            dtls: 5,
            protected: 4,
            decrypted: 3,
        };
        assert_eq!(theirs, expected);
    }
}
