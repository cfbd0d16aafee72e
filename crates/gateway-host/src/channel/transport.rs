//! Byte streams below TLS.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long one address may take to answer, and how many of a name are tried.
const CONNECT: Duration = Duration::from_secs(3);
const ADDRESSES: usize = 4;

/// A byte stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A new byte stream and where it leads.
pub(super) type Connected = io::Result<(Box<dyn Stream>, SocketAddr)>;

/// What makes byte streams.
pub(super) trait Transport: Send + Sync + 'static {
    /// A stream to `endpoint` (`host:port`), whose name is resolved now.
    fn dial<'a>(
        &'a self,
        endpoint: &'a str,
    ) -> Pin<Box<dyn Future<Output = Connected> + Send + 'a>>;

    /// The next stream from elsewhere.
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
    // Messages are small, and somebody waits for each.
    stream.set_nodelay(true)?;
    let ip: IpAddr = remote.ip().to_canonical();
    let remote = match (ip, remote) {
        (IpAddr::V4(_), _) => SocketAddr::new(ip, remote.port()),
        // With its scope.
        (IpAddr::V6(_), remote) => remote,
    };
    Ok((Box::new(stream), remote))
}
