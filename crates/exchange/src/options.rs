//! What is exchanged, as words of a command line.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::{format, vec};
use core::fmt::Display;
use core::num::NonZeroUsize;
use core::str::FromStr;
use core::time::Duration;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, Provider, rustcrypto};
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, ConfigError, ConnectionIds, ProtocolVersion, Psk, Scheme,
    ServerConfig, SessionSlots, Settings, WhenFull,
};

/// The suites of small devices: a PSK, and AES-CCM with 8-byte tags; with 16-byte tags where records
/// share tags.
pub(crate) static PROVIDER: Provider = Provider::new("exchange")
    .with_suites(&[&rustcrypto::AES_128_CCM_8, &rustcrypto::AES_128_CCM])
    .with_suites_12(&[&rustcrypto::PSK_WITH_AES_128_CCM_8]);

/// The PSK that both ends of an exchange know. It protects nothing else.
const KEY: [u8; 16] = *b"exchange of test";

/// Buffers that suffice for the rounds of a client, also on a board. In bytes.
const BUFFER_BYTES: usize = 16 * 1024;

/// How many associations a server keeps. A client makes them one after the other.
const SLOTS: NonZeroUsize = NonZeroUsize::new(4).expect("it is not zero");

/// What is exchanged, and under which conditions.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of DTLS: `version=1.3` or `version=1.2`.
    pub version: ProtocolVersion,
    /// The number of associations that the client makes: `handshakes=1`.
    pub handshakes: u32,
    /// The number of payloads in each association: `payloads=4`.
    pub payloads: u16,
    /// The length of each payload in bytes: `bytes=32`.
    pub bytes: usize,
    /// The aggregation scheme of both directions: `scheme=off`, `scheme=agg:8`.
    pub scheme: Scheme,
    /// The length of each end's connection IDs in bytes, zero for none: `ids=0`.
    pub ids: u8,
    /// Whether the client changes its UDP port in the middle of each association: `move=false`.
    pub moves: bool,
    /// How many of 1000 datagrams are lost in each direction, at the end with this option: `loss=0`.
    pub loss: u32,
    /// The seed of all randomness of this end: `seed=1`.
    pub seed: u64,
    /// The first retransmission timeout, and how long a client waits for echoes before it sends
    /// payloads again: `timeout=1000`, in milliseconds.
    pub timeout: Duration,
    /// A handshake is given up after this time: `deadline=60000`, in milliseconds.
    pub deadline: Duration,
    /// A server that has made all associations stops when it has heard nothing for this time:
    /// `quiet=2000`, in milliseconds.
    pub quiet: Duration,
    /// Whether an association that failed is counted but does not make the exchange fail, because
    /// somebody alters datagrams: `attacked=false`.
    pub attacked: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: ProtocolVersion::Dtls13,
            handshakes: 1,
            payloads: 4,
            bytes: 32,
            scheme: Scheme::Plain,
            ids: 0,
            moves: false,
            loss: 0,
            seed: 1,
            timeout: Duration::from_secs(1),
            deadline: Duration::from_secs(60),
            quiet: Duration::from_secs(2),
            attacked: false,
        }
    }
}

impl Options {
    /// Sets the option of a word such as `loss=100`. Returns whether an option has this name.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "version" => self.version = version(value)?,
            "handshakes" => self.handshakes = parse(value)?,
            "payloads" => self.payloads = parse(value)?,
            "bytes" => self.bytes = parse(value)?,
            "scheme" => self.scheme = parse(value)?,
            "ids" => self.ids = parse(value)?,
            "move" => self.moves = parse(value)?,
            "loss" => self.loss = parse(value)?,
            "seed" => self.seed = parse(value)?,
            "timeout" => self.timeout = Duration::from_millis(parse(value)?),
            "deadline" => self.deadline = Duration::from_millis(parse(value)?),
            "quiet" => self.quiet = Duration::from_millis(parse(value)?),
            "attacked" => self.attacked = parse(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Settings that both ends have.
    fn settings(&self) -> Settings {
        let mut settings = Settings::new(&PROVIDER);
        settings.versions = vec![self.version];
        settings.suites = match self.version {
            ProtocolVersion::Dtls12 => vec![CipherSuiteId::PSK_WITH_AES_128_CCM_8],
            ProtocolVersion::Dtls13 if self.scheme.aggregates() => {
                vec![CipherSuiteId::AES_128_CCM_SHA256]
            }
            ProtocolVersion::Dtls13 => vec![CipherSuiteId::AES_128_CCM_8_SHA256],
        };
        settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
        if self.scheme.aggregates() {
            settings.aggregation = AggregationPolicy::both(self.scheme);
        }
        if self.ids > 0 {
            settings.connection_ids = ConnectionIds::Bytes(self.ids);
        }
        settings.resumption = false;
        settings.initial_timeout = self.timeout;
        settings.handshake_deadline = self.deadline;
        settings.receive_buffer_bytes = BUFFER_BYTES;
        settings.send_buffer_bytes = BUFFER_BYTES;
        settings
    }

    /// The configuration of a client.
    ///
    /// # Errors
    /// The options do not go together.
    pub fn client(&self) -> Result<Arc<ClientConfig>, ConfigError> {
        let psk = Psk::external(b"exchange", &KEY)?;
        ClientConfig::with(psk, self.settings()).map(Arc::new)
    }

    /// The configuration of a server.
    ///
    /// # Errors
    /// The options do not go together.
    pub fn server(&self) -> Result<Arc<ServerConfig>, ConfigError> {
        let psk = Psk::external(b"exchange", &KEY)?;
        let config = ServerConfig::with(Arc::new(psk), self.settings())?;
        Ok(Arc::new(config.with_slots(SessionSlots::at_most(SLOTS, WhenFull::EvictOldest))))
    }
}

/// Reads a value.
///
/// # Errors
/// The value is invalid; the error names it.
pub fn parse<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| format!("{value}: {error}"))
}

fn version(value: &str) -> Result<ProtocolVersion, String> {
    match value {
        "1.2" => Ok(ProtocolVersion::Dtls12),
        "1.3" => Ok(ProtocolVersion::Dtls13),
        _ => Err(format!("{value}: not a version of DTLS")),
    }
}
