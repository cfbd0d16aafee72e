use super::Pair;
use lightseal_dtls::{
    AggregationPolicy, CertificateVerifier, ClientAuthentication, ClientConfig, ConnectionIds,
    CookiePolicy, KeyStore, Psk, PskStore, ServerConfig, Session, SessionSlots, Settings,
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
    pub psk: Option<Psk>,
    pub verifier: Option<Arc<dyn CertificateVerifier>>,
    /// Keys of the client, which needs a verifier as well.
    pub keys: Option<Arc<dyn KeyStore>>,
    pub server_name: Option<String>,
    pub session: Option<Session>,
    pub settings: Settings,
}

impl ClientParts {
    pub fn new(psk: Psk) -> Self {
        let settings = Settings::new(&rustcrypto::PROVIDER);
        Self {
            psk: Some(psk),
            verifier: None,
            keys: None,
            server_name: None,
            session: None,
            settings,
        }
    }

    pub fn config(self) -> Arc<ClientConfig> {
        let mut config = match (self.psk, &self.verifier) {
            (Some(psk), _) => ClientConfig::with(psk, self.settings).unwrap(),
            (None, Some(verifier)) => {
                ClientConfig::verifying(Arc::clone(verifier), self.settings).unwrap()
            }
            (None, None) => panic!("a client needs a PSK or a verifier"),
        };
        if let Some(verifier) = self.verifier {
            config = config.with_verifier(verifier).unwrap();
        }
        if let Some(keys) = self.keys {
            config = config.with_keys(keys).unwrap();
        }
        if let Some(name) = self.server_name {
            config = config.with_server_name(&name).unwrap();
        }
        Arc::new(match self.session {
            Some(session) => config.with_session(session),
            None => config,
        })
    }
}

/// What a server's configuration is made from.
pub struct ServerParts {
    pub psks: Arc<dyn PskStore>,
    pub keys: Option<Arc<dyn KeyStore>>,
    /// Whether clients are asked for certificates; a server that asks needs keys.
    pub clients: ClientAuthentication,
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
            keys: None,
            clients: ClientAuthentication::Off,
            cookies: CookiePolicy::default(),
            remembered_sessions: tuning::REMEMBERED_SESSIONS,
            slots: SessionSlots::default(),
            send_half_rtt_data: false,
            settings: Settings::new(&rustcrypto::PROVIDER),
        }
    }

    pub fn config(self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::with(self.psks, self.settings).unwrap();
        if let Some(keys) = self.keys {
            config = config.with_keys(keys).unwrap();
            config = config.with_client_authentication(self.clients).unwrap();
        }
        let config = config
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
