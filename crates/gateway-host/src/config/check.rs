//! What a configuration speaks of, looked at before a gateway runs.

use super::{Config, LanIo};
use crate::identity::Identity;
#[cfg(target_os = "linux")]
use crate::spread::Spread;
use crate::{OneLine, privileges, status};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// How long a name may take to resolve.
const RESOLVE: Duration = Duration::from_secs(5);

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It may work all the same.
    Warning,
    /// The gateway would not start, or not carry.
    Error,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What, in one line.
    pub what: String,
}

impl Finding {
    fn error(what: impl std::fmt::Display) -> Self {
        Self { severity: Severity::Error, what: OneLine::new(what).to_string() }
    }

    fn warning(what: impl std::fmt::Display) -> Self {
        Self { severity: Severity::Warning, what: OneLine::new(what).to_string() }
    }
}

/// Looks at everything that `config` names: the identity, interfaces, ports, names, the user and
/// this process's rights. Names are resolved, at most five seconds each. Nothing is changed. While a
/// gateway runs from this configuration its ports are not tried.
pub async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    identity(config, &mut findings);
    interface("lan", &config.lan.interface, &mut findings);
    let is_xdp = config.lan.io != LanIo::Packet;
    spread("lan", &config.lan.interface, config, is_xdp, &mut findings);
    if let Some(name) = &config.underlay.interface {
        interface("underlay", name, &mut findings);
        spread("underlay", name, config, config.underlay.io.wants_xdp(), &mut findings);
    }
    let runs = status::ask(&config.state(), &status::Request::Status).await.is_ok();
    if runs {
        let state = config.state();
        let what = format_args!("a gateway runs on {}: ports are not tried", state.display());
        findings.push(Finding::warning(what));
    } else {
        ports(config, &mut findings);
        state(&config.state(), &mut findings);
    }
    if let Some(user) = &config.gateway.user
        && let Err(error) = privileges::User::named(user)
    {
        findings.push(Finding::error(error));
    }
    let missing = privileges::missing(config.underlay.io.wants_xdp());
    if !missing.is_empty() {
        findings.push(Finding::warning(format_args!("no right to {} here", missing.join(", "))));
    }
    if config.peers.is_empty() {
        findings.push(Finding::warning("no [[peer]]: nothing will be carried"));
    }
    names(config, &mut findings).await;
    findings
}

fn identity(config: &Config, findings: &mut Vec<Finding>) {
    match Identity::load(&config.gateway.identity) {
        Err(error) => findings.push(Finding::error(error)),
        Ok(identity) => {
            let own = identity.public_key();
            for peer in config.peers.iter().filter(|peer| peer.public_key == own) {
                let name = &peer.name;
                findings.push(Finding::error(format_args!("peer {name}: its key is our own")));
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn interface(section: &str, name: &str, findings: &mut Vec<Finding>) {
    let directory = Path::new("/sys/class/net").join(name);
    if !directory.exists() {
        findings.push(Finding::error(format_args!("[{section}] interface {name}: there is none")));
        return;
    }
    // Interfaces without a carrier of their own, such as `lo`, say "unknown".
    let state = std::fs::read_to_string(directory.join("operstate"));
    if let Ok("down" | "lowerlayerdown") = state.as_deref().map(str::trim) {
        findings.push(Finding::warning(format_args!("[{section}] interface {name} is down")));
    }
}

#[cfg(not(target_os = "linux"))]
fn interface(_: &str, _: &str, findings: &mut Vec<Finding>) {
    findings.push(Finding::error("a gateway needs Linux"));
}

/// Whether AF_XDP's sockets, one a thread, are on all queues of an interface.
#[cfg(target_os = "linux")]
fn spread(section: &str, name: &str, config: &Config, is_xdp: bool, findings: &mut Vec<Finding>) {
    let interface = packet_io::Interface::find(name).ok().filter(|_| is_xdp);
    let spread = interface.and_then(|found| Spread::of(&found, config.lan.queues));
    if let Some(spread) = spread {
        findings.push(Finding::warning(format_args!("[{section}] {spread}")));
    }
}

#[cfg(not(target_os = "linux"))]
fn spread(_: &str, _: &str, _: &Config, _: bool, _: &mut Vec<Finding>) {}

fn ports(config: &Config, findings: &mut Vec<Finding>) {
    let mut tried = |setting: &str, protocol: &str, address: SocketAddr, error: std::io::Error| {
        findings.push(Finding::error(format_args!("{setting} {address} ({protocol}): {error}")));
    };
    let listen = config.underlay.listen;
    if let Err(error) = UdpSocket::bind(listen) {
        tried("[underlay] listen", "UDP", listen, error);
    }
    if let Err(error) = TcpListener::bind(listen) {
        tried("[underlay] listen", "TCP", listen, error);
    }
    if let Some(metrics) = &config.metrics
        && let Err(error) = TcpListener::bind(metrics.listen)
    {
        tried("[metrics] listen", "TCP", metrics.listen, error);
    }
}

/// The directory may be there already, or be made by the gateway.
fn state(directory: &Path, findings: &mut Vec<Finding>) {
    let exists = directory.ancestors().find(|ancestor| ancestor.exists());
    if exists.is_some_and(|ancestor| !ancestor.is_dir()) {
        let name = exists.unwrap_or(directory).display();
        findings.push(Finding::error(format_args!("state {name}: not a directory")));
    }
}

async fn names(config: &Config, findings: &mut Vec<Finding>) {
    for peer in &config.peers {
        let Some(endpoint) = &peer.endpoint else { continue };
        let found = tokio::time::timeout(RESOLVE, tokio::net::lookup_host(endpoint)).await;
        let wrong = match found {
            Ok(Ok(mut addresses)) => match addresses.next() {
                Some(_) => continue,
                None => "it has no address".to_owned(),
            },
            Ok(Err(error)) => error.to_string(),
            Err(_) => "nobody answers for its name".to_owned(),
        };
        // Names come and go: a gateway starts all the same, and asks again.
        findings.push(Finding::warning(format_args!("peer {}: {endpoint}: {wrong}", peer.name)));
    }
}
