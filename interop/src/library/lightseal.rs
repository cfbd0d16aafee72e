//! Lightseal as a peer.

use super::{End, Make, Settings};
use crate::ours::Ours;
use crate::peers::files::SERVER_NAME;
use crate::peers::{Credential, Group, Role, Version};
use lightseal_core::{Instant, Random};
use lightseal_dtls::codepoints::{CertificateType, PskKeyExchangeMode};
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup, Provider, rustcrypto};
use lightseal_dtls::{
    CertifiedKey, ClientAuthentication, ClientConfig, ConfigError, ConnectionIds, CookiePolicy,
    Packing, Psk, ServerConfig,
};
use lightseal_pki::{Clock, SpkiHash, Trust, X509Verifier};
use std::net::SocketAddr;
use std::sync::Arc;

fn text(error: ConfigError) -> String {
    error.to_string()
}

/// What makes ends of connections by Lightseal with these settings.
///
/// # Errors
/// The settings that do not fit.
pub fn ends(role: Role, settings: &Settings) -> Result<impl Make<Ours> + use<>, String> {
    let with_psk = settings.credential == Credential::Psk;
    // RSA and ML-KEM are in AWS-LC alone, or faster there.
    let provider = if with_psk { &rustcrypto::PROVIDER } else { &lightseal_dtls_aws_lc::PROVIDER };
    let common = common(role, settings, provider)?;
    let (client, server) = match (role, with_psk) {
        (Role::Client, true) => (Some(ClientConfig::with(psk(settings)?, common)), None),
        (Role::Server, true) => (None, Some(ServerConfig::with(Arc::new(psk(settings)?), common))),
        (Role::Client, false) => (Some(certified_client(settings, common)?), None),
        (Role::Server, false) => (None, Some(certified_server(settings, common)?)),
    };
    let client = client.transpose().map_err(text)?;
    let server = server.transpose().map_err(text)?;
    let mut seed = seed();
    let resumes = settings.resumed;
    Ok(move |address: SocketAddr, now: Instant, before: Option<&mut Ours>| {
        seed = seed.wrapping_add(1);
        Ok(match (&client, &server) {
            (Some(client), _) => {
                let before = before.as_deref().and_then(Ours::connection).filter(|_| resumes);
                let client = match before.and_then(|before| before.session()) {
                    Some(session) => client.clone().with_session(session),
                    None => client.clone(),
                };
                Ours::client(client, address, now, seed)
            }
            (None, Some(server)) => {
                Ours::server(server.clone().with_cookies(CookiePolicy::Always), seed)
            }
            (None, None) => unreachable!("each role has a configuration"),
        })
    })
}

fn psk(settings: &Settings) -> Result<Psk, String> {
    Psk::external(&settings.identity, &settings.key).map_err(text)
}

/// The settings of both roles.
fn common(
    role: Role,
    settings: &Settings,
    provider: &'static Provider,
) -> Result<lightseal_dtls::Settings, String> {
    let mut common = lightseal_dtls::Settings::new(provider);
    common.suites = vec![CipherSuiteId(settings.suite.code())];
    if settings.credential != Credential::Psk {
        common.groups = settings.groups(role).into_iter().map(group).collect();
        if settings.suite.version() == Version::Dtls12 && role == Role::Client {
            // The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1).
            let more = [NamedGroup::P256, NamedGroup::P384];
            let more = more.into_iter().filter(|more| !common.groups.contains(more));
            common.groups.extend(more.collect::<Vec<_>>());
        }
    } else if settings.suite.version() == Version::Dtls13 {
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
    Ok(common)
}

const fn group(group: Group) -> NamedGroup {
    NamedGroup(group.code())
}

fn certified_client(
    settings: &Settings,
    common: lightseal_dtls::Settings,
) -> Result<Result<ClientConfig, ConfigError>, String> {
    let provider = common.provider;
    let key = settings.mutual.then(|| own_key(Role::Client, settings, provider)).transpose()?;
    let verifier = verifier(Role::Client, settings, provider)?;
    Ok(ClientConfig::verifying(Arc::new(verifier), common)
        .and_then(|client| client.with_server_name(SERVER_NAME))
        .and_then(|client| match key {
            Some(key) => client.with_keys(Arc::new(key)),
            None => Ok(client),
        }))
}

fn certified_server(
    settings: &Settings,
    common: lightseal_dtls::Settings,
) -> Result<Result<ServerConfig, ConfigError>, String> {
    let provider = common.provider;
    let key = own_key(Role::Server, settings, provider)?;
    let server = ServerConfig::certified(Arc::new(key), common);
    if !settings.mutual {
        return Ok(server);
    }
    let verifier = Arc::new(verifier(Role::Server, settings, provider)?);
    Ok(server.and_then(|server| {
        server.with_client_authentication(ClientAuthentication::Required(verifier))
    }))
}

fn own_key(role: Role, settings: &Settings, provider: &Provider) -> Result<CertifiedKey, String> {
    let key = settings.file(role, "key")?;
    let loaded = if settings.credential == Credential::RawKey {
        lightseal_pki::raw_key(provider, &key)
    } else {
        lightseal_pki::certified_key(provider, &settings.file(role, "pem")?, &key)
    };
    loaded.map_err(|error| error.to_string())
}

/// What the end in `role` accepts of the other one.
pub(super) fn verifier(
    role: Role,
    settings: &Settings,
    provider: &'static Provider,
) -> Result<X509Verifier, String> {
    let raw = settings.credential == Credential::RawKey;
    let trust = if raw {
        let spki = settings.file(role.other(), "spki")?;
        Trust::new().with_accepted_keys([SpkiHash::of(&spki)])
    } else {
        let trust = Trust::new().with_authorities(&settings.authority("pem")?);
        trust.map_err(|error| error.to_string())?
    };
    let kind = if raw { CertificateType::RAW_PUBLIC_KEY } else { CertificateType::X509 };
    let verifier = lightseal_pki::Settings::new(provider, Clock::system()).verifier(trust);
    Ok(verifier.with_kinds([kind]))
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

    fn close(&mut self, now: Instant) {
        Self::close(self, now);
    }

    fn serves_others(&self) -> bool {
        matches!(self, Self::Server(..))
    }
}
