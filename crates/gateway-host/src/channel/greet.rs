//! From a byte stream to a connection whose other end is known.

use super::frame::{self, Frame, Hello};
use super::transport::Stream;
use super::{Cause, PeerIndex, Shared, tls};
use crate::identity::PublicKey;
use std::net::SocketAddr;
use std::time::Duration;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use zeroize::Zeroizing;

/// A connection with a peer, which may become the one that counts.
pub(super) struct Candidate {
    pub(super) stream: TlsStream<Box<dyn Stream>>,
    pub(super) remote: SocketAddr,
    /// We dialled it.
    pub(super) initiator: bool,
    pub(super) exporter: Zeroizing<[u8; 32]>,
    /// What the peer said of itself.
    pub(super) hello: Hello,
    /// The one who dialled wants to replace a connection that is alive; or, where the peer decides,
    /// it does.
    pub(super) renewal: bool,
    /// Of the peer's decision; where we decide, nothing.
    pub(super) number: Option<u64>,
}

/// The end that dials: it must be `peer` that answers.
pub(super) async fn dialled(
    shared: &Shared,
    peer: PeerIndex,
    stream: Box<dyn Stream>,
    remote: SocketAddr,
    renewal: bool,
) -> Result<Candidate, Cause> {
    let key = shared.key(peer);
    let config = shared.credentials.dialling(key).map_err(|e| Cause::Lost(e.to_string()))?;
    let stream = TlsConnector::from(config).connect(tls::no_name(), stream).await;
    let stream = TlsStream::from(stream.map_err(|error| Cause::Lost(tls::explained(&error)))?);
    if tls::peer_of(&stream) != Some(key) {
        return Err(Cause::Protocol("another protocol than ours"));
    }
    greet(shared, peer, key, stream, remote, Some(renewal)).await
}

/// The end that is dialled: any of the peers may come.
pub(super) async fn accepted(
    shared: &Shared,
    stream: Box<dyn Stream>,
    remote: SocketAddr,
) -> Result<(PeerIndex, Candidate), Cause> {
    let stream = TlsAcceptor::from(shared.credentials.accepting()).accept(stream).await;
    let stream = TlsStream::from(stream.map_err(|error| Cause::Lost(tls::explained(&error)))?);
    let known = tls::peer_of(&stream);
    let known = known.and_then(|key| shared.by_key.get(&key).map(|peer| (key, *peer)));
    let (key, peer) = known.ok_or(Cause::Protocol("another protocol than ours"))?;
    Ok((peer, greet(shared, peer, key, stream, remote, None).await?))
}

/// Says hello, and where the peer decides waits for its decision. `dialled` tells whether we did,
/// and then if for a renewal. The caller bounds the time.
async fn greet(
    shared: &Shared,
    peer: PeerIndex,
    key: PublicKey,
    mut stream: TlsStream<Box<dyn Stream>>,
    remote: SocketAddr,
    dialled: Option<bool>,
) -> Result<Candidate, Cause> {
    let exporter = tls::exporter(&stream, [shared.credentials.own(), key]);
    let exporter = exporter.map_err(|error| Cause::Lost(error.to_string()))?;
    let (instance, patience) = (shared.instance, shared.settings.dead_after);
    let own = Hello { instance, patience, renewal: dialled.unwrap_or(false) };
    frame::write(&mut stream, &Frame::Hello(own)).await?;
    let Frame::Hello(hello) = frame::read(&mut stream, Duration::MAX).await? else {
        return Err(Cause::Protocol("something before its hello"));
    };
    if hello.instance == shared.instance {
        return Err(Cause::Protocol("our own hello"));
    }
    let (renewal, number) = if shared.decides(peer) {
        (dialled.unwrap_or(hello.renewal), None)
    } else {
        match frame::read(&mut stream, Duration::MAX).await? {
            Frame::Use { number, renewal } => (renewal, Some(number)),
            Frame::Refuse => return Err(Cause::Refused),
            _ => return Err(Cause::Protocol("something before its decision")),
        }
    };
    let initiator = dialled.is_some();
    Ok(Candidate { stream, remote, initiator, exporter, hello, renewal, number })
}
