//! What the ends of the images negotiate: AES-CCM, with a pre-shared key and no key exchange unless
//! their settings say otherwise.

use crate::machine::fail;
#[cfg(any(feature = "client", feature = "server"))]
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use lightseal_aes_table::Aes128;
#[cfg(all(feature = "certificates", feature = "server"))]
use lightseal_dtls::ClientAuthentication;
#[cfg(feature = "client")]
use lightseal_dtls::ClientConfig;
#[cfg(feature = "server")]
use lightseal_dtls::ServerConfig;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::groups::p256::P256;
use lightseal_dtls::crypto::suites::ccm::{AggregatedCcm, Ccm};
use lightseal_dtls::crypto::suites::mask::BlockMask;
use lightseal_dtls::crypto::{
    CipherSuite, CipherSuite12, CipherSuiteId, Keying, Limits, Provider, rustcrypto,
};
use lightseal_dtls::{AggregationPolicy, ProtocolVersion, Psk, Scheme, Settings};

/// The address of either end; the images have no network.
pub const PEER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5684));
/// The bytes of a record's payload.
pub const PAYLOAD: usize = 32;
/// The records that are sealed and opened after a handshake. The second half is reported: whole
/// sets of every scheme.
pub const RECORDS: usize = 32;
/// The number of sessions that are opened one after another. All together take far more than 32 KB.
pub const SESSIONS: u16 = 100;

/// AES-128-CCM with 8-byte tags, over the AES of devices without a data cache.
pub(crate) static AES_128_CCM_8: CipherSuite = CipherSuite::new(
    CipherSuiteId::AES_128_CCM_8_SHA256,
    "TLS_AES_128_CCM_8_SHA256",
    Limits::CCM_8,
    Keying::Aead(Ccm::<Aes128, 8>::protection),
    rustcrypto::AES_128_CCM_8.known_answer,
)
.with_tag_len(8);
/// AES-128-CCM, whose tags can be shared.
static AES_128_CCM: CipherSuite = CipherSuite::new(
    CipherSuiteId::AES_128_CCM_SHA256,
    "TLS_AES_128_CCM_SHA256",
    Limits::CCM,
    Keying::Prf {
        plain: Ccm::<Aes128, 16>::protection,
        aggregated: AggregatedCcm::<Aes128>::protection,
        pad: Some(BlockMask::<Aes128>::short_records),
    },
    rustcrypto::AES_128_CCM.known_answer,
);
/// The suites of DTLS 1.2, if this image has them.
#[cfg(any(feature = "dtls12", feature = "group-axiom"))]
pub(crate) static SUITES_12: &[&CipherSuite12] = {
    static PSK_WITH_AES_128_CCM_8: CipherSuite12 =
        rustcrypto::PSK_WITH_AES_128_CCM_8.with_aead(Ccm::<Aes128, 8>::aead);
    &[&PSK_WITH_AES_128_CCM_8]
};
#[cfg(not(any(feature = "dtls12", feature = "group-axiom")))]
pub(crate) static SUITES_12: &[&CipherSuite12] = &[];

/// A provider that has what the settings of one image name, and nothing else, so that nothing else
/// is linked.
pub static CCM_8_13: Provider = Provider::new("CCM_8").with_suites(&[&AES_128_CCM_8]);
/// The suite of DTLS 1.2, if this image has it.
pub static CCM_8_12: Provider = Provider::new("CCM_8").with_suites_12(SUITES_12);
static CCM_8: Provider =
    Provider::new("CCM_8").with_suites(&[&AES_128_CCM_8]).with_suites_12(SUITES_12);
static CCM: Provider = Provider::new("CCM").with_suites(&[&AES_128_CCM]);
static CCM_8_P256: Provider =
    Provider::new("CCM_8 and P-256").with_suites(&[&AES_128_CCM_8]).with_groups(&[&P256]);

const SUITE_13: CipherSuiteId = CipherSuiteId::AES_128_CCM_8_SHA256;
const SUITE_12: CipherSuiteId = CipherSuiteId::PSK_WITH_AES_128_CCM_8;

fn with(
    provider: &'static Provider,
    versions: &[ProtocolVersion],
    suites: &[CipherSuiteId],
) -> Settings {
    let mut settings = Settings::new(provider);
    settings.versions = versions.to_vec();
    settings.suites = suites.to_vec();
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    settings
}

/// DTLS 1.3 with this provider's suite.
fn with_13(provider: &'static Provider, suite: CipherSuiteId) -> Settings {
    with(provider, &[ProtocolVersion::Dtls13], &[suite])
}

/// DTLS 1.3 with AES_128_CCM_8.
pub fn dtls13() -> Settings {
    with_13(&CCM_8_13, SUITE_13)
}

/// DTLS 1.3 with AES_128_CCM_8, for associations that sleep as soon as they have nothing to do.
#[cfg(feature = "sleep")]
pub fn dtls13_asleep() -> Settings {
    let mut settings = dtls13();
    settings.sleep_after = Some(Duration::ZERO);
    settings
}

/// DTLS 1.3 with AES_128_CCM_8, and a key exchange over P-256 besides the pre-shared key.
pub fn dtls13_p256() -> Settings {
    let mut settings = with_13(&CCM_8_P256, SUITE_13);
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE];
    settings
}

/// DTLS 1.3 with AES_128_CCM_8, where both ends have raw public keys of P-256 and know each other's.
#[cfg(feature = "certificates")]
pub fn raw_keys() -> Settings {
    with_13(&raw::CCM_8_RAW_KEYS, SUITE_13)
}

/// DTLS 1.2 with AES_128_CCM_8.
pub fn dtls12() -> Settings {
    with(&CCM_8_12, &[ProtocolVersion::Dtls12], &[SUITE_12])
}

/// Both versions with AES_128_CCM_8.
pub fn both_versions() -> Settings {
    let versions = [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];
    with(&CCM_8, &versions, &[SUITE_13, SUITE_12])
}

/// DTLS 1.3 with AES_128_CCM, whose tags can be shared; this end sends or receives, or does both,
/// under a scheme.
fn aggregated(send: Option<Scheme>, receive: Option<Scheme>) -> Settings {
    let schemes = |scheme: Option<Scheme>| scheme.map_or_else(Vec::new, |scheme| vec![scheme]);
    let mut settings = with_13(&CCM, CipherSuiteId::AES_128_CCM_SHA256);
    settings.aggregation = AggregationPolicy::new(schemes(send), schemes(receive));
    // A stream of records, not a question whose answer is awaited: no set is closed early.
    settings.max_wait = Some(Duration::from_millis(200));
    settings
}

/// One tag for 16 records.
const AGG: Option<Scheme> = Scheme::agg(16);
/// A tag of 24 bits in each record.
const R2D2: Option<Scheme> = Scheme::r2d2(50);

/// Plain tags, with the suite that the settings below have.
pub fn ccm() -> Settings {
    with_13(&CCM, CipherSuiteId::AES_128_CCM_SHA256)
}

/// Sends under Agg(16).
pub fn agg_sender() -> Settings {
    aggregated(AGG, None)
}

/// Receives under Agg(16).
pub fn agg_receiver() -> Settings {
    aggregated(None, AGG)
}

/// Sends under R2D2.
pub fn r2d2_sender() -> Settings {
    aggregated(R2D2, None)
}

/// Receives under R2D2.
pub fn r2d2_receiver() -> Settings {
    aggregated(None, R2D2)
}

/// Sends and receives under Agg(16).
pub fn agg_both() -> Settings {
    aggregated(AGG, AGG)
}

/// Sends and receives under R2D2.
pub fn r2d2_both() -> Settings {
    aggregated(R2D2, R2D2)
}

/// Sends under R2D2 or Agg(16), whichever the peer receives.
pub fn senders() -> Settings {
    let mut settings = aggregated(R2D2, None);
    settings.aggregation.send.extend(AGG);
    settings
}

/// The least bytes of payload that an end with these settings must have received in the end. Under
/// shared tags, what the last records carried may still wait for its verdict.
pub fn least_received(settings: &Settings) -> usize {
    if settings.aggregation.receive.is_empty() { RECORDS * PAYLOAD } else { PAYLOAD }
}

/// Keys of both ends.
#[cfg(feature = "certificates")]
mod raw {
    use super::{AES_128_CCM_8, P256};
    use crate::machine::fail;
    use alloc::sync::Arc;
    use alloc::vec;
    use lightseal_dtls::crypto::signatures::p256::{ECDSA_SECP256R1_SHA256, EcdsaP256Key};
    use lightseal_dtls::crypto::{Hash, Provider, Sha256, SigningKey};
    use lightseal_dtls::{CertifiedKey, PinnedKeys, Settings};

    pub(super) static CCM_8_RAW_KEYS: Provider = Provider::new("CCM_8, P-256 and ECDSA")
        .with_suites(&[&AES_128_CCM_8])
        .with_groups(&[&P256])
        .with_signatures(&[&ECDSA_SECP256R1_SHA256]);

    /// Whether the ends have these keys instead of a pre-shared one.
    pub(super) fn are_used(settings: &Settings) -> bool {
        core::ptr::eq(settings.provider, &CCM_8_RAW_KEYS)
    }

    fn key(number: u8) -> EcdsaP256Key {
        match EcdsaP256Key::from_scalar(&[number; 32]) {
            Ok(key) => key,
            Err(_) => fail("the key is not valid"),
        }
    }

    /// The key of an end, and the key of its peer.
    pub(super) fn own_and_pinned(own: u8, peer: u8) -> (Arc<CertifiedKey>, Arc<PinnedKeys>) {
        let mut pin = [0; 32];
        Hash::digest(&Sha256, &[key(peer).public_key()], &mut pin);
        (Arc::new(CertifiedKey::raw(Arc::new(key(own)))), Arc::new(PinnedKeys::new(vec![pin])))
    }
}

#[cfg(any(feature = "client", feature = "server"))]
fn psk() -> Psk {
    match Psk::external(b"sensor 7", &[0x2a; 32]) {
        Ok(psk) => psk,
        Err(_) => fail("the key is not valid"),
    }
}

/// A client's configuration.
#[cfg(feature = "client")]
pub fn client(settings: Settings) -> Arc<ClientConfig> {
    #[cfg(feature = "certificates")]
    if raw::are_used(&settings) {
        let (own, server) = raw::own_and_pinned(1, 2);
        let config = ClientConfig::verifying(server, settings);
        return match config.and_then(|config| config.with_keys(own)) {
            Ok(config) => Arc::new(config),
            Err(_) => fail("the client's settings are not valid"),
        };
    }
    match ClientConfig::with(psk(), settings) {
        Ok(config) => Arc::new(config),
        Err(_) => fail("the client's settings are not valid"),
    }
}

/// A server's configuration.
#[cfg(feature = "server")]
pub fn server(settings: Settings) -> Arc<ServerConfig> {
    #[cfg(feature = "certificates")]
    if raw::are_used(&settings) {
        let (own, client) = raw::own_and_pinned(2, 1);
        let clients = ClientAuthentication::Required(client);
        let config = ServerConfig::certified(own, settings);
        return match config.and_then(|config| config.with_client_authentication(clients)) {
            Ok(config) => Arc::new(config),
            Err(_) => fail("the server's settings are not valid"),
        };
    }
    match ServerConfig::with(Arc::new(psk()), settings) {
        Ok(config) => Arc::new(config),
        Err(_) => fail("the server's settings are not valid"),
    }
}
