//! The handshake: turns a byte stream into a connection with a known peer.

use super::frame::{self, Frame, Hello};
use super::transport::Stream;
use super::{Cause, ChannelShared, PeerIndex, tls};
use crate::credential::KnownBy;
use std::net::SocketAddr;
use std::time::Duration;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector, TlsStream};
use zeroize::Zeroizing;

/// A connection with a peer that may become the one in use.
pub(super) struct AuthenticatedConnection {
    pub(super) stream: TlsStream<Box<dyn Stream>>,
    pub(super) remote: SocketAddr,
    /// Whether this gateway dialled the connection.
    pub(super) initiator: bool,
    pub(super) exporter: Zeroizing<[u8; 32]>,
    /// The Hello of the peer.
    pub(super) hello: Hello,
    /// Whether this connection is to replace one that works. The gateway that dialled requests
    /// this; if the peer decides, this is its decision.
    pub(super) renewal: bool,
    /// The number of the peer's decision; `None` if this gateway decides.
    pub(super) number: Option<u64>,
}

/// The handshake of the gateway that dials: the other end must be `peer`.
pub(super) async fn connect(
    shared: &ChannelShared,
    peer: PeerIndex,
    stream: Box<dyn Stream>,
    remote: SocketAddr,
    renewal: bool,
) -> Result<AuthenticatedConnection, Cause> {
    let key = shared.key(peer);
    let config = shared.credentials.dialling(key).map_err(|e| Cause::Lost(e.to_string()))?;
    let stream = TlsConnector::from(config).connect(tls::placeholder_name(), stream).await;
    let stream = TlsStream::from(stream.map_err(|error| Cause::Lost(tls::describe_error(&error)))?);
    if tls::peer_of(&stream, key.is_raw()).as_ref() != Some(key) {
        return Err(Cause::Protocol("another protocol than that of gateways"));
    }
    exchange_hellos(shared, peer, key, stream, remote, Some(renewal)).await
}

/// The handshake of the gateway that is dialled: the other end may be any of the peers.
pub(super) async fn accept(
    shared: &ChannelShared,
    stream: Box<dyn Stream>,
    remote: SocketAddr,
) -> Result<(PeerIndex, AuthenticatedConnection), Cause> {
    let lost = |error: std::io::Error| Cause::Lost(tls::describe_error(&error));
    let started = LazyConfigAcceptor::new(Acceptor::default(), stream).await.map_err(lost)?;
    let (config, is_raw) = shared.credentials.accepting(&started.client_hello());
    let stream = TlsStream::from(started.into_stream(config).await.map_err(lost)?);
    let known = tls::peer_of(&stream, is_raw);
    let peer = known.and_then(|key| shared.by_key.get(&key).copied());
    let peer = peer.ok_or(Cause::Protocol("another protocol than that of gateways"))?;
    Ok((peer, exchange_hellos(shared, peer, shared.key(peer), stream, remote, None).await?))
}

/// Exchanges Hellos, and waits for the peer's decision if the peer decides. `dialled` is `None` if
/// the peer dialled; otherwise it tells whether this is a renewal. The caller limits the time.
async fn exchange_hellos(
    shared: &ChannelShared,
    peer: PeerIndex,
    key: &KnownBy,
    mut stream: TlsStream<Box<dyn Stream>>,
    remote: SocketAddr,
    dialled: Option<bool>,
) -> Result<AuthenticatedConnection, Cause> {
    let exporter = tls::exporter(&stream, [shared.credentials.own(), key]);
    let exporter = exporter.map_err(|error| Cause::Lost(error.to_string()))?;
    let (instance, patience) = (shared.instance, shared.settings.dead_after);
    let own = Hello { instance, patience, renewal: dialled.unwrap_or(false) };
    frame::write(&mut stream, &Frame::Hello(own)).await?;
    let Frame::Hello(hello) = frame::read(&mut stream, Duration::MAX).await? else {
        return Err(Cause::Protocol("another message before its Hello"));
    };
    if hello.instance == shared.instance {
        return Err(Cause::Protocol("our own Hello: its endpoint leads back to this gateway"));
    }
    let (renewal, number) = if shared.decides(peer) {
        (dialled.unwrap_or(hello.renewal), None)
    } else {
        match frame::read(&mut stream, Duration::MAX).await? {
            Frame::Use { number, renewal } => (renewal, Some(number)),
            Frame::Refuse => return Err(Cause::Refused),
            _ => return Err(Cause::Protocol("another message before its decision")),
        }
    };
    let initiator = dialled.is_some();
    Ok(AuthenticatedConnection { stream, remote, initiator, exporter, hello, renewal, number })
}
