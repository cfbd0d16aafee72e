//! The bytes and datagrams of each kind of handshake, beside those of wolfSSL and OpenSSL with the
//! same certificates, extensions, group, connection IDs and cookie.

use crate::certified_race::{self, Handshake, Wolfssl};
use crate::chains::Chains;
use crate::ours_race;
use crate::race::DATAGRAM_BYTES;
use crate::wolfssl::{self, Group, Mode, Settings, Suite};
use crate::{openssl_race, openssl_sizes, ours, pair};
use lightseal_dtls::crypto::{NamedGroup, Provider};
use lightseal_dtls::{ConnectionIds, CookiePolicy, ProtocolVersion};
use serde_json::{Value, json};
use std::fmt;

/// The length of the connection IDs in the rows that have them, in bytes.
const CID_BYTES: u8 = 8;
/// OpenSSL's callbacks have this identity and this key.
const IDENTITY: &[u8] = b"sensor-7";
const KEY: [u8; 32] = [0x5a; 32];

/// How much a handshake sends, both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// UDP payload in bytes.
    pub bytes: usize,
    /// Number of datagrams.
    pub datagrams: usize,
}

impl Size {
    /// The median of several handshakes by bytes: the length of an ECDSA signature varies by some
    /// bytes.
    fn median(handshakes: usize, mut lengths: impl FnMut() -> Vec<usize>) -> Self {
        let mut sizes: Vec<Self> = (0..handshakes)
            .map(|_| {
                let lengths = lengths();
                Self { bytes: lengths.iter().sum(), datagrams: lengths.len() }
            })
            .collect();
        sizes.sort_by_key(|size| size.bytes);
        sizes[sizes.len() / 2]
    }

    fn json(self) -> Value {
        json!({ "bytes": self.bytes, "datagrams": self.datagrams })
    }

    /// Whether this takes more of anything.
    const fn exceeds(self, other: Self) -> bool {
        self.bytes > other.bytes || self.datagrams > other.datagrams
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B in {}", self.bytes, self.datagrams)
    }
}

/// A kind of handshake.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    credential: Credential,
    /// OpenSSL's handshake, if it has it.
    openssl: Option<openssl_sizes::Handshake>,
}

#[derive(Clone, Copy, Debug)]
enum Credential {
    Psk(Suite, Mode),
    Certificates(Handshake),
}

/// A kind of handshake with and without cookie and connection IDs, and its sizes.
#[derive(Clone, Debug)]
pub struct Row {
    /// The version.
    pub version: ProtocolVersion,
    /// What the ends authenticate themselves with.
    pub name: &'static str,
    /// Whether the server asks for a cookie first.
    pub cookie: bool,
    /// Whether there are connection IDs in both directions.
    pub cid: bool,
    /// Ours, with the peers' settings.
    pub ours: Size,
    /// Ours, with our default settings.
    pub defaults: Size,
    /// wolfSSL's.
    pub wolfssl: Size,
    /// OpenSSL's, if it has such a handshake.
    pub openssl: Option<Size>,
}

impl Row {
    /// Whether ours takes more bytes or more datagrams than that of another implementation.
    pub fn exceeds(&self) -> bool {
        self.ours.exceeds(self.wolfssl)
            || self.openssl.is_some_and(|openssl| self.ours.exceeds(openssl))
    }

    /// The row in JSON. Sizes that do not exist are null.
    pub fn json(&self) -> Value {
        json!({
            "version": self.version.to_string(),
            "handshake": self.name,
            "cookie": self.cookie,
            "connection_ids": self.cid,
            "ours": self.ours.json(),
            "defaults": self.defaults.json(),
            "wolfssl": self.wolfssl.json(),
            "openssl": self.openssl.map(Size::json),
            "exceeds": self.exceeds(),
        })
    }

    /// The cells of the row in a table.
    pub fn cells(&self) -> [String; 7] {
        let openssl = self.openssl.map_or_else(|| "-".to_owned(), |size| size.to_string());
        let yes = |holds| if holds { "yes" } else { "no" }.to_owned();
        [
            self.name.to_owned(),
            yes(self.cookie),
            yes(self.cid),
            self.ours.to_string(),
            self.wolfssl.to_string(),
            openssl,
            self.defaults.to_string(),
        ]
    }
}

/// All rows, each the median of this number of handshakes.
///
/// # Panics
/// A handshake fails.
pub fn rows(handshakes: usize) -> Vec<Row> {
    let chains = Chains::new();
    let row = |kind: Kind, cookie, cid| kind.measure(&chains, handshakes, cookie, cid);
    let mut rows = Vec::new();
    for kind in kinds_13() {
        // wolfSSL splits a ClientHello only if it has a cookie.
        let is_long = matches!(
            kind.credential,
            Credential::Certificates(Handshake { group: Group::X25519MlKem768, .. })
        );
        if !is_long {
            rows.push(row(kind, false, false));
        }
        rows.push(row(kind, true, false));
        // With connection IDs wolfSSL's ClientHello does not fit one datagram any more. It then
        // leaves the key share out, which does not compare.
        if !is_long {
            rows.push(row(kind, true, true));
        }
    }
    for kind in kinds_12() {
        rows.push(row(kind, true, false));
        rows.push(row(kind, true, true));
    }
    rows
}

fn kinds_13() -> Vec<Kind> {
    let kind = |name, credential| Kind { name, credential, openssl: None };
    let server = Handshake::SERVER_ONLY;
    let certificates = |name, handshake| kind(name, Credential::Certificates(handshake));
    vec![
        kind("PSK alone (psk_ke), CCM_8", Credential::Psk(Suite::Aes128Ccm8, Mode::Psk)),
        kind(
            "PSK and P-256 (psk_dhe_ke), GCM",
            Credential::Psk(Suite::Aes128Gcm, Mode::PskWith(Group::P256)),
        ),
        kind(
            "PSK and X25519 (psk_dhe_ke), GCM",
            Credential::Psk(Suite::Aes128Gcm, Mode::PskWith(Group::X25519)),
        ),
        certificates("server's certificate, P-256, GCM", server),
        certificates("both certificates, P-256, GCM", Handshake { mutual: true, ..server }),
        certificates(
            "server's certificate, X25519MLKEM768, GCM",
            Handshake { group: Group::X25519MlKem768, ..server },
        ),
        certificates("server's raw public key, P-256, GCM", Handshake { raw: true, ..server }),
        certificates(
            "both raw public keys, P-256, GCM",
            Handshake { raw: true, mutual: true, ..server },
        ),
        certificates(
            "resumed (psk_dhe_ke with P-256), one ticket, GCM",
            Handshake { resumed: true, ..server },
        ),
    ]
}

fn kinds_12() -> Vec<Kind> {
    let server = Handshake { suite: Suite::EcdheEcdsaAes128Gcm, ..Handshake::SERVER_ONLY };
    let certificates = |name, handshake, openssl| Kind {
        name,
        credential: Credential::Certificates(handshake),
        openssl: Some(openssl),
    };
    vec![
        Kind {
            name: "PSK_WITH_AES_128_CCM_8",
            credential: Credential::Psk(Suite::PskAes128Ccm8, Mode::Psk),
            openssl: Some(openssl_sizes::Handshake::Psk),
        },
        certificates(
            "ECDHE_ECDSA_WITH_AES_128_GCM, P-256, server's certificate",
            server,
            openssl_sizes::Handshake::Certificates { mutual: false },
        ),
        certificates(
            "ECDHE_ECDSA_WITH_AES_128_GCM, P-256, both certificates",
            Handshake { mutual: true, ..server },
            openssl_sizes::Handshake::Certificates { mutual: true },
        ),
        certificates(
            "ECDHE_ECDSA_WITH_AES_128_GCM, resumed by its session ID",
            Handshake { resumed: true, ..server },
            openssl_sizes::Handshake::Resumed,
        ),
    ]
}

const PROVIDER: &Provider = &lightseal_dtls_aws_lc::PROVIDER;

impl Kind {
    fn measure(self, chains: &Chains, handshakes: usize, cookie: bool, cid: bool) -> Row {
        let ids = Some(CID_BYTES).filter(|_| cid);
        let openssl = self.openssl.filter(|_| !cid).map(|handshake| {
            Size::median(handshakes, || openssl_sizes::datagram_lengths(chains, handshake))
        });
        let (version, [ours, defaults, wolfssl]) = match self.credential {
            Credential::Psk(suite, mode) => {
                let (identity, key) = (IDENTITY.to_vec(), KEY.to_vec());
                let settings = Settings { suite, mode, cookie, identity, key };
                (version(suite), psk(&settings, ids))
            }
            Credential::Certificates(handshake) => {
                let handshake = Handshake { cookie, cid: ids, ..handshake };
                let sizes = certificates(chains, handshake, handshakes);
                (version(handshake.suite), sizes)
            }
        };
        Row { version, name: self.name, cookie, cid, ours, defaults, wolfssl, openssl }
    }
}

const fn version(suite: Suite) -> ProtocolVersion {
    if suite.is_of_13() { ProtocolVersion::Dtls13 } else { ProtocolVersion::Dtls12 }
}

/// The default settings for a suite's version.
fn defaults(suite: Suite) -> lightseal_dtls::Settings {
    let mut settings = lightseal_dtls::Settings::new(PROVIDER);
    if !suite.is_of_13() {
        settings.versions = vec![ProtocolVersion::Dtls12];
    }
    settings
}

fn connection_ids(cid: Option<u8>) -> ConnectionIds {
    cid.map_or(ConnectionIds::Off, ConnectionIds::Bytes)
}

/// Our handshake, that with default settings, and wolfSSL's.
fn psk(settings: &Settings, cid: Option<u8>) -> [Size; 3] {
    let cookies = if settings.cookie { CookiePolicy::Always } else { CookiePolicy::ProvedBelow };
    let ours = |mut with: lightseal_dtls::Settings| {
        with.connection_ids = connection_ids(cid);
        let client = ours::client_config(settings, PROVIDER).with_settings(with.clone());
        let server = ours::server_config(settings, PROVIDER).with_cookies(cookies);
        let server = server.with_settings(with).expect("valid settings");
        let client = client.expect("valid settings");
        let mut handshakes = ours_race::Handshakes::between(client, server);
        Size::median(1, || handshakes.datagram_lengths())
    };
    let theirs = pair::Pair::with_cid(settings, cid.map(usize::from));
    let theirs = Size::median(1, || theirs.datagram_lengths().expect("nothing is lost"));
    [ours(ours::common(settings, PROVIDER)), ours(defaults(settings.suite)), theirs]
}

/// As [`psk`], with certificates or raw public keys.
fn certificates(chains: &Chains, handshake: Handshake, handshakes: usize) -> [Size; 3] {
    let mut ours = certified_race::ours(chains, PROVIDER, handshake);
    let mut settings = defaults(handshake.suite);
    settings.connection_ids = connection_ids(handshake.cid);
    if handshake.group == Group::X25519MlKem768 {
        // It is not among the defaults.
        settings.groups.insert(0, NamedGroup::X25519_MLKEM768);
    }
    let mut defaults = certified_race::ours_with(chains, handshake, settings);
    let mut theirs = Wolfssl::new(chains, handshake);
    [
        Size::median(handshakes, || ours.datagram_lengths()),
        Size::median(handshakes, || defaults.datagram_lengths()),
        Size::median(handshakes, || theirs.datagram_lengths()),
    ]
}

/// The rows with what they depend on, in JSON.
pub fn json(rows: &[Row]) -> Value {
    json!({
        "datagram_bytes": DATAGRAM_BYTES,
        "wolfssl": wolfssl::version(),
        "openssl": openssl_race::version(),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
}

/// The heads of the columns, in the order of [`Row::cells`].
const HEADS: [&str; 7] =
    ["handshake", "cookie", "CIDs", "Lightseal", "wolfSSL", "OpenSSL", "Lightseal's defaults"];

/// The rows of one version as a table of Markdown.
pub fn table(rows: &[Row], version: ProtocolVersion) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows = rows.iter().filter(|row| row.version == version);
    line(&HEADS.map(str::to_owned))
        + "|---|---|---|---|---|---|---|\n"
        + &rows.map(|row| line(&row.cells())).collect::<String>()
}
