//! Lightseal as a peer.

use super::{End, Settings};
use crate::ours::Ours;
use crate::peers::{Role, Version};
use lightseal_core::{Instant, Random};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_dtls::{ClientConfig, ConnectionIds, CookiePolicy, Packing, Psk, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;

/// One end of a connection by Lightseal.
///
/// # Errors
/// The settings that do not fit.
pub fn end(role: Role, settings: &Settings, address: SocketAddr) -> Result<Ours, String> {
    let text = |error: lightseal_dtls::ConfigError| error.to_string();
    let psk = Psk::external(&settings.identity, &settings.key).map_err(text)?;
    let mut common = lightseal_dtls::Settings::new(&rustcrypto::PROVIDER);
    common.suites = vec![CipherSuiteId(settings.suite.code())];
    if settings.suite.version() == Version::Dtls13 {
        common.psk_modes = vec![if settings.suite.is_ephemeral() {
            PskKeyExchangeMode::PSK_DHE_KE
        } else {
            PskKeyExchangeMode::PSK_KE
        }];
    }
    let cid = settings.cid.map(u8::try_from).transpose();
    let cid = cid.map_err(|_| "too long for a connection ID")?;
    common.connection_ids = cid.map_or(ConnectionIds::Off, ConnectionIds::of_bytes);
    // None of these peers knows the return routability check of RFC 9853.
    common.unchecked_address_change = true;
    if settings.single {
        common.packing = Packing::RecordPerMessage;
    }
    let seed = seed();
    Ok(match role {
        Role::Client => {
            let config = ClientConfig::with(psk, common).map_err(text)?;
            Ours::client(config, address, Instant::ZERO, seed)
        }
        Role::Server => {
            let config = ServerConfig::with(Arc::new(psk), common).map_err(text)?;
            Ours::server(config.with_cookies(CookiePolicy::Always), seed)
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
