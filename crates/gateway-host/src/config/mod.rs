//! The configuration of a gateway: one TOML file.
//!
//! [`SAMPLE`] is such a file, with every setting and a comment on it. A setting that is absent has
//! its default. An unknown setting, a value out of range or a contradiction is an error of one
//! line, with the name of the setting and its line. [`check()`](crate::check::check()) also checks what the file refers
//! to: other files, interfaces, ports and names.

mod change;
mod consistent;
mod values;

use crate::ErrorLine;
use crate::credential::{Credential, KnownBy, NO_PSK, Trust};
use crate::identity::PublicKey;
use crate::privileges::User;
use lightseal_dtls::Identity;
pub use lightseal_gateway::config::{Allowed, Mka, SecondGateway};
use lightseal_gateway::config::{ConfigError, check_peers};
use lightseal_gateway::keys::GatewayId;
use lightseal_gateway::schemes::SchemeName;
use lightseal_gateway::tuning::MAX_LANES;
use lightseal_pki::SpkiHash;
use lightseal_pki::file::CredentialForm;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use values::{bytes, scheme, some_time, time, user, within};

/// A configuration file with every setting, its default and its range.
pub const SAMPLE: &str = include_str!("../../gateway.toml");

/// The default port of the tunnel (UDP) and of the management channel (TCP).
pub const DEFAULT_PORT: u16 = 8885;

/// Longest configuration file in bytes: room for some 5000 peers.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Most kinds of frames that can be allowed. Together with those that are always received, they are
/// as many as the AF_XDP program supports.
pub(crate) const MOST_ALLOWED: usize = 61;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A gateway's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The identity of the gateway, and which frames it carries.
    pub gateway: Gateway,
    /// The LAN side, which is the side of the MACsec devices.
    pub lan: Lan,
    /// The underlay side, which is the side of the other gateways.
    #[serde(default)]
    pub underlay: Underlay,
    /// Limits on flows, stations and memory.
    #[serde(default)]
    pub limits: Limits,
    /// How often the keys of the tunnel change.
    #[serde(default)]
    pub rekey: Rekey,
    /// The management channels to the other gateways.
    #[serde(default)]
    pub management: Management,
    /// Where Prometheus reads metrics. If absent, there are none.
    pub metrics: Option<Metrics>,
    /// The other gateways, at most 256.
    #[serde(default, rename = "peer")]
    pub peers: Vec<Peer>,
}

/// The identity of a gateway, and which frames it carries.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Gateway {
    /// The gateway's name in logs and metrics: 1 to 64 letters, digits, `-`, `_` and `.`.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// The file of the gateway's private key, an Ed25519 key as `keygen` writes it; `None` if there
    /// is a `credential`.
    pub identity: Option<PathBuf>,
    /// What the gateway proves its identity with instead: a private key or a certificate, PEM or
    /// DER.
    #[serde(default, deserialize_with = "credential")]
    pub credential: Option<CredentialForm>,
    /// Files of the authorities that issue the certificates of peers.
    #[serde(default)]
    pub ca: Vec<PathBuf>,
    /// Files of revocation lists. With one, a certificate without a list of its issuer is refused.
    #[serde(default)]
    pub crl: Vec<PathBuf>,
    /// The scheme, which must be the same at all gateways.
    #[serde(default, deserialize_with = "scheme")]
    pub scheme: SchemeName,
    /// The administrator's consent to the scheme `plain`, which protects nothing.
    #[serde(default)]
    pub nothing_is_protected: bool,
    /// With `sealed`: whether frames of known flows have short headers.
    #[serde(default)]
    pub compress: bool,
    /// What the gateway does with MKA frames (EtherType 0x888E).
    #[serde(default)]
    pub mka: Mka,
    /// Frames without a SecTAG that are carried too, at most 61 kinds.
    #[serde(default, deserialize_with = "allowed")]
    pub allow: Vec<Allowed>,
    /// Directory of the administrator's socket. If absent: `/run/lightseal/NAME`.
    pub state: Option<PathBuf>,
    /// The user that the process becomes once all sockets are open: a name in `/etc/passwd`, or a
    /// number.
    #[serde(default, deserialize_with = "user")]
    pub user: Option<String>,
}

/// The LAN side.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Lan {
    /// Name of the interface.
    #[serde(deserialize_with = "interface")]
    pub interface: String,
    /// How frames of the LAN are read and written.
    #[serde(default)]
    pub io: LanIo,
    /// Number of queues, each with a thread and a lane of the tunnel: 1 to 16.
    #[serde(default = "one", deserialize_with = "within::<_, _, 1, { MAX_LANES as u64 }>")]
    pub queues: u32,
    /// How long an idle thread polls before it sleeps, in µs: 0 to 10 000. Waking a sleeping core
    /// takes time, and waking a virtual core takes many times as long.
    #[serde(default = "busy_wait", deserialize_with = "within::<_, _, 0, 10_000>")]
    pub busy_wait_us: u32,
    /// What happens if another gateway is on this LAN.
    #[serde(default)]
    pub second_gateway: SecondGateway,
}

const fn busy_wait() -> u32 {
    100
}

/// How frames of the LAN are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LanIo {
    /// AF_XDP if it can be used, otherwise AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP with any driver.
    Xdp,
    /// AF_XDP inside of the driver, if the driver supports it.
    XdpNative,
    /// AF_XDP without copying, if the driver supports it.
    XdpZeroCopy,
    /// AF_PACKET.
    Packet,
}

impl LanIo {
    /// Whether AF_XDP is required.
    pub(crate) const fn wants_xdp(self) -> bool {
        matches!(self, Self::Xdp | Self::XdpNative | Self::XdpZeroCopy)
    }
}

/// The underlay side.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Underlay {
    /// The address of the tunnel (UDP) and of the management channel (TCP).
    pub listen: SocketAddr,
    /// How datagrams are read and written.
    pub io: UnderlayIo,
    /// Name of the interface. `xdp` needs one; an interface that is named must exist.
    #[serde(deserialize_with = "some_interface")]
    pub interface: Option<String>,
    /// The largest IP packet of the tunnel, in bytes.
    pub mtu: Mtu,
}

impl Default for Underlay {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT));
        Self { listen, io: UnderlayIo::default(), interface: None, mtu: Mtu::default() }
    }
}

/// How datagrams of the tunnel are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UnderlayIo {
    /// AF_XDP if an interface is named and AF_XDP can be used, otherwise UDP sockets.
    #[default]
    Auto,
    /// AF_XDP with any driver.
    Xdp,
    /// AF_XDP inside of the driver, if the driver supports it.
    XdpNative,
    /// AF_XDP without copying, if the driver supports it.
    XdpZeroCopy,
    /// UDP sockets, in batches.
    Udp,
}

impl UnderlayIo {
    /// Whether AF_XDP is required.
    pub(crate) const fn wants_xdp(self) -> bool {
        matches!(self, Self::Xdp | Self::XdpNative | Self::XdpZeroCopy)
    }
}

/// The largest IP packet of the tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mtu {
    /// The size is found for each peer with probes.
    #[default]
    Probe,
    /// This number of bytes with the IP header, 576 to 65535.
    Bytes(u16),
}

/// Limits on flows, stations and memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Most flows, and most stations, at a time: 16 to 1 048 576.
    #[serde(deserialize_with = "within::<_, _, 16, 1_048_576>")]
    pub flows: u32,
    /// Most flows of one source address: 1 to 65 536.
    #[serde(deserialize_with = "within::<_, _, 1, 65_536>")]
    pub flows_per_source: u32,
    /// Most new flows a second: 1 to 100 000.
    #[serde(deserialize_with = "within::<_, _, 1, 100_000>")]
    pub new_flows_per_second: u32,
    /// How long a flow may be idle before it is removed: 10 s to 24 h.
    #[serde(deserialize_with = "time::<_, { 10 * SECOND }, DAY>")]
    pub flow_timeout: Duration,
    /// Most frames that are held until a peer knows their flow: 0 to 65 536.
    #[serde(deserialize_with = "within::<_, _, 0, 65_536>")]
    pub held_frames: u32,
    /// Most bytes of incomplete frames for each peer: 64 KiB to 1 GiB.
    #[serde(deserialize_with = "bytes::<_, { 64 << 10 }, { 1 << 30 }>")]
    pub reassembly_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 65_536,
            flows_per_source: 256,
            new_flows_per_second: 1_000,
            flow_timeout: Duration::from_millis(5 * MINUTE),
            held_frames: 1_024,
            reassembly_bytes: 4 << 20,
        }
    }
}

/// How often the keys of the tunnel change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Rekey {
    /// How long the keys of an epoch are used: 10 s to 24 h.
    #[serde(deserialize_with = "time::<_, { 10 * SECOND }, DAY>")]
    pub every: Duration,
}

impl Default for Rekey {
    fn default() -> Self {
        Self { every: Duration::from_millis(HOUR) }
    }
}

/// The management channels to the other gateways.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Management {
    /// How long a peer may be silent before its connection is considered dead: 2 s to 5 min.
    #[serde(deserialize_with = "time::<_, { 2 * SECOND }, { 5 * MINUTE }>")]
    pub dead_after: Duration,
    /// How long a connection may take to be authenticated: 1 s to 1 min.
    #[serde(deserialize_with = "time::<_, SECOND, MINUTE>")]
    pub handshake_timeout: Duration,
    /// Most connections that are not authenticated yet: 1 to 4096.
    #[serde(deserialize_with = "within::<_, _, 1, 4_096>")]
    pub unauthenticated: u32,
    /// The time after which a connection is replaced by a new one with fresh secrets: 1 min to 7 d.
    #[serde(deserialize_with = "time::<_, MINUTE, { 7 * DAY }>")]
    pub renew_every: Duration,
}

impl Default for Management {
    fn default() -> Self {
        Self {
            dead_after: Duration::from_millis(10 * SECOND),
            handshake_timeout: Duration::from_millis(5 * SECOND),
            unauthenticated: 64,
            renew_every: Duration::from_millis(DAY),
        }
    }
}

/// Where Prometheus reads metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Metrics {
    /// Address of the HTTP responder.
    pub listen: SocketAddr,
}

/// Another gateway, that is a peer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Peer {
    /// The peer's name in logs and metrics; the same characters as in [`Gateway::name`].
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// The Ed25519 key of the peer, which is its identity; `None` if there is an `identity`.
    pub public_key: Option<PublicKey>,
    /// The hash of another public key, or the name in the peer's certificate.
    pub identity: Option<Identity>,
    /// The address of the peer, as `host:port`. If absent, the peer must connect to this gateway.
    #[serde(default, deserialize_with = "endpoint")]
    pub endpoint: Option<String>,
    /// Interval between keepalives, which keep the bindings of NATs on the path: 1 s to 1 h. The
    /// shortest interval of all peers is used for each of them. If absent for all peers, keepalives
    /// are sent only when new keys are agreed on.
    #[serde(default, deserialize_with = "some_time::<_, SECOND, HOUR>")]
    pub keepalive: Option<Duration>,
}

impl Peer {
    /// What the peer is known by.
    ///
    /// # Panics
    /// If the peer is not one of a configuration that was parsed.
    pub fn known_by(&self) -> KnownBy {
        self.written_identity().expect("it was checked when the configuration was parsed")
    }

    /// What the peer is known by.
    ///
    /// # Errors
    /// If the settings say nothing or contradict each other.
    fn written_identity(&self) -> Result<KnownBy, &'static str> {
        match (&self.public_key, &self.identity) {
            (Some(key), None) => Ok((*key).into()),
            (None, Some(Identity::Key(hash))) => Ok(KnownBy::Key(SpkiHash(*hash))),
            (None, Some(Identity::Subject(name))) => Ok(KnownBy::Subject(name.clone())),
            (None, Some(_)) => Err("identity: gateways have no pre-shared keys"),
            (None, None) => Err("missing field `public_key` or `identity`"),
            (Some(_), Some(_)) => Err("identity: there is a public_key too; give one of them"),
        }
    }

    /// The port of the peer's endpoint, if it has one.
    pub fn endpoint_port(&self) -> Option<u16> {
        self.endpoint.as_ref()?.rsplit_once(':')?.1.parse().ok()
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// If the file cannot be read, or its content is invalid.
    pub fn load(path: &Path) -> Result<Self, ErrorLine> {
        let name = format!("configuration {}", path.display());
        let failed = |error: std::io::Error| ErrorLine::of(&name, error);
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut text = String::new();
        std::io::Read::read_to_string(
            &mut std::io::Read::take(file, MAX_FILE_BYTES + 1),
            &mut text,
        )
        .map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(ErrorLine::of(name, "longer than 1 MiB"));
        }
        Self::parse(&name, &text)
    }

    /// Parses a configuration. `name` is the name of the text in error messages.
    ///
    /// # Errors
    /// If the content is invalid.
    pub fn parse(name: &str, text: &str) -> Result<Self, ErrorLine> {
        let config: Self = toml::from_str(text).map_err(|error| located(name, text, &error))?;
        config.check_consistency(text).map_err(|(at, what)| match at {
            Some(at) => ErrorLine::of(format_args!("{name}, line {}", line(text, at)), what),
            None => ErrorLine::of(name, what),
        })?;
        Ok(config)
    }

    /// Reads what the gateway proves its identity with.
    ///
    /// # Errors
    /// If a file cannot be read, is accessible to other users, or has no key; or if a certificate has
    /// no name.
    pub fn load_credential(&self) -> Result<Credential, ErrorLine> {
        let gateway = &self.gateway;
        Credential::load(gateway.identity.as_deref(), gateway.credential.as_ref())
    }

    /// Reads the authorities and revocation lists with which certificates of peers are verified;
    /// `None` if there are no authorities.
    ///
    /// # Errors
    /// If a file cannot be read, or holds something else.
    pub fn load_trust(&self) -> Result<Option<Trust>, ErrorLine> {
        Trust::load(&self.gateway.ca, &self.gateway.crl)
    }

    /// Whether the gateway's own credential is in the same files.
    pub(crate) fn has_credential_of(&self, other: &Self) -> bool {
        let (own, other) = (&self.gateway, &other.gateway);
        (&own.identity, &own.credential) == (&other.identity, &other.credential)
    }

    /// Directory of the administrator's socket.
    pub fn state(&self) -> PathBuf {
        match &self.gateway.state {
            Some(state) => state.clone(),
            None => Path::new("/run/lightseal").join(&self.gateway.name),
        }
    }

    /// The identities of the peers.
    pub(crate) fn peer_ids(&self) -> impl ExactSizeIterator<Item = GatewayId> {
        self.peers.iter().map(|peer| peer.known_by().id())
    }

    /// Checks that no peer has the identity of this gateway.
    ///
    /// # Errors
    /// If a peer has it.
    pub(crate) fn check_own_key(&self, own: &KnownBy) -> Result<(), ErrorLine> {
        check_peers(Some(own.id()), self.peer_ids()).map_err(|error| self.named(error))
    }

    /// An error of the engine as an administrator reads it: peers have their names.
    pub(crate) fn named(&self, error: ConfigError) -> ErrorLine {
        match error {
            ConfigError::OwnIdentity(peer) => {
                let name = self.peers.get(usize::from(peer.0)).map_or("", |peer| &peer.name);
                ErrorLine::new(format_args!("peer {name}: its key is our own"))
            }
            error => ErrorLine::new(error),
        }
    }

    /// The user that the process is to become.
    ///
    /// # Errors
    /// If there is no such user, or the user is root.
    pub(crate) fn user(&self) -> Result<Option<User>, ErrorLine> {
        let user = self.gateway.user.as_deref().map(User::named).transpose();
        user.map_err(|error| ErrorLine::new(format_args!("[gateway] {error}")))
    }
}

/// Whether datagrams can be sent to `remote` from a socket that listens at `listen`: both must be
/// of one address family, but `[::]` stands for IPv4 too.
pub(crate) fn sends_to(listen: IpAddr, remote: IpAddr) -> bool {
    remote.is_ipv4() == listen.is_ipv4() || listen == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
}

/// Whether the kernel accepts the name for an interface (`dev_valid_name`).
pub fn is_interface_name(name: &str) -> bool {
    let wrong = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
    (1..=15).contains(&name.len()) && !name.contains(wrong) && name != "." && name != ".."
}

/// The line number of the byte at `at`, from 1 on.
fn line(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

/// Names the setting and the line of a TOML error, without the multi-line excerpt of the parser.
fn located(name: &str, text: &str, error: &toml::de::Error) -> ErrorLine {
    let what = error.message();
    let Some(span) = error.span() else {
        return ErrorLine::of(name, what);
    };
    let number = line(text, span.start);
    let name = format!("{name}, line {number}");
    let content = text.lines().nth(number - 1).unwrap_or_default();
    let key = content.split_once('=').map(|(key, _)| key.trim());
    let is_key = |key: &&str| {
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    match key.filter(is_key) {
        // Otherwise the message names the field itself.
        Some(key) if !what.contains(&format!("`{key}`")) => {
            ErrorLine::of(name, format_args!("{key}: {what}"))
        }
        _ => ErrorLine::of(name, what),
    }
}

const fn one() -> u32 {
    1
}

fn name<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let name = String::deserialize(d)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // The name becomes part of a path.
    if (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(name);
    }
    Err(Error::custom(
        "a name has 1 to 64 letters, digits, `-`, `_` and `.`, and does not begin with `.`",
    ))
}

fn interface<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let name = String::deserialize(d)?;
    if is_interface_name(&name) {
        return Ok(name);
    }
    Err(Error::custom(format_args!("{name:?} is no interface name (1 to 15 bytes)")))
}

fn credential<'de, D: Deserializer<'de>>(d: D) -> Result<Option<CredentialForm>, D::Error> {
    match String::deserialize(d)?.parse() {
        Ok(CredentialForm::Psks(_)) => Err(Error::custom(NO_PSK)),
        Ok(form) => Ok(Some(form)),
        Err(why) => Err(Error::custom(why)),
    }
}

fn some_interface<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    interface(d).map(Some)
}

fn endpoint<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(d)?;
    let is_good = text.rsplit_once(':').is_some_and(|(host, port)| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host_is_good = match bare {
            Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
            None => {
                (1..=253).contains(&host.len())
                    && host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            }
        };
        host_is_good && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_good {
        return Ok(Some(text));
    }
    Err(Error::custom(format_args!("{text:?} is not HOST:PORT, such as b.example.org:8885")))
}

impl<'de> Deserialize<'de> for Mtu {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected \"probe\" or 576 to 65535 bytes")]
        enum Written {
            Bytes(u16),
            Text(String),
        }
        match Written::deserialize(d)? {
            Written::Bytes(bytes @ 576..) => Ok(Self::Bytes(bytes)),
            Written::Text(text) if text == "probe" => Ok(Self::Probe),
            _ => Err(Error::custom("expected \"probe\" or 576 to 65535 bytes")),
        }
    }
}

/// Kinds of frames without a SecTAG, by name or number.
fn allowed<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Allowed>, D::Error> {
    let kind = |text: &String| {
        // The registry of EtherTypes (IEEE 802 numbers).
        let number = match text.as_str() {
            "bpdu" => return Ok(Allowed::BPDU),
            "ipv4" => Some(0x0800),
            "arp" => Some(0x0806),
            "ipv6" => Some(0x86DD),
            "profinet" => Some(0x8892),
            "goose" => Some(0x88B8),
            "lldp" => Some(0x88CC),
            "ptp" => Some(0x88F7),
            other => other.strip_prefix("0x").and_then(|hex| u16::from_str_radix(hex, 16).ok()),
        };
        match number {
            Some(number) => Allowed::ether_type(number).map_err(Error::custom),
            None => Err(Error::custom(format_args!(
                "{text:?} is no EtherType such as \"0x0806\", nor arp, ipv4, ipv6, lldp, bpdu, \
                 ptp, profinet or goose"
            ))),
        }
    };
    Vec::<String>::deserialize(d)?.iter().map(kind).collect()
}

#[cfg(test)]
mod tests;
