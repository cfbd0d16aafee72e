//! The kinds of handshakes, and whose timers retransmit.

use super::credential::{Credential, Ends};
use crate::Error;
use crate::lowpan::{FRAME_PAYLOAD, address};
use crate::world::NodeId;
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::{Engine, Instant, Output, Random, Sent};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup, rustcrypto};
use lightseal_dtls::{
    ClientConfig, Connection, ConnectionIds, CookiePolicy, Endpoint, KeyLog, Packing,
    ProtocolVersion, Settings,
};
use std::sync::Arc;

/// A kind of handshake.
#[derive(Debug)]
pub struct Profile {
    /// The name in scenario files and tables.
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    /// Whether tinydtls's timers retransmit instead of the engine's.
    pub tinydtls: bool,
    pub(super) start: InitialState,
    version: ProtocolVersion,
    credential: Credential,
    mode: PskKeyExchangeMode,
    /// Whether keys are exchanged with X25519MLKEM768 instead of X25519.
    ml_kem: bool,
    pub(super) cookie: bool,
    /// Whether the server may send data before it has received the client's Finished.
    half_rtt: bool,
    packing: Packing,
}

/// The state that the handshake of a client begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitialState {
    /// There was no association before.
    Fresh,
    /// The client has a ticket of an earlier association.
    Resumed,
    /// An association exists and goes on. The client has a new address, and its connection ID tells
    /// the server so.
    Moved,
}

const OURS_12: Profile = Profile {
    name: "1.2",
    about: "DTLS 1.2, PSK with CCM_8 and cookie, flights in as few datagrams as possible",
    tinydtls: false,
    start: InitialState::Fresh,
    version: ProtocolVersion::Dtls12,
    credential: Credential::Psk,
    mode: PskKeyExchangeMode::PSK_KE,
    ml_kem: false,
    cookie: true,
    half_rtt: false,
    packing: Packing::Full,
};

const RESUMED_12: Profile = Profile {
    name: "1.2-resumed",
    about: "DTLS 1.2 resumed with a ticket, with cookie",
    start: InitialState::Resumed,
    ..OURS_12
};

const OURS_13: Profile = Profile {
    name: "1.3",
    about: "DTLS 1.3, PSK without key exchange, CCM and cookie",
    version: ProtocolVersion::Dtls13,
    ..OURS_12
};

const HALF_RTT_13: Profile = Profile {
    name: "1.3-half-rtt",
    about: "1.3 whose server may send data after its own Finished, before the client's arrives",
    half_rtt: true,
    ..OURS_13
};

const DHE_13: Profile = Profile {
    name: "1.3-dhe",
    about: "DTLS 1.3, PSK with X25519, CCM and cookie",
    mode: PskKeyExchangeMode::PSK_DHE_KE,
    ..OURS_13
};

const RAW_KEYS_13: Profile = Profile {
    name: "1.3-raw-keys",
    about: "DTLS 1.3, raw public keys of both ends (ECDSA with P-256) with X25519, CCM and cookie",
    credential: Credential::RawKeys,
    ..DHE_13
};

const CERTIFICATES_13: Profile = Profile {
    name: "1.3-certificates",
    about: "DTLS 1.3, certificates of both ends (ECDSA with P-256) with X25519, CCM and cookie",
    credential: Credential::Certificates,
    ..DHE_13
};

const SERVER_CERTIFICATE_13: Profile = Profile {
    name: "1.3-server-certificate",
    about: "1.3-certificates whose client remains anonymous",
    credential: Credential::ServerCertificate,
    ..DHE_13
};

const ML_KEM_13: Profile = Profile {
    name: "1.3-raw-keys-ml-kem",
    about: "1.3-raw-keys with X25519MLKEM768",
    ml_kem: true,
    ..RAW_KEYS_13
};

const CERTIFICATES_12: Profile = Profile {
    name: "1.2-certificates",
    about: "DTLS 1.2, certificates of both ends (ECDSA with P-256) with X25519, CCM_8 and cookie",
    credential: Credential::Certificates,
    ..OURS_12
};

const TINYDTLS: Profile = Profile {
    name: "tinydtls",
    about: "DTLS 1.2, PSK with CCM_8 and cookie, one record in each datagram, tinydtls's timers",
    tinydtls: true,
    packing: Packing::RecordPerDatagram,
    ..OURS_12
};

/// The profile `with`, but without cookie.
const fn without_cookie(name: &'static str, about: &'static str, with: Profile) -> Profile {
    Profile { name, about, cookie: false, ..with }
}

/// The profiles that are known by name.
pub const PROFILES: &[Profile] = &[
    TINYDTLS,
    without_cookie("tinydtls-no-cookie", "tinydtls without cookie", TINYDTLS),
    OURS_12,
    without_cookie("1.2-no-cookie", "1.2 without cookie", OURS_12),
    RESUMED_12,
    without_cookie("1.2-resumed-no-cookie", "1.2-resumed without cookie", RESUMED_12),
    OURS_13,
    without_cookie("1.3-no-cookie", "1.3 without cookie", OURS_13),
    HALF_RTT_13,
    without_cookie("1.3-half-rtt-no-cookie", "1.3-half-rtt without cookie", HALF_RTT_13),
    DHE_13,
    without_cookie("1.3-dhe-no-cookie", "1.3-dhe without cookie", DHE_13),
    CERTIFICATES_12,
    RAW_KEYS_13,
    CERTIFICATES_13,
    SERVER_CERTIFICATE_13,
    ML_KEM_13,
    Profile {
        name: "cid",
        about: "no handshake: a DTLS 1.3 client with a new address continues by connection ID, and \
                its address is checked (RFC 9853); data that is lost stays lost",
        start: InitialState::Moved,
        ..OURS_13
    },
];

/// The deadline of a handshake. It is far longer than any handshake takes.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Length of connection IDs, in profiles that use them, in bytes.
const ID_BYTES: u8 = 4;

/// Settings of all ends of a run.
pub(crate) struct EndSettings {
    /// The first retransmission timeout of our own profiles.
    pub(crate) timeout: Duration,
    /// The longest datagram of our own profiles in bytes, if every frame is to be a datagram of its
    /// own.
    pub(crate) datagram_bytes: Option<usize>,
    pub(crate) key_log: Option<Arc<dyn KeyLog>>,
}

impl Profile {
    /// The profile with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// How many bytes a record of an association adds to a payload of 16 bytes.
    ///
    /// # Errors
    ///
    /// Fails when the engine refuses the profile.
    pub fn overhead_bytes(&self) -> Result<usize, Error> {
        const PAYLOAD: [u8; 16] = [0; 16];
        let end_settings = EndSettings { timeout: DEADLINE, datagram_bytes: None, key_log: None };
        let mut random = Random::insecure(1);
        let ends = [NodeId(1), NodeId(0)];
        let mut server = self.server(&end_settings, random.fork())?;
        let mut client =
            self.client(&end_settings, ends, &mut server, Instant::ZERO, random.fork())?;
        complete_handshake(&mut client, address(ends[0]), &mut server, address(ends[1]))?;
        let mut datagram = [0; 256];
        match client.send(Instant::ZERO, &PAYLOAD, &mut datagram) {
            Ok(Sent::Datagram { len, .. }) => Ok(len - PAYLOAD.len()),
            _ => Err(Error::Stream("a record was not sealed")),
        }
    }

    /// Whether the ends exchange keys: always where no pre-shared key makes them.
    fn exchanges_keys(&self) -> bool {
        let by_mode =
            self.version == ProtocolVersion::Dtls13 && self.mode == PskKeyExchangeMode::PSK_DHE_KE;
        by_mode || self.credential != Credential::Psk
    }

    /// Number of multiplications on an elliptic curve at each end.
    pub(super) fn curve_multiplications(&self) -> Ends<u32> {
        let exchange = if self.exchanges_keys() { 2 } else { 0 };
        let Ends { client, server } = self.credential.curve_multiplications();
        Ends { client: exchange + client, server: exchange + server }
    }

    /// Number of frames of the longest flight, if datagrams are as long as they may be.
    pub(super) fn flight_frames(&self) -> u32 {
        let bytes = match self.credential {
            Credential::Psk => return 2,
            Credential::RawKeys => 500,
            Credential::ServerCertificate => 800,
            Credential::Certificates => 1000,
        };
        (bytes + self.ml_kem_bytes() / 2).div_ceil(FRAME_PAYLOAD) as u32
    }

    /// The bytes that ML-KEM-768 adds to the two key shares.
    fn ml_kem_bytes(&self) -> usize {
        if self.ml_kem { 1184 + 1088 } else { 0 }
    }

    /// Number of frames of the client's longest hello and of the first message that answers it, if
    /// no datagram is longer than a frame's payload. Without a pre-shared key it is the number of
    /// frames of the hello and of the whole flight that answers it.
    pub(super) fn first_exchange_frames(&self) -> u32 {
        let hello = match (self.version, self.cookie, self.exchanges_keys()) {
            (ProtocolVersion::Dtls12, ..) | (_, false, false) => 2,
            (_, false, true) => 3,
            (_, true, _) => 4,
        };
        let answer = match (self.credential, self.exchanges_keys()) {
            (Credential::Psk, false) => 1,
            (Credential::Psk, true) => 2,
            // Headers take a third of each frame.
            _ => self.flight_frames() * 3 / 2,
        };
        hello + answer + (self.ml_kem_bytes() / 2).div_ceil(FRAME_PAYLOAD) as u32
    }

    fn settings(&self, end_settings: &EndSettings) -> Settings {
        let mut settings = Settings::new(&rustcrypto::PROVIDER);
        settings.versions = vec![self.version];
        let suite = match (self.version, self.credential) {
            (ProtocolVersion::Dtls12, Credential::Psk) => CipherSuiteId::PSK_WITH_AES_128_CCM_8,
            (ProtocolVersion::Dtls12, _) => CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM_8,
            (ProtocolVersion::Dtls13, _) => CipherSuiteId::AES_128_CCM_SHA256,
        };
        settings.suites = vec![suite];
        if self.ml_kem {
            settings.groups = vec![NamedGroup::X25519_MLKEM768];
        }
        settings.psk_modes = vec![self.mode];
        settings.packing = self.packing;
        settings.handshake_deadline = DEADLINE;
        settings.initial_timeout = end_settings.timeout;
        settings.key_log = end_settings.key_log.clone();
        settings.resumption = self.start == InitialState::Resumed;
        settings.session_tickets = settings.resumption;
        settings.connection_ids = match self.start {
            InitialState::Moved => ConnectionIds::Bytes(ID_BYTES),
            InitialState::Fresh | InitialState::Resumed => ConnectionIds::Off,
        };
        // With connection IDs of any length, the smallest datagram size that may be set is larger
        // than a frame.
        let own = !self.tinydtls && !settings.connection_ids.are_negotiated();
        if let Some(bytes) = end_settings.datagram_bytes.filter(|_| own) {
            settings.datagram_bytes = bytes;
        }
        if self.tinydtls {
            // The timers of tinydtls retransmit, so the engine's own must never expire.
            settings.require_extended_master_secret = false;
            settings.initial_timeout = DEADLINE;
        }
        settings
    }

    pub(crate) fn server(
        &self,
        end_settings: &EndSettings,
        random: Random,
    ) -> Result<Endpoint, Error> {
        let cookies = if self.cookie { CookiePolicy::Always } else { CookiePolicy::WhenRetrying };
        let config = self.credential.server(self.settings(end_settings))?.with_cookies(cookies);
        let config = if self.half_rtt { config.with_half_rtt_data() } else { config };
        Ok(Endpoint::server(Arc::new(config), random))
    }

    /// The configuration of this profile's clients.
    pub(crate) fn client_config(&self, end_settings: &EndSettings) -> Result<ClientConfig, Error> {
        self.credential.client(self.settings(end_settings))
    }

    /// A client that begins at `start`. If the profile resumes or continues an association, that
    /// association with `server` is made first.
    pub(super) fn client(
        &self,
        end_settings: &EndSettings,
        [me, server]: [NodeId; 2],
        endpoint: &mut Endpoint,
        start: Instant,
        mut random: Random,
    ) -> Result<Connection, Error> {
        let mut config = self.client_config(end_settings)?;
        let connect = |config: &ClientConfig, at, random| {
            let config = Arc::new(config.clone());
            Connection::client(config, address(server), at, random)
        };
        // The earlier association used another port of the same node.
        let mut before = address(me);
        before.set_port(before.port() + 1);
        match self.start {
            InitialState::Fresh => {}
            InitialState::Resumed => {
                let mut older = connect(&config, Instant::ZERO, random.fork());
                complete_handshake(&mut older, before, endpoint, address(server))?;
                if let Some(session) = older.session() {
                    config = config.with_session(session);
                }
                older.close(Instant::ZERO);
                let _ = complete_handshake(&mut older, before, endpoint, address(server));
            }
            InitialState::Moved => {
                let mut client = connect(&config, Instant::ZERO, random.fork());
                complete_handshake(&mut client, before, endpoint, address(server))?;
                return Ok(client);
            }
        }
        Ok(connect(&config, start, random))
    }
}

/// Exchanges datagrams between two ends, at time zero and without loss, until neither has any to
/// send.
fn complete_handshake(
    client: &mut Connection,
    me: SocketAddr,
    server: &mut Endpoint,
    there: SocketAddr,
) -> Result<(), Error> {
    let mut buf = vec![0; 2048];
    loop {
        let mut is_quiet = true;
        while let Some(mut datagram) = next(client, &mut buf) {
            server.handle_datagram(Instant::ZERO, me, &mut datagram);
            is_quiet = false;
        }
        while let Some(mut datagram) = next(server, &mut buf) {
            client.handle_datagram(Instant::ZERO, there, &mut datagram);
            is_quiet = false;
        }
        if is_quiet {
            let is_met = client.is_connected();
            return is_met.then_some(()).ok_or(Error::Stream("a first handshake has failed"));
        }
    }
}

/// The next datagram of an engine. Events before it are discarded.
fn next<E: Engine>(engine: &mut E, buf: &mut [u8]) -> Option<Vec<u8>> {
    loop {
        match engine.poll_output(buf) {
            Output::Datagram { payload, .. } => return Some(payload.to_vec()),
            Output::Event(_) => {}
            Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
            Output::WakeAt(_) | Output::Idle => return None,
        }
    }
}
