//! The configurations of two ends, and the network between them: one with a latency of one
//! millisecond, whose behaviour an attacker chooses.

use crate::credentials::Credentials;
use lightseal_core::{Decode, Instant, Reader};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, Provider, rustcrypto};
use lightseal_dtls::record::PlaintextHeader;
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, CookiePolicy, Delivery, Scheme, ServerConfig, Settings,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Fate, LoggedSecrets, Pair};

/// Every cipher suite of DTLS 1.3 of the portable provider.
pub const SUITES: [CipherSuiteId; 6] = [
    CipherSuiteId::AES_128_GCM_SHA256,
    CipherSuiteId::CHACHA20_POLY1305_SHA256,
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::AES_128_CCM_8_SHA256,
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

/// Suites of DTLS 1.3 whose tags may be aggregated.
pub const PRF_SUITES: [CipherSuiteId; 3] = [
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

/// The configuration of two ends.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The provider of the cryptography.
    pub provider: &'static Provider,
    /// The only cipher suite offered.
    pub suite: CipherSuiteId,
    /// The aggregation scheme of both directions.
    pub scheme: Scheme,
    /// Another scheme that both ends accept, to which an update may lead; none if it is
    /// [`Scheme::Plain`].
    pub also: Scheme,
    /// The only PSK key exchange mode offered.
    pub mode: PskKeyExchangeMode,
    /// When the server demands a cookie, which causes a HelloRetryRequest.
    pub cookies: CookiePolicy,
    /// When data whose tags are shared is delivered.
    pub delivery: Delivery,
    /// What the ends prove their identities with.
    pub credentials: Credentials,
}

impl core::fmt::Debug for Setup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{:?} {:?} {} {:?} {:?}",
            self.credentials, self.suite, self.scheme, self.mode, self.cookies
        )
    }
}

impl Setup {
    /// A setup of `suite` with `scheme`, a PSK without key exchange, and a cookie.
    pub const fn new(suite: CipherSuiteId, scheme: Scheme) -> Self {
        Self {
            provider: &rustcrypto::PROVIDER,
            suite,
            scheme,
            also: Scheme::Plain,
            mode: PskKeyExchangeMode::PSK_KE,
            cookies: CookiePolicy::Always,
            delivery: Delivery::Verified,
            credentials: Credentials::Psk,
        }
    }

    /// Setups of every suite with plain tags, of suites that allow it with aggregated tags, and one
    /// with a key exchange.
    pub fn all() -> Vec<Self> {
        let plain = SUITES.into_iter().map(|suite| Self::new(suite, Scheme::Plain));
        let schemes = [Scheme::agg(2), Scheme::agg(8), Scheme::r2d2(200), Scheme::r2d2(50)];
        let aggregated = PRF_SUITES
            .into_iter()
            .cycle()
            .zip(schemes)
            .filter_map(|(suite, scheme)| Some(Self::new(suite, scheme?)));
        let exchange = Self {
            mode: PskKeyExchangeMode::PSK_DHE_KE,
            cookies: CookiePolicy::WhenRetrying,
            ..Self::new(CipherSuiteId::AES_128_GCM_SHA256, Scheme::Plain)
        };
        plain.chain(aggregated).chain([exchange]).collect()
    }

    /// Setups of DTLS 1.2: a PSK alone with a cookie, and a key exchange without one.
    pub fn older() -> Vec<Self> {
        let new = |suite| Self::new(suite, Scheme::Plain);
        let exchange = Self {
            cookies: CookiePolicy::WhenRetrying,
            ..new(CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256)
        };
        vec![new(CipherSuiteId::PSK_WITH_AES_128_CCM_8), exchange]
    }

    /// Setups with certificates and raw public keys, in both versions.
    pub fn certified() -> Vec<Self> {
        let suites =
            [CipherSuiteId::AES_128_CCM_SHA256, CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM];
        let setups = Credentials::CERTIFIED.into_iter().flat_map(|credentials| {
            suites.map(|suite| Self {
                provider: credentials.provider(),
                credentials,
                ..Self::new(suite, Scheme::Plain)
            })
        });
        setups.collect()
    }

    fn settings(&self, secrets: &LoggedSecrets) -> Settings {
        let mut settings = defaults();
        settings.provider = self.provider;
        settings.suites = vec![self.suite];
        settings.psk_modes = vec![self.mode];
        if self.scheme.aggregates() {
            let mut schemes = vec![self.scheme, self.also];
            schemes.retain(|scheme| scheme.aggregates());
            settings.aggregation = AggregationPolicy::new(schemes.clone(), schemes);
        }
        settings.delivery = self.delivery;
        settings.key_log = Some(secrets.log());
        settings
    }

    /// Two ends that have not sent anything yet. `seed` determines everything.
    pub fn pair<'a>(&self, seed: u64) -> Pair<'a> {
        let secrets = LoggedSecrets::default();
        let (client, server) = self.credentials.configs(self.settings(&secrets));
        let mut pair = pair(client, server.with_cookies(self.cookies), seed);
        pair.secrets = secrets;
        pair
    }
}

/// The address of the client.
pub fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 40_000).into()
}

pub(crate) fn server_address() -> SocketAddr {
    ([192, 0, 2, 2], 5684).into()
}

/// Two ends over a network that only delays.
pub(crate) fn pair<'a>(client: ClientConfig, server: ServerConfig, seed: u64) -> Pair<'a> {
    let addresses = (client_address(), server_address());
    let begin = Instant::from_micros(1_000_000);
    Pair::between(addresses, begin, Arc::new(client), Arc::new(server), seed)
        .with_rule(|_, _, datagram| pass(datagram))
}

/// Delivers a datagram after the network's latency.
pub(crate) fn pass(datagram: &[u8]) -> Fate {
    arriving([datagram.to_vec()])
}

/// Delivers these datagrams after the network's latency.
pub(crate) fn arriving(copies: impl IntoIterator<Item = Vec<u8>>) -> Fate {
    copies.into_iter().map(|copy| (LATENCY, copy)).collect()
}

const LATENCY: Duration = Duration::from_millis(1);

/// The default settings with the portable provider.
pub(crate) fn defaults() -> Settings {
    Settings::new(&rustcrypto::PROVIDER)
}

/// Length in bytes of the unprotected records at the beginning of a datagram.
pub fn clear_len(datagram: &[u8]) -> usize {
    let mut r = Reader::new(datagram);
    let mut len = 0;
    while let Ok(header) = PlaintextHeader::read(&mut r) {
        if r.take(header.length.into()).is_err() {
            break;
        }
        len = datagram.len() - r.rest().len();
    }
    len
}
