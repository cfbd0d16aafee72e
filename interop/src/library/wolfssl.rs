//! wolfSSL as a peer.

use super::{End, Settings};
use crate::driven::Driven;
use crate::peers::{Role, Suite};
use crate::wolfssl::{self, Context, Group, Mode};
use lightseal_core::Instant;
use std::net::SocketAddr;

/// One end of a connection by wolfSSL.
///
/// # Errors
/// The settings that do not fit.
pub fn end(role: Role, settings: &Settings, address: SocketAddr) -> Result<Driven, String> {
    let suite = suite(settings.suite).ok_or("not a suite of this peer")?;
    let mode = if settings.suite.is_ephemeral() { Mode::PskWith(Group::X25519) } else { Mode::Psk };
    let (identity, key) = (settings.identity.clone(), settings.key.clone());
    let cid = settings.cid;
    let settings = wolfssl::Settings { suite, mode, cookie: true, identity, key };
    Ok(match role {
        Role::Client => Driven::client(
            &Context::with_cid(wolfssl::Role::Client, &settings, cid),
            address,
            Instant::ZERO,
        ),
        Role::Server => Driven::server(&Context::with_cid(wolfssl::Role::Server, &settings, cid)),
    })
}

/// wolfSSL's name of a suite; `None` if it does not have the suite.
pub const fn suite(suite: Suite) -> Option<wolfssl::Suite> {
    match suite {
        Suite::KeCcm8 | Suite::DheKeCcm8 => Some(wolfssl::Suite::Aes128Ccm8),
        Suite::KeCcm | Suite::DheKeCcm => Some(wolfssl::Suite::Aes128Ccm),
        Suite::KeGcm | Suite::DheKeGcm => Some(wolfssl::Suite::Aes128Gcm),
        Suite::KeChacha | Suite::DheKeChacha => Some(wolfssl::Suite::Chacha20Poly1305),
        Suite::KeSha256 | Suite::DheKeSha256 => Some(wolfssl::Suite::Sha256),
        Suite::PskCcm8 => Some(wolfssl::Suite::PskAes128Ccm8),
        Suite::PskCcm => Some(wolfssl::Suite::PskAes128Ccm),
        Suite::PskGcm => Some(wolfssl::Suite::PskAes128Gcm),
        Suite::PskChacha => Some(wolfssl::Suite::PskChacha20Poly1305),
        Suite::EcdhePskGcm => Some(wolfssl::Suite::EcdhePskAes128Gcm),
        Suite::EcdhePskCcm8 => None,
    }
}

impl End for Driven {
    fn send(&mut self, _: Instant, payload: &[u8]) -> Result<(), String> {
        Self::send(self, payload).map_err(|error| error.to_string())
    }
}
