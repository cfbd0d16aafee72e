//! Checks what a configuration refers to, before a gateway runs.

#[cfg(target_os = "linux")]
mod machine;

use crate::config::{Config, sends_to};
use crate::credential::{Credential, KnownBy, Trust};
use crate::status::{self, GatewayStatus, RequestError, StatusClient};
use crate::{ErrorLine, privileges};
use lightseal_dtls::BadCertificate;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long the resolution of a name may take.
const RESOLVE: Duration = Duration::from_secs(5);

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The gateway may work nevertheless.
    Warning,
    /// The gateway would not start, or would not carry frames.
    Error,
}

/// A problem that was found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The severity of the problem.
    pub severity: Severity,
    /// The problem, in one line.
    pub what: String,
}

impl Finding {
    fn error(what: impl std::fmt::Display) -> Self {
        Self { severity: Severity::Error, what: ErrorLine::new(what).to_string() }
    }

    fn warning(what: impl std::fmt::Display) -> Self {
        Self { severity: Severity::Warning, what: ErrorLine::new(what).to_string() }
    }
}

/// Checks everything that `config` names: the identity, interfaces, ports, names, the user, and the
/// rights of this process. Names are resolved, for at most five seconds each. Nothing is changed.
/// While a gateway with this configuration is running, its ports are not tried.
pub async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let own = identity(config, &mut findings);
    machine::interfaces(config, &mut findings);
    if runs(&config.state(), own, &mut findings).await {
        let state = config.state();
        let what = format_args!("a gateway runs on {}: ports are not tried", state.display());
        findings.push(Finding::warning(what));
    } else {
        machine::ports(config, &mut findings).await;
        state(&config.state(), &mut findings);
    }
    let user = config.user().unwrap_or_else(|error| {
        findings.push(Finding::error(error));
        None
    });
    if privileges::stays_root(user) {
        findings.push(Finding::warning(privileges::STAYS_ROOT));
    }
    let is_xdp = config.lan.io.wants_xdp() || config.underlay.io.wants_xdp();
    let missing = privileges::missing(is_xdp, user);
    if !missing.is_empty() {
        findings.push(Finding::warning(format_args!("no right to {} here", missing.join(", "))));
    }
    if config.peers.is_empty() {
        findings.push(Finding::warning("no [[peer]]: nothing will be carried"));
    }
    names(config, &mut findings).await;
    findings
}

fn identity(config: &Config, findings: &mut Vec<Finding>) -> Option<KnownBy> {
    let trust = config.load_trust().unwrap_or_else(|error| {
        findings.push(Finding::error(error));
        None
    });
    match config.load_credential() {
        Err(error) => {
            findings.push(Finding::error(error));
            None
        }
        Ok(credential) => {
            let own = credential.known_by();
            findings.extend(config.check_own_key(&own).err().map(Finding::error));
            findings.extend(trust.and_then(|trust| refusal(&credential, &trust)));
            Some(own)
        }
    }
}

/// Why peers refuse the certificate of this gateway, as far as they verify it as this gateway
/// verifies theirs. They may trust other authorities, or have other revocation lists.
fn refusal(credential: &Credential, trust: &Trust) -> Option<Finding> {
    let why = match trust.verify(&credential.certificates()?).err()? {
        BadCertificate::UnknownIssuer | BadCertificate::UnknownRevocation => return None,
        BadCertificate::WrongPurpose => {
            "it is not for clients: make it with `lightseal keygen certificate` without --for"
                .to_owned()
        }
        why => why.to_string(),
    };
    let what = format_args!("peers refuse this gateway's certificate: {why}");
    Some(Finding::error(ErrorLine::of("[gateway] credential", what)))
}

/// Whether this gateway is running already. If another gateway uses the same directory, that is an
/// error.
async fn runs(state: &Path, own: Option<KnownBy>, findings: &mut Vec<Finding>) -> bool {
    let Ok(mut door) = StatusClient::open(state).await else { return false };
    let who = match door.status().await {
        Ok(status) if own.is_some_and(|own| !is_of(&own, &status)) => {
            let GatewayStatus { gateway, .. } = status;
            gateway
        }
        Ok(_) => return true,
        Err(RequestError::NotRunning) => return false,
        // Whatever it is, `run` does not take the directory from a process that listens there.
        Err(error) => error.to_string(),
    };
    let state = state.display();
    let what = format_args!("[gateway] state {state}: another gateway runs there ({who})");
    findings.push(Finding::error(what));
    false
}

/// Whether a status is that of the gateway with this identity. Earlier versions state only their key.
fn is_of(own: &KnownBy, status: &GatewayStatus) -> bool {
    match (&status.identity, status.public_key) {
        (Some(identity), _) => *identity == own.identity(),
        (None, Some(key)) => own.public_key() == Some(key),
        (None, None) => true,
    }
}

/// Checks the state directory. It may exist, or be created by the gateway.
fn state(directory: &Path, findings: &mut Vec<Finding>) {
    let setting = format_args!("[gateway] state {}", directory.display());
    let exists = directory.ancestors().find(|ancestor| ancestor.exists());
    if let Some(file) = exists.filter(|ancestor| !ancestor.is_dir()) {
        let what = format_args!("{} is not a directory", file.display());
        findings.push(Finding::error(ErrorLine::of(setting, what)));
    }
    if directory.is_dir()
        && let Err(error) = lightseal_owner_only::socket::check_directory(directory)
    {
        findings.push(Finding::error(ErrorLine::of(setting, error)));
    }
    if let Err(error) = SocketAddr::from_pathname(status::path_in(directory)) {
        findings.push(Finding::error(ErrorLine::of(setting, error)));
    }
}

async fn names(config: &Config, findings: &mut Vec<Finding>) {
    for peer in &config.peers {
        let Some(endpoint) = &peer.endpoint else { continue };
        let found = tokio::time::timeout(RESOLVE, tokio::net::lookup_host(endpoint)).await;
        let listen = config.underlay.listen;
        let wrong = match found {
            Ok(Ok(addresses)) => {
                let addresses: Vec<_> = addresses.map(|address| address.ip()).collect();
                if addresses.iter().any(|address| sends_to(listen.ip(), *address)) {
                    continue;
                }
                // No address can be sent to.
                match addresses.first() {
                    Some(address) => {
                        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                        format!("nothing can be sent to {family} from [underlay] listen {listen}")
                    }
                    None => "it has no address".to_owned(),
                }
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its name was not resolved in time".to_owned(),
        };
        // Only a warning: a gateway starts even if a name cannot be resolved, and tries again.
        findings.push(Finding::warning(format_args!("peer {}: {endpoint}: {wrong}", peer.name)));
    }
}

#[cfg(not(target_os = "linux"))]
mod machine {
    use super::{Config, Finding};

    pub(super) fn interfaces(_: &Config, findings: &mut Vec<Finding>) {
        findings.push(Finding::error("a gateway needs Linux"));
    }

    pub(super) async fn ports(_: &Config, _: &mut Vec<Finding>) {}
}
