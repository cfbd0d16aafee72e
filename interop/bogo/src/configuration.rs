//! What the flags mean for our engine.

use crate::Failure;
use crate::flags::Flags;
use crate::identity::Identities;

use lightseal_dtls::codepoints::{DTLS_1_2, DTLS_1_3, NamedGroup};
use lightseal_dtls::{
    ClientAuthentication, ClientConfig, CookiePolicy, ProtocolVersion, Psk, RecordLengths,
    ServerConfig, Settings,
};
use lightseal_dtls_aws_lc::PROVIDER;
use std::sync::Arc;
use std::time::Duration;

/// Longer than all timeouts of a case together, so that only the runner's schedule gives a
/// handshake up.
pub(crate) const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(7200);

/// A quarter of BoringSSL's first timeout.
const ACK_DELAY: Duration = Duration::from_millis(100);

/// The longest datagram unless the case asks for a shorter one: the suite's longest record fits.
const DATAGRAM: usize = (1 << 14) + 256;

/// The settings for a client or a server.
fn settings(flags: &Flags) -> Result<Settings, Failure> {
    let mut settings = Settings::new(&PROVIDER);
    settings.versions = versions(flags)?;
    settings.datagram_bytes = flags.number("-mtu")?.unwrap_or(DATAGRAM);
    // The runner reads no others.
    settings.record_lengths = RecordLengths::Always;
    settings.require_extended_master_secret = false;
    settings.session_tickets = !flags.has("-no-ticket");
    // As many as BoringSSL sends.
    settings.tickets = if flags.has("-no-ticket") { 0 } else { 2 };
    // As in BoringSSL: the runner reads no ACK where it waits for data.
    settings.ack_delay = ACK_DELAY;
    // The runner counts timers, and knows none after which an idle association goes to sleep.
    settings.sleep_after = None;
    settings.handshake_deadline = HANDSHAKE_DEADLINE;
    if let Some(millis) = flags.number("-initial-timeout-duration-ms")? {
        settings.initial_timeout = Duration::from_millis(millis);
    }
    settings.application_protocols = protocols(flags)?;
    let groups = flags.numbers("-curves")?;
    if !groups.is_empty() {
        settings.groups = groups.into_iter().map(NamedGroup).collect();
        if let Some(group) = settings.groups.iter().find(|id| PROVIDER.group(**id).is_none()) {
            return Err(Failure::Unimplemented(format!("the group {group}")));
        }
    }
    Ok(settings)
}

/// The application protocols: a client's list has a length before each, a server selects one. A
/// server without any declines to select one.
fn protocols(flags: &Flags) -> Result<Vec<Vec<u8>>, Failure> {
    if flags.has("-reject-alpn") {
        return Ok(vec![b"none of the client's".to_vec()]);
    }
    if let Some(selected) = flags.text("-select-alpn") {
        return Ok(vec![selected.as_bytes().to_vec()]);
    }
    let mut rest = flags.text("-advertise-alpn").unwrap_or_default().as_bytes();
    let mut protocols = Vec::new();
    while let [len, after @ ..] = rest {
        let (name, after) = after
            .split_at_checked(usize::from(*len))
            .ok_or_else(|| Failure::Failed("a bad list of protocols".into()))?;
        protocols.push(name.to_vec());
        rest = after;
    }
    Ok(protocols)
}

/// The versions that the flags leave.
fn versions(flags: &Flags) -> Result<Vec<ProtocolVersion>, Failure> {
    // Newer versions have smaller numbers.
    let least = flags.number("-min-version")?.unwrap_or(u16::MAX);
    let most = flags.number("-max-version")?.unwrap_or(0);
    let all = [
        (ProtocolVersion::Dtls13, DTLS_1_3, "-no-tls13"),
        (ProtocolVersion::Dtls12, DTLS_1_2, "-no-tls12"),
    ];
    let allowed = all
        .into_iter()
        .filter(|(_, wire, no)| (most..=least).contains(wire) && !flags.has(no))
        .map(|(version, ..)| version);
    let versions: Vec<_> = allowed.collect();
    match versions.is_empty() {
        true => Err(Failure::Unimplemented("DTLS 1.0".into())),
        false => Ok(versions),
    }
}

fn psk(flags: &Flags) -> Result<Option<Psk>, Failure> {
    let Some(key) = flags.text("-psk") else { return Ok(None) };
    let identity = flags.text("-psk-identity").unwrap_or_default();
    Psk::external(identity.as_bytes(), key.as_bytes())
        .map(Some)
        .map_err(|error| Failure::Unimplemented(format!("this PSK: {error:?}")))
}

fn refused(error: impl std::fmt::Debug) -> Failure {
    Failure::Unimplemented(format!("this configuration: {error:?}"))
}

/// A client's configuration.
pub(crate) fn client_config(
    flags: &Flags,
    identities: &Identities,
) -> Result<ClientConfig, Failure> {
    let settings = settings(flags)?;
    if let Some(psk) = psk(flags)? {
        return ClientConfig::with(psk, settings).map_err(refused);
    }
    let mut config = ClientConfig::verifying(identities.verifier(), settings).map_err(refused)?;
    let credentials = identities.credentials();
    if !credentials.is_empty() {
        config = config.with_keys(credentials).map_err(refused)?;
    }
    if let Some(name) = flags.text("-host-name") {
        config = config.with_server_name(name).map_err(refused)?;
    }
    Ok(config)
}

/// A server's configuration.
pub(crate) fn server_config(
    flags: &Flags,
    identities: &Identities,
) -> Result<ServerConfig, Failure> {
    let settings = settings(flags)?;
    let config = if let Some(psk) = psk(flags)? {
        ServerConfig::with(Arc::new(psk), settings).map_err(refused)?
    } else {
        let (credentials, verifier) = (identities.credentials(), identities.verifier());
        let clients = match flags {
            flags if flags.has("-require-any-client-certificate") => {
                ClientAuthentication::Required(verifier)
            }
            flags if flags.has("-verify-peer") => ClientAuthentication::Requested(verifier),
            _ => ClientAuthentication::Off,
        };
        ServerConfig::certified(credentials, settings)
            .and_then(|config| config.with_client_authentication(clients))
            .map_err(refused)?
    };
    Ok(config.with_cookies(CookiePolicy::ProvedBelow).without_hints())
}
