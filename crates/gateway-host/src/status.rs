//! How a gateway stands, and the Unix socket where it says so.
//!
//! The socket is `gateway.sock` in the state directory, open alone to the user that has opened it,
//! which is not the one that the gateway becomes then. Whoever asks sends lines of JSON, each a
//! [`Request`], and gets a line for each: `{"done": ...}` or `{"refused": "why"}`.

use crate::identity::PublicKey;
use crate::visitors;
use owner_only::socket;
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

/// The socket, in the state directory.
const SOCKET: &str = "gateway.sock";
/// The longest request.
const MAX_REQUEST: u64 = 4 << 10;
/// The longest answer: a thousand peers are a third of it.
const MAX_ANSWER: u64 = 4 << 20;
/// Questioners at a time; others wait.
const QUESTIONERS: usize = 16;
/// A questioner that says nothing for so long is sent away.
const SILENCE: Duration = Duration::from_secs(60);
/// A gateway that answers nothing for so long is stopped, or has too many questioners.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a gateway stands at one moment. Counters begin at zero when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// Its name.
    pub gateway: String,
    /// Its version.
    pub version: String,
    /// Its public key.
    pub public_key: Option<PublicKey>,
    /// How frames are sealed, as the configuration calls it.
    pub scheme: String,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// The side of the MACsec devices.
    pub lan: LanStanding,
    /// What is remembered of flows.
    pub flows: FlowStanding,
    /// The other gateways, in the order of the configuration.
    pub peers: Vec<PeerStanding>,
    /// Frames and packets that were dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Other counters, by name: lower case with underscores.
    pub counters: BTreeMap<String, u64>,
}

/// The side of the MACsec devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LanStanding {
    /// Name of the interface.
    pub interface: String,
    /// How its frames are read and written: `xdp`, `packet` and so on.
    pub io: String,
    /// What came from there.
    pub received: Traffic,
    /// What went there.
    pub sent: Traffic,
}

/// Frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// How many.
    pub frames: u64,
    /// Their bytes, from the destination address to the last byte before the FCS.
    pub bytes: u64,
}

/// What is remembered of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowStanding {
    /// Flows now.
    pub present: u64,
    /// As many there may be.
    pub most: u64,
    /// Flows that were refused, since there were too many.
    pub refused: u64,
    /// Frames that wait until a peer knows their flow.
    pub held_frames: u64,
}

/// Another gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerStanding {
    /// Its name.
    pub name: String,
    /// Whether the management channel is up.
    pub up: bool,
    /// For how long it is so, in seconds.
    pub since_seconds: u64,
    /// Where its packets go.
    pub remote: Option<SocketAddr>,
    /// Why the channel is down.
    pub why_down: Option<String>,
    /// Whether nothing that is sent there through the tunnel is answered.
    pub unanswered: bool,
    /// The epoch of the keys we send with.
    pub epoch: Option<u32>,
    /// The largest IP packet on the way there, in bytes.
    pub path_mtu_bytes: Option<u32>,
    /// Flows that go there or come from there.
    pub flows: u64,
    /// Frames that came from there, as they went to the LAN.
    pub received: Traffic,
    /// Frames that went there, as they came from the LAN.
    pub sent: Traffic,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// How things stand: a [`Standing`].
    Status,
    /// Read the configuration again.
    Reload,
    /// New keys for the tunnel.
    Rekey,
}

/// The socket, open; its file goes with it.
#[derive(Debug)]
pub struct Listener(socket::Listener, PathBuf);

impl Drop for Listener {
    fn drop(&mut self) {
        // Without a right to it, it stays, and the next gateway finds nobody there.
        let _ = std::fs::remove_file(&self.1);
    }
}

/// Opens the socket, to this user alone; makes the directory if it is not there.
///
/// # Errors
/// Those of the operating system, or that another gateway has that directory.
pub fn listen(directory: &Path) -> io::Result<Listener> {
    socket::prepare_directory(directory)?;
    let path = path_in(directory);
    match std::os::unix::net::UnixStream::connect(&path) {
        Ok(_) => {
            let what = "another gateway runs there";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        // Whoever left this is gone.
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

/// Answers whoever asks, until it is dropped. `answer` does what is asked and says what came of it,
/// or in one line why not.
pub async fn serve<A, F>(listener: Listener, answer: A) -> Infallible
where
    A: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Value, String>> + Send,
{
    let answer = Arc::new(answer);
    let poll_accept = |context: &mut Context<'_>| listener.0.poll_accept(context);
    visitors::receive("status", QUESTIONERS, poll_accept, |stream| {
        let answer = Arc::clone(&answer);
        async move {
            // Whoever hangs up has heard enough.
            let _ = attend(stream, &*answer).await;
        }
    })
    .await
}

async fn attend<A, F>(stream: UnixStream, answer: &A) -> io::Result<()>
where
    A: Fn(Request) -> F,
    F: Future<Output = Result<Value, String>>,
{
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        let mut limited = (&mut stream).take(MAX_REQUEST);
        if tokio::time::timeout(SILENCE, limited.read_line(&mut line)).await?? == 0 {
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
pub enum AskError {
    /// No gateway runs on that directory.
    NotRunning,
    /// It does not answer within five seconds.
    Silent,
    /// The socket cannot be used.
    Socket(io::Error),
    /// It says no.
    Refused(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning => f.write_str("no gateway runs there"),
            Self::Silent => f.write_str("it does not answer"),
            Self::Socket(error) => error.fmt(f),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for AskError {}

/// A way to ask a gateway again and again.
pub struct Door(BufReader<UnixStream>);

impl Door {
    /// That of the gateway with this state directory.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn open(directory: &Path) -> Result<Self, AskError> {
        match UnixStream::connect(path_in(directory)).await {
            Ok(stream) => Ok(Self(BufReader::new(stream))),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NotRunning,
                _ => AskError::Socket(error),
            }),
        }
    }

    /// Asks. After an error the door is of no use any more.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn ask(&mut self, request: &Request) -> Result<Value, AskError> {
        let answer = tokio::time::timeout(PATIENCE, self.answer(request)).await;
        answer.unwrap_or(Err(AskError::Silent))
    }

    async fn answer(&mut self, request: &Request) -> Result<Value, AskError> {
        let mut line = json!(request).to_string();
        line.push('\n');
        self.0.write_all(line.as_bytes()).await.map_err(AskError::Socket)?;
        let mut reply = String::new();
        let read = (&mut self.0).take(MAX_ANSWER).read_line(&mut reply).await;
        if read.map_err(AskError::Socket)? == 0 {
            return Err(AskError::NotRunning);
        }
        let reply = serde_json::from_str(&reply).map_err(|e| AskError::Socket(e.into()));
        let mut reply: Value = reply?;
        match reply["refused"].as_str() {
            Some(reason) => Err(AskError::Refused(reason.to_owned())),
            None => Ok(reply["done"].take()),
        }
    }

    /// Asks how things stand.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn standing(&mut self) -> Result<Standing, AskError> {
        let answer = self.ask(&Request::Status).await?;
        serde_json::from_value(answer).map_err(|error| AskError::Socket(error.into()))
    }
}

/// Asks the gateway with this state directory once.
///
/// # Errors
/// See [`AskError`].
pub async fn ask(directory: &Path, request: &Request) -> Result<Value, AskError> {
    Door::open(directory).await?.ask(request).await
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
                Request::Status => Ok(json!(Standing { uptime_seconds: 7, ..Standing::default() })),
                Request::Reload => Err("line 3 is wrong".to_owned()),
                Request::Rekey => Ok(json!({})),
            }
        }))
    }

    #[tokio::test]
    async fn one_asks_again_and_again() {
        let dir = Dir::new("asks");
        let _server = start(&dir);
        let mut door = Door::open(&dir.0.join("a")).await.unwrap();
        for _ in 0..3 {
            assert_eq!(door.standing().await.unwrap().uptime_seconds, 7);
        }
        let refused = door.ask(&Request::Reload).await.unwrap_err().to_string();
        assert_eq!(refused, "line 3 is wrong");
        assert_eq!(door.ask(&Request::Rekey).await.unwrap(), json!({}));
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
        assert_eq!(error.to_string(), "it does not answer");
    }

    #[tokio::test]
    async fn a_directory_has_one_gateway_and_a_dead_one_is_followed() {
        let dir = Dir::new("one");
        assert!(matches!(ask(&dir.0, &Request::Status).await, Err(AskError::NotRunning)));
        let server = start(&dir);
        let error = listen(&dir.0.join("a")).unwrap_err();
        assert!(error.to_string().contains("another gateway"), "{error}");
        server.abort();
        let _ = server.await;
        assert!(matches!(ask(&dir.0.join("a"), &Request::Status).await, Err(AskError::NotRunning)));
        let _server = start(&dir);
        assert!(ask(&dir.0.join("a"), &Request::Status).await.is_ok());
    }
}
