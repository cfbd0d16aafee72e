//! The byte streams below TLS.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long a connection to one address may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How many addresses of a name are tried.
const ADDRESSES: usize = 4;

/// A byte stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A new byte stream, and the address of its other end.
pub(super) type Connected = io::Result<(Box<dyn Stream>, SocketAddr)>;

/// A source of byte streams.
pub(super) trait Transport: Send + Sync + 'static {
    /// Connects to `endpoint` (`host:port`), whose name is resolved for this attempt.
    fn dial<'a>(
        &'a self,
        endpoint: &'a str,
    ) -> Pin<Box<dyn Future<Output = Connected> + Send + 'a>>;

    /// Accepts the next incoming stream.
    fn accept(&self) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>>;
}

/// TCP.
pub(super) struct Tcp(pub(super) TcpListener);

impl Transport for Tcp {
    fn dial<'a>(
        &'a self,
        endpoint: &'a str,
    ) -> Pin<Box<dyn Future<Output = Connected> + Send + 'a>> {
        Box::pin(async move {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
            for address in tokio::net::lookup_host(endpoint).await?.take(ADDRESSES) {
                let stream = timeout(CONNECT, TcpStream::connect(address)).await;
                match stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(stream) => return ready(stream, address),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }

    fn accept(&self) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        Box::pin(async {
            let (stream, from) = self.0.accept().await?;
            ready(stream, from)
        })
    }
}

fn ready(stream: TcpStream, remote: SocketAddr) -> Connected {
    // Messages are small, and the peer waits for each of them.
    stream.set_nodelay(true)?;
    let ip: IpAddr = remote.ip().to_canonical();
    let remote = match (ip, remote) {
        (IpAddr::V4(_), _) => SocketAddr::new(ip, remote.port()),
        // Keeps the scope of a link-local address.
        (IpAddr::V6(_), remote) => remote,
    };
    Ok((Box::new(stream), remote))
}
