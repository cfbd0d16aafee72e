//! Incoming connections that are not authenticated yet.

use super::handshake::{self, AuthenticatedConnection};
use super::transport::Transport;
use super::{Cause, ChannelShared};
use lightseal_service::accept::ACCEPT_ERROR_PAUSE;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Accepts connections, performs the handshake, and passes each connection to the task of its peer.
pub(super) async fn accept_connections(
    shared: &Arc<ChannelShared>,
    transport: &dyn Transport,
    peers: &[mpsc::Sender<AuthenticatedConnection>],
) {
    let mut waiting = Unauthenticated::default();
    let mut greetings = JoinSet::new();
    loop {
        let connected = tokio::select! {
            Some(ended) = greetings.join_next_with_id() => {
                waiting.forget(match &ended {
                    Ok((id, ())) => *id,
                    Err(error) => error.id(),
                });
                continue;
            }
            connected = transport.accept() => connected,
        };
        let (stream, remote) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                tracing::debug!("management channel: {error}");
                sleep(ACCEPT_ERROR_PAUSE).await;
                continue;
            }
        };
        if waiting.0.len() >= shared.settings.unauthenticated.max(1) {
            waiting.evict_oldest();
        }
        let (shared, peers) = (Arc::clone(shared), peers.to_vec());
        let source = source(remote.ip());
        let greeting = async move {
            let limit = shared.settings.handshake_timeout;
            let greeted = timeout(limit, handshake::accept(&shared, stream, remote)).await;
            match greeted.unwrap_or(Err(Cause::Silent)) {
                Ok((peer, candidate)) => {
                    let _ = timeout(limit, peers[peer.0].send(candidate)).await;
                }
                Err(Cause::Refused) => {}
                Err(why) => tracing::debug!("connection from {remote} refused: {why}"),
            }
        };
        let handle = greetings.spawn(greeting);
        waiting.0.push((source, handle));
    }
}

/// The source of a connection, which is one address in IPv4 and a /64 network in IPv6, since one
/// host may have all addresses of such a network.
fn source(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

/// Connections in their handshake, the oldest first.
#[derive(Default)]
struct Unauthenticated(Vec<(IpAddr, AbortHandle)>);

impl Unauthenticated {
    fn forget(&mut self, id: tokio::task::Id) {
        self.0.retain(|(_, handle)| handle.id() != id);
    }

    /// Closes the oldest connection of the source that has the most connections.
    fn evict_oldest(&mut self) {
        let mut counts = BTreeMap::new();
        for (source, _) in &self.0 {
            *counts.entry(*source).or_insert(0_usize) += 1;
        }
        let most = counts.values().copied().max();
        let oldest = self.0.iter().position(|(source, _)| counts.get(source).copied() == most);
        if let Some(at) = oldest {
            self.0.remove(at).1.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_the_most_goes_first_and_the_oldest_of_them() {
        let mut tasks = JoinSet::new();
        let mut waiting = Unauthenticated::default();
        for host in [1, 2, 2, 3] {
            let handle = tasks.spawn(std::future::pending::<()>());
            waiting.0.push((IpAddr::from([192, 0, 2, host]), handle));
        }
        let second = waiting.0[1].1.id();
        waiting.evict_oldest();
        let (id, _) = tasks.join_next_with_id().await.unwrap().unwrap_or_else(|e| (e.id(), ()));
        assert_eq!((id, waiting.0.len()), (second, 3));
        // Each source has one connection now, so the oldest connection is closed.
        let first = waiting.0[0].1.id();
        waiting.evict_oldest();
        assert!(waiting.0.iter().all(|(_, handle)| handle.id() != first));
        Unauthenticated::default().evict_oldest();
    }

    #[test]
    fn a_source_is_a_network_in_ipv6() {
        let of = |ip: &str| source(ip.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("192.0.2.1"), "192.0.2.1");
    }
}
