//! What `--state` and `--store` open before the server proxy begins.

use super::args::ProxyServerArgs;
use super::routing::ids::IdForm;
use super::routing::router::Router;
use super::source_address::SourcePrefix;
use super::source_address::book::OpenBook;
use super::state::{DatabaseArgs, OpenState, StoreArgs};
use crate::address;
use crate::failure::{Context, Failure};
use lightseal_dtls::{CertificateVerifier, ConnectionIds, Settings};
use lightseal_pki::RecordingVerifier;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::SystemTime;

/// A store, and how a node of a fleet is reached by others.
pub(super) struct Opened {
    pub(super) state: OpenState,
    pub(super) router: Option<Arc<Router>>,
    /// The addresses of identities, if they are stored.
    pub(super) book: Option<OpenBook>,
}

/// Opens the store that the flags name; `None` if they name none. The verifier becomes one that
/// remembers what peers present.
///
/// # Errors
///
/// If the flags contradict each other, or the store cannot be used.
pub(super) async fn open(
    args: &ProxyServerArgs,
    settings: &mut Settings,
    verifier: &mut Option<Arc<dyn CertificateVerifier>>,
) -> Result<Option<Opened>, Failure> {
    let (Some(directory), Some(key)) = (args.state.clone(), args.state_key.clone()) else {
        return Ok(None);
    };
    settings.write_ahead = true;
    let recording = verifier.take().map(|verifier| Arc::new(RecordingVerifier::new(verifier)));
    *verifier = recording.clone().map(|recording| recording as Arc<dyn CertificateVerifier>);
    let (mut database, mut between) = (None, None);
    if let Some(url) = args.store.clone() {
        refuse_early_data(settings)?;
        let bytes = IdForm::BYTES;
        if settings.connection_ids != ConnectionIds::of_bytes(bytes) {
            return Err(Failure::new(format_args!("--store needs --connection-ids {bytes}")));
        }
        let at = between_nodes(args)?;
        let socket = UdpSocket::bind(at).context(format_args!("--fleet-listen {at}"))?;
        let address = socket.local_addr().context("--fleet-listen")?;
        let scrambles_ids = args.scramble_ids;
        let synchronous_failover = args.synchronous_failover;
        let node = args.node;
        database = Some(DatabaseArgs { url, node, address, scrambles_ids, synchronous_failover });
        between = Some(socket);
    }
    let (former_key, forget) = (args.former_state_key.clone(), args.forget);
    let (home, url) = (directory.clone(), args.store.clone());
    let store = StoreArgs { directory, database, key, former_key, forget };
    // The connection to a database has a runtime of its own.
    let opened = tokio::task::spawn_blocking(|| OpenState::new(store, recording)).await;
    let state = opened.context("--state")??;
    let mut router = None;
    if let (Some((member, keys)), Some(socket)) = (state.fleet(), between) {
        let form = Arc::clone(keys.form());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let made = Router::new(args.node, form, &keys.envelopes(now), socket);
        let made = made.context("--fleet-listen")?;
        made.set_map(member.map());
        router = Some(Arc::new(made));
    }
    let mut book = None;
    if args.source_address.is_some_and(SourcePrefix::is_crowded) {
        // The directory is this process's alone by now.
        let open = move || match url {
            Some(url) => OpenBook::in_database(&url),
            None => OpenBook::in_directory(&home),
        };
        book = Some(tokio::task::spawn_blocking(open).await.context("--source-address")??);
    }
    Ok(Some(Opened { state, router, book }))
}

/// Refuses settings under which a fleet would take early data. A ticket that one node has taken says
/// nothing to the others, so whoever sends early data again has another node deliver it again.
fn refuse_early_data(settings: &Settings) -> Result<(), Failure> {
    match settings.early_data {
        0 => Ok(()),
        _ => Err(Failure::new("--store allows no early data (0-RTT), which could be repeated")),
    }
}

/// Where other nodes send what is this node's.
fn between_nodes(args: &ProxyServerArgs) -> Result<SocketAddr, Failure> {
    if let Some(address) = args.fleet_listen {
        return match address.ip().is_unspecified() {
            true => Err(Failure::new("--fleet-listen needs an address that other nodes can reach")),
            false => Ok(address),
        };
    }
    let ip = address::resolve("listen", args.proxy.listen.as_deref())?.ip();
    let ip = match ip.is_unspecified() {
        true if ip.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
        true => Ipv6Addr::LOCALHOST.into(),
        false => ip,
    };
    Ok((ip, 0).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_takes_no_early_data() {
        let mut settings = crate::provider::settings().unwrap();
        assert!(refuse_early_data(&settings).is_ok(), "a server proxy asks for none");
        settings.early_data = 1;
        let failure = refuse_early_data(&settings).unwrap_err().to_string();
        assert!(failure.contains("0-RTT") && !failure.contains('\n'), "{failure}");
    }
}
