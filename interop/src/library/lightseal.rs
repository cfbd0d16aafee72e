//! Lightseal as a peer.

use super::{End, Settings};
use crate::ours::Ours;
use crate::peers::{Role, Version};
use lightseal_core::{Instant, Random};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_dtls::{ClientConfig, CookiePolicy, Packing, Psk, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;

/// One end of a connection by Lightseal.
///
/// # Errors
/// The settings that do not fit.
pub fn end(role: Role, settings: &Settings, address: SocketAddr) -> Result<Ours, String> {
    let text = |error: lightseal_dtls::ConfigError| error.to_string();
    let psk = Psk::external(&settings.identity, &settings.key).map_err(text)?;
    let mut common = lightseal_dtls::Settings::new(&rustcrypto::PROVIDER).map_err(text)?;
    common.suites = vec![CipherSuiteId(settings.suite.code())];
    if settings.suite.version() == Version::Dtls13 {
        common.psk_modes = vec![if settings.suite.is_ephemeral() {
            PskKeyExchangeMode::PSK_DHE_KE
        } else {
            PskKeyExchangeMode::PSK_KE
        }];
    }
    let cid = settings.cid.map(u8::try_from).transpose();
    common.connection_id = cid.map_err(|_| "too long for a connection ID")?;
    // None of these peers knows the return routability check of RFC 9853.
    common.unchecked_address_change = true;
    if settings.single {
        common.packing = Packing::RecordPerMessage;
    }
    common.check().map_err(text)?;
    let seed = seed();
    Ok(match role {
        Role::Client => Ours::client(ClientConfig::with(psk, common), address, Instant::ZERO, seed),
        Role::Server => {
            let mut config = ServerConfig::with(Arc::new(psk), common);
            config.cookies = CookiePolicy::Always;
            Ours::server(config, seed)
        }
    })
}

/// A seed that is different in each process.
fn seed() -> u64 {
    let mut random = Random::insecure(u64::from(std::process::id()));
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

impl End for Ours {
    fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), String> {
        Self::send(self, now, payload).map_err(|error| error.to_string())
    }
}
