//! What a gateway is told: one TOML file.
//!
//! [`SAMPLE`] is such a file with every setting and its comment. What is absent has the default
//! that stands there; what is unknown, out of range or contradicts itself is one line with the name
//! of the setting and its line. [`check()`] looks at what the file speaks of: other files, interfaces,
//! ports and names.

mod change;
mod check;
mod consistent;
#[cfg(target_os = "linux")]
mod machine;
mod values;

pub use check::{Finding, Severity, check};

use crate::OneLine;
use crate::identity::PublicKey;
use crate::privileges::User;
use gateway::codepoints::ANNOUNCEMENT;
use gateway::tuning::LANES;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use values::{bytes, some_time, time, user, within};

/// A file with every setting, its default and its range.
pub const SAMPLE: &str = include_str!("../../../../docs/gateway.toml");

/// The port of the tunnel and of the management channel where none is given.
pub const DEFAULT_PORT: u16 = 8885;

/// No sensible configuration is larger: some 5000 peers.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Kinds of frames that can be allowed: with those that are always heard, as many as AF_XDP's
/// program knows.
pub(crate) const MOST_ALLOWED: usize = 61;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A gateway's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Who it is and what it carries.
    pub gateway: Gateway,
    /// The side of the MACsec devices.
    pub lan: Lan,
    /// The side of the other gateways.
    #[serde(default)]
    pub underlay: Underlay,
    /// What may be remembered.
    #[serde(default)]
    pub limits: Limits,
    /// How often keys change.
    #[serde(default)]
    pub rekey: Rekey,
    /// Connections with the other gateways.
    #[serde(default)]
    pub management: Management,
    /// Where Prometheus asks. Absent: nowhere.
    pub metrics: Option<Metrics>,
    /// The other gateways, at most 256.
    #[serde(default, rename = "peer")]
    pub peers: Vec<Peer>,
}

/// Who a gateway is and what it carries.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Its name in logs and metrics: 1 to 64 letters, digits, `-`, `_` and `.`.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// The file of its private key.
    pub identity: PathBuf,
    /// How frames are sealed; the same at all gateways.
    #[serde(default)]
    pub scheme: Scheme,
    /// With `sealed`: packets of known flows have short headers.
    #[serde(default)]
    pub compress: bool,
    /// What becomes of MKA's frames (EtherType 0x888E).
    #[serde(default)]
    pub mka: Mka,
    /// Frames without a SecTAG that are carried all the same, at most 61 kinds.
    #[serde(default)]
    pub allow: Vec<Allowed>,
    /// Directory of the administrator's socket. Absent: `/run/lightseal/NAME`.
    pub state: Option<PathBuf>,
    /// User to become once all sockets are open: a name in `/etc/passwd`, or a number.
    #[serde(default, deserialize_with = "user")]
    pub user: Option<String>,
}

/// How frames are sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Header encrypted, payload and ICV authenticated.
    #[default]
    Sealed,
    /// Rotating identifiers, with SipHash keyed as it should be.
    Identifier,
    /// Rotating identifiers as in the paper.
    IdentifierPaper,
    /// The first two blocks encrypted, as in the paper.
    EncryptionPaper,
    /// VXLAN's framing (RFC 7348), **without protection**.
    Plain,
}

/// What becomes of MKA's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mka {
    /// They take the way of other frames.
    #[default]
    Tunnel,
    /// They take the management channel, which loses none.
    Management,
    /// They are dropped and counted.
    Drop,
}

/// A kind of frame without a SecTAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    /// By EtherType, 0x0600 to 0xFFFF but MACsec's, MKA's, gateways' own and those of VLAN tags.
    EtherType(u16),
    /// Bridges' frames: LLC with the address 0x42.
    Bpdu,
}

/// The side of the MACsec devices.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lan {
    /// Name of the interface.
    #[serde(deserialize_with = "interface")]
    pub interface: String,
    /// How its frames are read and written.
    #[serde(default)]
    pub io: LanIo,
    /// Queues, with a thread and a lane of the tunnel each: 1 to 16.
    #[serde(default = "one", deserialize_with = "within::<_, _, 1, { LANES as u64 }>")]
    pub queues: u32,
    /// How long a thread that has nothing to do asks for more before it sleeps: 0 to 10 000 µs.
    /// Waking takes a core longer than that, and a virtual one many times as long.
    #[serde(default = "busy_wait", deserialize_with = "within::<_, _, 0, 10_000>")]
    pub busy_wait_us: u32,
    /// What happens when another gateway is found on this LAN.
    #[serde(default)]
    pub second_gateway: SecondGateway,
}

const fn busy_wait() -> u32 {
    100
}

/// How frames of the LAN are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LanIo {
    /// AF_XDP if it can be had, else AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP, of any driver.
    Xdp,
    /// AF_XDP inside of the driver, if that can.
    XdpNative,
    /// AF_XDP without a copy, if the driver can.
    XdpZeroCopy,
    /// AF_PACKET.
    Packet,
}

impl LanIo {
    /// Whether AF_XDP must be had.
    pub(crate) const fn wants_xdp(self) -> bool {
        matches!(self, Self::Xdp | Self::XdpNative | Self::XdpZeroCopy)
    }
}

/// What happens when another gateway is found on the LAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecondGateway {
    /// It is said and counted.
    #[default]
    Warn,
    /// This gateway stops carrying.
    Stop,
}

/// The side of the other gateways.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Underlay {
    /// Address of the tunnel (UDP) and of the management channel (TCP).
    pub listen: SocketAddr,
    /// How datagrams are read and written.
    pub io: UnderlayIo,
    /// The interface: `xdp` needs one, and one that is named must be there.
    #[serde(deserialize_with = "some_interface")]
    pub interface: Option<String>,
    /// The largest IP packet of the tunnel.
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
pub enum UnderlayIo {
    /// AF_XDP if there is an interface and it can be had, else UDP sockets.
    #[default]
    Auto,
    /// AF_XDP, of any driver.
    Xdp,
    /// AF_XDP inside of the driver, if that can.
    XdpNative,
    /// AF_XDP without a copy, if the driver can.
    XdpZeroCopy,
    /// UDP sockets, in batches.
    Udp,
}

impl UnderlayIo {
    /// Whether AF_XDP must be had.
    pub(crate) const fn wants_xdp(self) -> bool {
        matches!(self, Self::Xdp | Self::XdpNative | Self::XdpZeroCopy)
    }
}

/// The largest IP packet of the tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mtu {
    /// Found for each peer.
    #[default]
    Probe,
    /// So many bytes, 576 to 65535, with the IP header.
    Bytes(u16),
}

/// What may be remembered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Flows at a time: 16 to 1 048 576.
    #[serde(deserialize_with = "within::<_, _, 16, 1_048_576>")]
    pub flows: u32,
    /// Flows of one source address: 1 to 65 536.
    #[serde(deserialize_with = "within::<_, _, 1, 65_536>")]
    pub flows_per_source: u32,
    /// Flows begun each second: 1 to 100 000.
    #[serde(deserialize_with = "within::<_, _, 1, 100_000>")]
    pub new_flows_per_second: u32,
    /// A flow that carried nothing for so long is forgotten: 10 s to 24 h.
    #[serde(deserialize_with = "time::<_, { 10 * SECOND }, DAY>")]
    pub flow_timeout: Duration,
    /// Frames that wait until a peer knows their flow: 0 to 65 536.
    #[serde(deserialize_with = "within::<_, _, 0, 65_536>")]
    pub held_frames: u32,
    /// Bytes of frames that are not complete, for each peer: 64 KiB to 1 GiB.
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

/// How often keys of the tunnel change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rekey {
    /// Time between two epochs: 10 s to 24 h.
    #[serde(deserialize_with = "time::<_, { 10 * SECOND }, DAY>")]
    pub every: Duration,
}

impl Default for Rekey {
    fn default() -> Self {
        Self { every: Duration::from_millis(HOUR) }
    }
}

/// Connections with the other gateways.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Management {
    /// A peer that was not heard of for so long is down: 2 s to 5 min.
    #[serde(deserialize_with = "time::<_, { 2 * SECOND }, { 5 * MINUTE }>")]
    pub dead_after: Duration,
    /// A connection must be authenticated within: 1 s to 1 min.
    #[serde(deserialize_with = "time::<_, SECOND, MINUTE>")]
    pub handshake_timeout: Duration,
    /// Connections that are not authenticated yet: 1 to 4096.
    #[serde(deserialize_with = "within::<_, _, 1, 4_096>")]
    pub unauthenticated: u32,
    /// A connection is replaced by another, with fresh secrets: 1 min to 7 d.
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

/// Where Prometheus asks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Address of the HTTP responder.
    pub listen: SocketAddr,
}

/// Another gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name here, in logs and metrics; as [`Gateway::name`].
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// Who it is.
    pub public_key: PublicKey,
    /// Where it is, as `host:port`. Absent: it comes to us.
    #[serde(default, deserialize_with = "endpoint")]
    pub endpoint: Option<String>,
    /// Send something so often, for the NATs on the way: 1 s to 1 h. The shortest of all peers is
    /// used for each of them. Absent everywhere: only when needed.
    #[serde(default, deserialize_with = "some_time::<_, SECOND, HOUR>")]
    pub keepalive: Option<Duration>,
}

impl Peer {
    /// The port of its endpoint, if it has one.
    pub fn endpoint_port(&self) -> Option<u16> {
        self.endpoint.as_ref()?.rsplit_once(':')?.1.parse().ok()
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub fn load(path: &Path) -> Result<Self, OneLine> {
        let name = format!("configuration {}", path.display());
        let failed = |error: std::io::Error| OneLine::of(&name, error);
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut text = String::new();
        std::io::Read::read_to_string(
            &mut std::io::Read::take(file, MAX_FILE_BYTES + 1),
            &mut text,
        )
        .map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(OneLine::of(name, "longer than 1 MiB"));
        }
        Self::parse(&name, &text)
    }

    /// Reads a text, which errors call `name`.
    ///
    /// # Errors
    /// Something in it is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Self, OneLine> {
        let config: Self = toml::from_str(text).map_err(|error| located(name, text, &error))?;
        config.consistent(text).map_err(|(at, what)| match at {
            Some(at) => OneLine::of(format_args!("{name}, line {}", line(text, at)), what),
            None => OneLine::of(name, what),
        })?;
        Ok(config)
    }

    /// Directory of the administrator's socket.
    pub fn state(&self) -> PathBuf {
        match &self.gateway.state {
            Some(state) => state.clone(),
            None => Path::new("/run/lightseal").join(&self.gateway.name),
        }
    }

    /// Whether all peers are other gateways than the one with this key.
    ///
    /// # Errors
    /// One is not.
    pub(crate) fn has_others_only(&self, own: PublicKey) -> Result<(), OneLine> {
        match self.peers.iter().find(|peer| peer.public_key == own) {
            Some(Peer { name, .. }) => {
                Err(OneLine::new(format_args!("peer {name}: its key is our own")))
            }
            None => Ok(()),
        }
    }

    /// The user to become.
    ///
    /// # Errors
    /// There is none of that name, or it is root.
    pub(crate) fn user(&self) -> Result<Option<User>, OneLine> {
        let user = self.gateway.user.as_deref().map(User::named).transpose();
        user.map_err(|error| OneLine::new(format_args!("[gateway] {error}")))
    }
}

/// Whether datagrams can go to `remote` from a socket that listens at `listen`: of one family, but
/// `[::]` stands for IPv4 too.
pub(crate) fn sends_to(listen: IpAddr, remote: IpAddr) -> bool {
    remote.is_ipv4() == listen.is_ipv4() || listen == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
}

/// A name that the kernel takes for an interface (`dev_valid_name`).
pub fn is_interface_name(name: &str) -> bool {
    let wrong = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
    (1..=15).contains(&name.len()) && !name.contains(wrong) && name != "." && name != ".."
}

/// The number of the line with byte `at`, from 1 on.
fn line(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

/// Names the setting and the line of a TOML error, without the drawing that comes with it.
fn located(name: &str, text: &str, error: &toml::de::Error) -> OneLine {
    let what = error.message();
    let Some(span) = error.span() else {
        return OneLine::of(name, what);
    };
    let number = line(text, span.start);
    let name = format!("{name}, line {number}");
    let content = text.lines().nth(number - 1).unwrap_or_default();
    let key = content.split_once('=').map(|(key, _)| key.trim());
    let is_key = |key: &&str| {
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    match key.filter(is_key) {
        // It names the field itself.
        Some(key) if !what.contains(&format!("`{key}`")) => {
            OneLine::of(name, format_args!("{key}: {what}"))
        }
        _ => OneLine::of(name, what),
    }
}

const fn one() -> u32 {
    1
}

fn name<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let name = String::deserialize(d)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // It becomes part of a path.
    if (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(name);
    }
    Err(Error::custom("a name has 1 to 64 letters, digits, `-`, `_` and `.`"))
}

fn interface<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let name = String::deserialize(d)?;
    if is_interface_name(&name) {
        return Ok(name);
    }
    Err(Error::custom(format_args!("{name:?} is no name of an interface (1 to 15 bytes)")))
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

impl<'de> Deserialize<'de> for Allowed {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        // IEEE 802 numbers, the registry of EtherTypes.
        let ether_type = match text.as_str() {
            "bpdu" => return Ok(Self::Bpdu),
            "ipv4" => Some(0x0800),
            "arp" => Some(0x0806),
            "ipv6" => Some(0x86DD),
            "profinet" => Some(0x8892),
            "goose" => Some(0x88B8),
            "lldp" => Some(0x88CC),
            "ptp" => Some(0x88F7),
            other => other.strip_prefix("0x").and_then(|hex| u16::from_str_radix(hex, 16).ok()),
        };
        match ether_type {
            Some(0x88E5) => Err(Error::custom("MACsec's frames (0x88e5) are always carried")),
            Some(0x888E) => Err(Error::custom("MKA's frames (0x888e): see `mka`")),
            Some(ANNOUNCEMENT) => {
                Err(Error::custom("gateways' announcements (0x88b5) stay on their LAN"))
            }
            Some(0x8100 | 0x88A8) => {
                Err(Error::custom("VLAN tags are looked through: name what is behind them"))
            }
            Some(ether_type @ 0x0600..) => Ok(Self::EtherType(ether_type)),
            _ => Err(Error::custom(format_args!(
                "{text:?} is no EtherType such as \"0x0806\", nor arp, ipv4, ipv6, lldp, bpdu, \
                 ptp, profinet or goose"
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
