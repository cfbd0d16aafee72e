//! The state of a gateway, and the Unix socket at which administrators can read it.
//!
//! The socket is `gateway.sock` in the state directory. Only the user that opened it may connect;
//! the user that the gateway becomes afterwards is another one. A client sends lines of JSON, each
//! a [`Request`], and receives one line for each: `{"done": ...}` or `{"refused": "why"}`.

use crate::identity::PublicKey;
use lightseal_dtls::Identity;
use lightseal_owner_only::socket;
use lightseal_service::accept;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Name of the socket in the state directory.
const SOCKET: &str = "gateway.sock";
/// The longest request in bytes.
const MAX_REQUEST: u64 = 4 << 10;
/// The longest answer in bytes. The state with a thousand peers takes a third of it.
const MAX_ANSWER: u64 = 4 << 20;
/// Most clients that are served at a time; others wait.
const MAX_CLIENTS: usize = 16;
/// How long a client may be silent before its connection is closed.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client waits for an answer: a gateway that takes longer is stopped, or has too many
/// clients.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a gateway at one moment. Counters start at zero when the gateway starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayStatus {
    /// The name of the gateway.
    pub gateway: String,
    /// The version of the program.
    pub version: String,
    /// The Ed25519 key of the gateway; `None` if it is known by another key or by a certificate.
    pub public_key: Option<PublicKey>,
    /// The identity of the gateway.
    pub identity: Option<Identity>,
    /// The scheme, as named in the configuration.
    pub scheme: String,
    /// Number of seconds since the gateway started.
    pub uptime_seconds: u64,
    /// The LAN side.
    pub lan: LanStatus,
    /// Numbers of stations, and of frames that wait.
    pub flows: TableStatus,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// Number of frames and packets that were dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Other counters, by name: lower case letters with underscores.
    pub counters: BTreeMap<String, u64>,
}

/// The state of the LAN side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LanStatus {
    /// Name of the interface.
    pub interface: String,
    /// How frames of both sides are read and written, for example `xdp, udp`.
    pub io: String,
    /// Frames received from the LAN.
    pub received: Traffic,
    /// Frames sent to the LAN.
    pub sent: Traffic,
}

/// A number of frames, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// The number of frames.
    pub frames: u64,
    /// The sum of their lengths in bytes, each from the destination address to the last byte before
    /// the FCS.
    pub bytes: u64,
}

/// Numbers of stations, and of frames that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableStatus {
    /// Number of stations that are known now.
    pub present: u64,
    /// Most stations that may be known.
    pub most: u64,
    /// Number of frames that were dropped because of a limit: too many flows, or too many frames
    /// for unknown stations.
    pub refused: u64,
    /// Number of frames that are held until a peer knows their flow.
    pub held_frames: u64,
}

/// The state of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerStatus {
    /// The name of the peer.
    pub name: String,
    /// The identity of the peer.
    pub identity: Option<Identity>,
    /// Whether the management channel is up.
    pub up: bool,
    /// For how many seconds the channel is up or down.
    pub since_seconds: u64,
    /// The address that datagrams for the peer are sent to.
    pub remote: Option<SocketAddr>,
    /// Why the management channel is down.
    pub why_down: Option<String>,
    /// Whether the peer answers nothing that is sent to it through the tunnel.
    pub unanswered: bool,
    /// The epoch of the keys that seal datagrams for the peer.
    pub epoch: Option<u32>,
    /// The largest IP packet on the path to the peer, in bytes.
    pub path_mtu_bytes: Option<u32>,
    /// Number of stations that are known behind the peer.
    pub flows: u64,
    /// Frames received from the peer, with their lengths on the LAN.
    pub received: Traffic,
    /// Frames sent to the peer, with their lengths on the LAN.
    pub sent: Traffic,
}

/// A request of an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Report the state: the answer is a [`GatewayStatus`].
    Status,
    /// Read the configuration again.
    Reload,
    /// Agree on new keys for the tunnel.
    Rekey,
}

/// The open socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct Listener(socket::Listener, PathBuf);

impl Drop for Listener {
    fn drop(&mut self) {
        // If the process has no right to remove the file, the file stays; the next gateway finds
        // that nobody listens there.
        let _ = std::fs::remove_file(&self.1);
    }
}

/// Opens the socket, for this user only. Creates the directory if it does not exist.
///
/// # Errors
/// Errors of the operating system, or if another gateway uses the directory.
pub fn listen(directory: &Path) -> io::Result<Listener> {
    socket::prepare_directory(directory)?;
    let path = path_in(directory);
    match std::os::unix::net::UnixStream::connect(&path) {
        Ok(_) => {
            let what = "another gateway runs there";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        // The gateway that left this file has ended.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(&path)?;
        }
        Err(_) => {}
    }
    Ok(Listener(socket::listen(&path)?, path))
}

pub(crate) fn path_in(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

/// Answers requests until the future is dropped. `answer` performs a request and returns its
/// result, or one line with the reason why not.
pub async fn serve<A, F>(listener: Listener, answer: A) -> Infallible
where
    A: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Value, String>> + Send,
{
    let answer = Arc::new(answer);
    let poll_accept = |context: &mut Context<'_>| listener.0.poll_accept(context);
    accept::serve_connections("status", MAX_CLIENTS, poll_accept, |stream| {
        let answer = Arc::clone(&answer);
        async move {
            // A client may close its connection at any time.
            let _ = serve_client(stream, &*answer).await;
        }
    })
    .await
}

async fn serve_client<A, F>(stream: UnixStream, answer: &A) -> io::Result<()>
where
    A: Fn(Request) -> F,
    F: Future<Output = Result<Value, String>>,
{
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        let mut limited = (&mut stream).take(MAX_REQUEST);
        if tokio::time::timeout(CLIENT_TIMEOUT, limited.read_line(&mut line)).await?? == 0 {
            return Ok(());
        }
        let reply = match serde_json::from_str(&line) {
            Ok(request) => answer(request).await,
            Err(error) => Err(format!("not understood: {error}")),
        };
        let is_understood = line.ends_with('\n');
        let reply = match reply {
            Ok(done) => json!({ "done": done }),
            Err(reason) => json!({ "refused": reason }),
        };
        let mut reply = reply.to_string();
        reply.push('\n');
        stream.write_all(reply.as_bytes()).await?;
        if !is_understood {
            return stream.shutdown().await;
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum RequestError {
    /// No gateway runs with that state directory.
    NotRunning,
    /// The gateway does not answer within five seconds.
    Silent,
    /// The socket cannot be used.
    Socket(io::Error),
    /// The gateway refused the request, for this reason.
    Refused(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning => f.write_str("no gateway runs there"),
            Self::Silent => f.write_str("the gateway does not answer"),
            Self::Socket(error) => error.fmt(f),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for RequestError {}

/// A connection to a gateway's socket, for several requests.
pub struct StatusClient(BufReader<UnixStream>);

impl StatusClient {
    /// Connects to the gateway with this state directory.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn open(directory: &Path) -> Result<Self, RequestError> {
        match UnixStream::connect(path_in(directory)).await {
            Ok(stream) => Ok(Self(BufReader::new(stream))),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    RequestError::NotRunning
                }
                _ => RequestError::Socket(error),
            }),
        }
    }

    /// Sends a request and waits for the answer. After an error the connection cannot be used any
    /// more.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn ask(&mut self, request: &Request) -> Result<Value, RequestError> {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.answer(request)).await;
        answer.unwrap_or(Err(RequestError::Silent))
    }

    async fn answer(&mut self, request: &Request) -> Result<Value, RequestError> {
        let mut line = json!(request).to_string();
        line.push('\n');
        self.0.write_all(line.as_bytes()).await.map_err(RequestError::Socket)?;
        let mut reply = String::new();
        let read = (&mut self.0).take(MAX_ANSWER).read_line(&mut reply).await;
        if read.map_err(RequestError::Socket)? == 0 {
            return Err(RequestError::NotRunning);
        }
        let reply = serde_json::from_str(&reply).map_err(|e| RequestError::Socket(e.into()));
        let mut reply: Value = reply?;
        match reply["refused"].as_str() {
            Some(reason) => Err(RequestError::Refused(reason.to_owned())),
            None => Ok(reply["done"].take()),
        }
    }

    /// Requests the state.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn status(&mut self) -> Result<GatewayStatus, RequestError> {
        let answer = self.ask(&Request::Status).await?;
        serde_json::from_value(answer).map_err(|error| RequestError::Socket(error.into()))
    }
}

/// Sends one request to the gateway with this state directory.
///
/// # Errors
/// See [`RequestError`].
pub async fn ask(directory: &Path, request: &Request) -> Result<Value, RequestError> {
    StatusClient::open(directory).await?.ask(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let name = format!("lightseal-status-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn start(dir: &Dir) -> tokio::task::JoinHandle<Infallible> {
        let listener = listen(&dir.0.join("a")).unwrap();
        tokio::spawn(serve(listener, |request| async move {
            match request {
                Request::Status => {
                    Ok(json!(GatewayStatus { uptime_seconds: 7, ..GatewayStatus::default() }))
                }
                Request::Reload => Err("line 3 is wrong".to_owned()),
                Request::Rekey => Ok(json!({})),
            }
        }))
    }

    #[tokio::test]
    async fn one_asks_again_and_again() {
        let dir = Dir::new("asks");
        let _server = start(&dir);
        let mut client = StatusClient::open(&dir.0.join("a")).await.unwrap();
        for _ in 0..3 {
            assert_eq!(client.status().await.unwrap().uptime_seconds, 7);
        }
        let refused = client.ask(&Request::Reload).await.unwrap_err().to_string();
        assert_eq!(refused, "line 3 is wrong");
        assert_eq!(client.ask(&Request::Rekey).await.unwrap(), json!({}));
        let mode = std::fs::metadata(dir.0.join("a/gateway.sock")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn junk_is_answered_and_a_long_line_cut() {
        let dir = Dir::new("junk");
        let _server = start(&dir);
        let mut stream = UnixStream::connect(dir.0.join("a/gateway.sock")).await.unwrap();
        stream.write_all(b"{\"what\"\n").await.unwrap();
        let mut answer = String::new();
        BufReader::new(&mut stream).read_line(&mut answer).await.unwrap();
        assert!(answer.contains("not understood"), "{answer}");
        let mut stream = UnixStream::connect(dir.0.join("a/gateway.sock")).await.unwrap();
        stream.write_all(&vec![b'x'; MAX_REQUEST as usize]).await.unwrap();
        answer.clear();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("not understood"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_is_stopped_is_not_waited_for() {
        let dir = Dir::new("stopped");
        let _nobody_accepts = listen(&dir.0).unwrap();
        let error = ask(&dir.0, &Request::Status).await.unwrap_err();
        assert_eq!(error.to_string(), "the gateway does not answer");
    }

    #[tokio::test]
    async fn a_directory_has_one_gateway_and_a_dead_one_is_followed() {
        let dir = Dir::new("one");
        assert!(matches!(ask(&dir.0, &Request::Status).await, Err(RequestError::NotRunning)));
        let server = start(&dir);
        let error = listen(&dir.0.join("a")).unwrap_err();
        assert!(error.to_string().contains("another gateway"), "{error}");
        server.abort();
        let _ = server.await;
        assert!(matches!(
            ask(&dir.0.join("a"), &Request::Status).await,
            Err(RequestError::NotRunning)
        ));
        let _server = start(&dir);
        assert!(ask(&dir.0.join("a"), &Request::Status).await.is_ok());
    }
}
