use super::Pair;
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, ConnectionIds, CookiePolicy, Credential, Psk, PskStore,
    ServerConfig, Session, SessionSlots, Settings,
    crypto::{CipherSuiteId, rustcrypto},
    tuning,
};
use std::sync::Arc;
use std::time::Duration;

pub fn psk() -> Psk {
    Psk::external(b"Client_identity", &[0x1a; 32]).unwrap()
}

/// The connection IDs of an end that wants IDs of this length.
pub fn ids(bytes: Option<u8>) -> ConnectionIds {
    bytes.map_or(ConnectionIds::Off, ConnectionIds::of_bytes)
}

/// What a client's configuration is made from.
pub struct ClientParts {
    pub credential: Credential,
    pub session: Option<Session>,
    pub settings: Settings,
}

impl ClientParts {
    pub fn new(psk: Psk) -> Self {
        let settings = Settings::new(&rustcrypto::PROVIDER);
        Self { credential: psk.into(), session: None, settings }
    }

    pub fn config(self) -> Arc<ClientConfig> {
        let config = ClientConfig::with(self.credential, self.settings).unwrap();
        Arc::new(match self.session {
            Some(session) => config.with_session(session),
            None => config,
        })
    }
}

/// What a server's configuration is made from.
pub struct ServerParts {
    pub psks: Arc<dyn PskStore>,
    pub cookies: CookiePolicy,
    pub remembered_sessions: usize,
    pub slots: SessionSlots,
    pub send_half_rtt_data: bool,
    pub settings: Settings,
}

impl ServerParts {
    pub fn new(psks: Arc<dyn PskStore>) -> Self {
        Self {
            psks,
            cookies: CookiePolicy::default(),
            remembered_sessions: tuning::REMEMBERED_SESSIONS,
            slots: SessionSlots::default(),
            send_half_rtt_data: false,
            settings: Settings::new(&rustcrypto::PROVIDER),
        }
    }

    pub fn config(self) -> Arc<ServerConfig> {
        let config = ServerConfig::with(self.psks, self.settings)
            .unwrap()
            .with_cookies(self.cookies)
            .with_remembered_sessions(self.remembered_sessions)
            .with_slots(self.slots);
        Arc::new(if self.send_half_rtt_data { config.with_half_rtt_data() } else { config })
    }
}

pub struct Configs {
    pub client: ClientParts,
    pub server: ServerParts,
}

impl Configs {
    #[expect(clippy::new_without_default, reason = "it draws nothing from a default")]
    pub fn new() -> Self {
        Self { client: ClientParts::new(psk()), server: ServerParts::new(Arc::new(psk())) }
    }

    pub fn aggregated(scheme: &str) -> Self {
        let mut configs = Self::new();
        let policy = AggregationPolicy::both(scheme.parse().unwrap());
        configs.client.settings.aggregation = policy.clone();
        configs.server.settings.aggregation = policy;
        configs.waiting(Duration::from_millis(200))
    }

    /// Messages under shared tags wait this long, regardless of what the engines learn.
    pub fn waiting(mut self, most: Duration) -> Self {
        self.client.settings.max_wait = Some(most);
        self.server.settings.max_wait = Some(most);
        self
    }

    /// The engines determine by themselves how long messages under shared tags wait.
    pub fn learning(mut self) -> Self {
        self.client.settings.max_wait = None;
        self.server.settings.max_wait = None;
        self
    }

    pub fn suite(mut self, suite: CipherSuiteId) -> Self {
        self.client.settings.suites = vec![suite];
        self.server.settings.suites = vec![suite];
        self
    }

    pub fn pair<'a>(self, seed: u64) -> Pair<'a> {
        Pair::new(self.client.config(), self.server.config(), seed)
    }
}
