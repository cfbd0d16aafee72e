//! wolfSSL as a peer.

use super::{End, Make, Settings};
use crate::driven::Driven;
use crate::peers::files::SERVER_NAME;
use crate::peers::{Credential, Group, Role, Suite};
use crate::wolfssl::{self, Certified, Context, Mode, RawKeys};
use lightseal_core::Instant;
use std::ffi::CString;
use std::net::SocketAddr;

/// What makes ends of connections by wolfSSL with these settings.
///
/// # Errors
/// The settings that do not fit.
pub fn ends(role: Role, settings: &Settings) -> Result<impl Make<Driven> + use<>, String> {
    let suite = suite(settings.suite).ok_or("not a suite of this peer")?;
    let mode = match settings.credential {
        Credential::Psk if !settings.suite.is_ephemeral() => Mode::Psk,
        Credential::Psk => Mode::PskWith(wolfssl::Group::X25519),
        _ => Mode::PskWith(group(settings.group)),
    };
    let (identity, key) = (settings.identity.clone(), settings.key.clone());
    let with_key = wolfssl::Settings { suite, mode, cookie: true, identity, key };
    let own = match role {
        Role::Client => wolfssl::Role::Client,
        Role::Server => wolfssl::Role::Server,
    };
    let context = match settings.credential {
        Credential::Psk => Context::with_cid(own, &with_key, settings.cid),
        _ => Context::certified(own, &with_key, settings.cid, certified(role, settings)?),
    };
    let resumes = settings.resumed;
    Ok(move |address: SocketAddr, now: Instant, before: Option<&mut Driven>| {
        Ok(match role {
            Role::Client => {
                let ticket = before.filter(|_| resumes).and_then(|before| before.peer().ticket());
                Driven::client_with(&context, address, now, |peer| {
                    if let Some(ticket) = &ticket {
                        peer.resume(ticket);
                    }
                })
            }
            Role::Server => Driven::server(&context),
        })
    })
}

/// The certificates or raw public keys of one end.
fn certified(role: Role, settings: &Settings) -> Result<Certified, String> {
    let pem = |role, kind| {
        let bytes = settings.file(role, kind)?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    };
    let own = settings.mutual || role == Role::Server;
    let verifies = settings.mutual || role == Role::Client;
    let authority =
        String::from_utf8(settings.authority("pem")?).map_err(|error| error.to_string())?;
    let raw = match settings.credential {
        Credential::RawKey => Some(RawKeys {
            own: settings.file(role, "spki")?,
            other: settings.file(role.other(), "spki")?,
        }),
        _ => None,
    };
    Ok(Certified {
        own: if own { Some((pem(role, "pem")?, pem(role, "key")?)) } else { None },
        authority: verifies.then_some(authority),
        server_name: CString::new(SERVER_NAME).expect("no zero in a name"),
        raw,
        resumption: settings.resumed,
    })
}

const fn group(group: Group) -> wolfssl::Group {
    match group {
        Group::X25519 => wolfssl::Group::X25519,
        Group::P256 => wolfssl::Group::P256,
        Group::P384 => wolfssl::Group::P384,
        Group::X25519MlKem768 => wolfssl::Group::X25519MlKem768,
    }
}

/// wolfSSL's name of a suite; `None` if it does not have the suite.
pub const fn suite(suite: Suite) -> Option<wolfssl::Suite> {
    match suite {
        Suite::KeCcm8 | Suite::DheKeCcm8 | Suite::Ccm8 => Some(wolfssl::Suite::Aes128Ccm8),
        Suite::KeCcm | Suite::DheKeCcm | Suite::Ccm => Some(wolfssl::Suite::Aes128Ccm),
        Suite::KeGcm | Suite::DheKeGcm | Suite::Gcm => Some(wolfssl::Suite::Aes128Gcm),
        Suite::KeChacha | Suite::DheKeChacha | Suite::Chacha => {
            Some(wolfssl::Suite::Chacha20Poly1305)
        }
        Suite::Gcm256 => Some(wolfssl::Suite::Aes256Gcm),
        Suite::KeSha256 | Suite::DheKeSha256 => Some(wolfssl::Suite::Sha256),
        Suite::PskCcm8 => Some(wolfssl::Suite::PskAes128Ccm8),
        Suite::PskCcm => Some(wolfssl::Suite::PskAes128Ccm),
        Suite::PskGcm => Some(wolfssl::Suite::PskAes128Gcm),
        Suite::PskChacha => Some(wolfssl::Suite::PskChacha20Poly1305),
        Suite::EcdhePskGcm => Some(wolfssl::Suite::EcdhePskAes128Gcm),
        Suite::EcdsaGcm => Some(wolfssl::Suite::EcdheEcdsaAes128Gcm),
        Suite::EcdsaGcm256 => Some(wolfssl::Suite::EcdheEcdsaAes256Gcm),
        Suite::EcdsaChacha => Some(wolfssl::Suite::EcdheEcdsaChacha20Poly1305),
        Suite::EcdsaCcm => Some(wolfssl::Suite::EcdheEcdsaAes128Ccm),
        Suite::EcdsaCcm8 => Some(wolfssl::Suite::EcdheEcdsaAes128Ccm8),
        Suite::RsaGcm => Some(wolfssl::Suite::EcdheRsaAes128Gcm),
        Suite::EcdhePskCcm8 => None,
    }
}

impl End for Driven {
    fn send(&mut self, _: Instant, payload: &[u8]) -> Result<(), String> {
        Self::send(self, payload).map_err(|error| error.to_string())
    }

    fn close(&mut self, _: Instant) {
        Self::close(self);
    }
}
