//! The socket on which a running proxy answers its owner.
//!
//! The owner sends one line of JSON, `"status"` or `"drain"`, and receives one line, `{"done": ...}`
//! or `{"refused": "why"}`. A gateway answers in the same form. Then the connection is closed.

use super::report::Report;
use crate::failure::{Context, Failure};
use crate::system;
use lightseal_owner_only::socket;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// The beginning and the end of the names of proxies' sockets in the runtime directory.
const PREFIX: &str = "proxy-";
const SUFFIX: &str = ".sock";
/// The requests that are understood: to report, and to drain.
const STATUS: &str = "status";
const DRAIN: &str = "drain";
/// Maximum length of a question in bytes.
const MAX_REQUEST: u64 = 1 << 10;
/// Maximum length of an answer in bytes. Ten thousand peers take a third of it.
const MAX_ANSWER: u64 = 16 << 20;
/// How long a client may take to send its question, and to read the answer. Other clients wait
/// meanwhile.
const QUESTION: Duration = Duration::from_secs(2);
/// How long a proxy may take to answer. One that takes longer is stopped (SIGSTOP) or overloaded.
const PATIENCE: Duration = Duration::from_secs(5);
/// The age from which a socket on which nobody listens counts as left by a killed proxy.
const ABANDONED: Duration = Duration::from_secs(10);

/// An open socket. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: socket::Listener,
    path: PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        // If the file cannot be removed, the next proxy will find it abandoned.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The directory for the sockets of this user's proxies: the directory that a service manager
/// created for the service, else `lightseal` in the user's runtime directory.
pub(crate) fn runtime_directory() -> PathBuf {
    // systemd separates several directories by colons; the first one is the service's own.
    let made = std::env::var("RUNTIME_DIRECTORY").ok();
    let made = made.as_deref().and_then(|list| list.split(':').next()).filter(|d| !d.is_empty());
    if let Some(made) = made {
        return made.into();
    }
    if let Some(users) =
        std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty())
    {
        return Path::new(&users).join("lightseal");
    }
    system::runtime_directory()
}

/// The default path of the socket of a proxy that listens on `listen`.
fn default_path(role: &str, listen: SocketAddr) -> PathBuf {
    runtime_directory().join(system::file_name(format!("{PREFIX}{role}-{listen}{SUFFIX}")))
}

/// Opens the socket at the path `asked`, no socket if that is `none`, or the default one if it is
/// not given. If the default one cannot be opened, the proxy runs without it.
///
/// # Errors
///
/// If the socket that was asked for cannot be opened.
pub(crate) fn open(
    asked: Option<&Path>,
    role: &str,
    listen: SocketAddr,
) -> Result<Option<Listener>, Failure> {
    match asked {
        Some(path) if path == Path::new("none") => Ok(None),
        Some(path) => {
            let listener =
                listen_at(path).context(format_args!("--status-socket {}", path.display()))?;
            Ok(Some(listener))
        }
        None => {
            let path = default_path(role, listen);
            let opened = listen_at(&path);
            if let Err(error) = &opened {
                let path = path.display();
                tracing::debug!("`lightseal proxy status` cannot ask this proxy: {path}: {error}");
            }
            Ok(opened.ok())
        }
    }
}

fn listen_at(path: &Path) -> io::Result<Listener> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => {
            socket::prepare_directory(directory)?;
            sockets(directory).iter().filter(|path| is_abandoned(path)).for_each(|path| {
                let _ = std::fs::remove_file(path);
            });
        }
        _ => socket::check_directory(Path::new("."))?,
    }
    match socket::try_connect(path) {
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another proxy answers there"));
        }
        // The socket belongs to a proxy that was killed. Connections to other files are refused
        // too.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            if !socket::is_socket(path) {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file is there already",
                ));
            }
            std::fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    Ok(Listener { socket: socket::listen(path)?, path: path.to_owned() })
}

/// The paths of proxies' sockets in the runtime directory; none if it does not exist.
///
/// # Errors
///
/// If another user can have put sockets there.
pub(crate) fn sockets_of_user(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    match socket::check_directory(directory) {
        Ok(()) => Ok(sockets(directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::new(plain(&format!("{}: {error}", directory.display())))),
    }
}

/// The paths of proxies' sockets in a directory.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let ours = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
    let named = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(ours));
    let mut paths: Vec<_> = named.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Whether a socket was left by a killed proxy. A new socket does not count: its proxy may not
/// listen yet.
fn is_abandoned(path: &Path) -> bool {
    let age = path.symlink_metadata().and_then(|metadata| metadata.modified());
    let age = age.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    age.is_some_and(|age| age > ABANDONED)
        && socket::is_socket(path)
        && socket::try_connect(path).is_err_and(refused)
}

/// Answers clients one after the other until the future is dropped. Without a socket it waits
/// forever. `drain` is called when the owner asks for it.
pub(crate) async fn serve(
    listener: Option<&Listener>,
    report: impl Fn() -> Value,
    drain: impl Fn(),
) -> Infallible {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.socket.accept().await {
            Ok(stream) => {
                // A client that closes its connection or is too slow has to ask again.
                let _ = attend(stream, &report, &drain).await;
            }
            Err(error) => {
                tracing::debug!("status: {error}");
                tokio::time::sleep(QUESTION / 20).await;
            }
        }
    }
}

async fn attend(
    stream: socket::Stream,
    report: &impl Fn() -> Value,
    drain: &impl Fn(),
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let mut limited = (&mut stream).take(MAX_REQUEST);
    tokio::time::timeout(QUESTION, limited.read_line(&mut line)).await??;
    let answer = match serde_json::from_str::<String>(&line) {
        Ok(question) if question == STATUS => json!({ "done": report() }),
        Ok(question) if question == DRAIN => {
            drain();
            json!({ "done": null })
        }
        _ => json!({ "refused": "not understood; expected \"status\" or \"drain\"" }),
    };
    let mut answer = answer.to_string();
    answer.push('\n');
    tokio::time::timeout(QUESTION, stream.write_all(answer.as_bytes())).await??;
    stream.shutdown().await
}

/// Asks a proxy. Returns all keys of its statistics, and the part of them that is shown to people.
///
/// # Errors
///
/// If no proxy answers on the socket, or the socket belongs to another user. The text has no control
/// characters, whatever the socket's name and answer contain.
pub(crate) async fn ask(path: &Path) -> Result<(Value, Report), Failure> {
    let report = async {
        let value = answer(path, STATUS).await?;
        let report = serde_json::from_value(made_plain(&value));
        Ok((value, report.context(format_args!("{}: the answer", path.display()))?))
    };
    report.await.map_err(|failure: Failure| Failure::new(plain(&failure.to_string())))
}

/// Tells a proxy to take nothing new, and to end when its flows are silent.
///
/// # Errors
///
/// As [`ask`].
pub(crate) async fn drain(path: &Path) -> Result<(), Failure> {
    let answer = answer(path, DRAIN).await;
    answer.map(drop).map_err(|failure| Failure::new(plain(&failure.to_string())))
}

/// Replaces control characters, so that a text cannot affect the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Replaces control characters in all texts and keys of a value.
fn made_plain(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(text)),
        Value::Array(values) => values.iter().map(made_plain).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (plain(key), made_plain(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

async fn answer(path: &Path, request: &str) -> Result<Value, Failure> {
    let name = path.display();
    let answer = tokio::time::timeout(PATIENCE, exchange(path, request)).await;
    let answer = match answer {
        Ok(answer) => answer.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Failure::new(format_args!("{name}: no proxy runs there"))
            }
            _ => Failure::new(format_args!("{name}: {error}")),
        })?,
        Err(_) => return Err(Failure::new(format_args!("{name}: the proxy does not answer"))),
    };
    let mut answer: Value =
        serde_json::from_str(&answer).context(format_args!("{name}: the answer"))?;
    if let Some(why) = answer["refused"].as_str() {
        return Err(Failure::new(format_args!("{name}: {why}")));
    }
    Ok(answer["done"].take())
}

async fn exchange(path: &Path, request: &str) -> io::Result<String> {
    let mut stream = socket::connect(path).await?;
    socket::check_listener(&stream)?;
    stream.write_all(format!("{}\n", json!(request)).as_bytes()).await?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
    Ok(answer)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let name = format!("lightseal-proxy-status-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn report() -> Value {
        json!({ "role": "client", "uptime_seconds": 7, "oversize": 3 })
    }

    #[tokio::test]
    async fn one_asks_again_and_again_and_junk_is_refused() {
        let dir = Dir::new("asks");
        let path = dir.0.join("proxy-client-a.sock");
        let listen = ([127, 0, 0, 1], 5683).into();
        let listener = open(Some(&path), "client", listen).unwrap().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let taken = open(Some(&path), "client", listen).unwrap_err().to_string();
        assert!(taken.contains("another proxy answers there"), "{taken}");
        let drains = std::cell::Cell::new(0);
        let questions = async {
            for _ in 0..3 {
                let (value, report) = ask(&path).await.unwrap();
                assert_eq!((&value["oversize"], report.uptime_seconds), (&json!(3), 7));
            }
            let mut stream = socket::connect(&path).await.unwrap();
            stream.write_all(&vec![b'x'; MAX_REQUEST as usize]).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains("not understood"), "{answer}");
            drain(&path).await.unwrap();
            // A client that sends nothing does not block others for long.
            let _silent = socket::connect(&path).await.unwrap();
            ask(&path).await.unwrap();
        };
        tokio::select! {
            () = questions => {}
            never = serve(Some(&listener), report, || drains.set(drains.get() + 1)) => match never {},
        }
        assert_eq!(drains.get(), 1);
        drop(listener);
        assert!(!path.exists());
        assert!(ask(&path).await.unwrap_err().to_string().contains("no proxy runs there"));
        assert!(open(Some(Path::new("none")), "client", listen).unwrap().is_none());
    }

    #[tokio::test]
    async fn sockets_of_killed_proxies_are_removed_and_others_stay() {
        let dir = Dir::new("killed");
        socket::prepare_directory(&dir.0).unwrap();
        let path = |name: &str| dir.0.join(format!("proxy-server-{name}.sock"));
        let bind = |name: &str| std::os::unix::net::UnixListener::bind(path(name)).unwrap();
        drop((bind("killed"), bind("new")));
        let _alive = bind("alive");
        let old = SystemTime::now() - 2 * ABANDONED;
        std::fs::write(path("file"), "precious").unwrap();
        for name in ["killed", "alive", "file"] {
            // The time of a socket cannot be set through an open file.
            let at = rustix::fs::Timespec {
                tv_sec: old.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as _,
                tv_nsec: 0,
            };
            let times = rustix::fs::Timestamps { last_access: at, last_modification: at };
            let flags = rustix::fs::AtFlags::empty();
            rustix::fs::utimensat(rustix::fs::CWD, path(name), &times, flags).unwrap();
        }
        let _own = listen_at(&path("own")).unwrap();
        let names = ["alive", "file", "new", "own"].map(path);
        assert_eq!(sockets(&dir.0), names);
        // Neither is a file that is no socket removed where the socket is to be.
        let said = listen_at(&path("file")).unwrap_err().to_string();
        assert!(said.contains("a file is there already"), "{said}");
        assert_eq!(std::fs::read(path("file")).unwrap(), b"precious");
    }

    #[test]
    fn a_runtime_directory_of_another_user_is_not_looked_into() {
        let dir = Dir::new("strange");
        assert!(sockets_of_user(&dir.0).unwrap().is_empty(), "no proxy has made it yet");
        socket::prepare_directory(&dir.0).unwrap();
        drop(std::os::unix::net::UnixListener::bind(dir.0.join("proxy-client-a.sock")).unwrap());
        assert_eq!(sockets_of_user(&dir.0).unwrap().len(), 1);
        std::fs::set_permissions(&dir.0, std::fs::Permissions::from_mode(0o777)).unwrap();
        let said = sockets_of_user(&dir.0).unwrap_err().to_string();
        assert!(said.contains("other users can change the directory"), "{said}");
    }

    #[tokio::test]
    async fn what_a_socket_says_does_not_reach_the_terminal_as_commands() {
        let dir = Dir::new("says");
        socket::prepare_directory(&dir.0).unwrap();
        let path = dir.0.join("proxy-client-\u{1b}[2J.sock");
        let listener = socket::listen(&path).unwrap();
        let answers = [
            json!({ "refused": "\u{1b}[2J" }).to_string(),
            json!({ "done": "\u{9b}2J" }).to_string(),
            json!({ "done": { "role": "\u{1b}[2J", "peers": [{ "address": "\r1\u{7}" }] } })
                .to_string(),
        ];
        let serving = async {
            for answer in answers {
                let mut stream = listener.accept().await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                let _ = stream.read_to_string(&mut String::new()).await;
            }
        };
        let asking = async {
            for _ in 0..2 {
                let said = ask(&path).await.unwrap_err().to_string();
                assert!(said.contains("?[2J") && !said.chars().any(char::is_control), "{said:?}");
            }
            let (value, report) = ask(&path).await.unwrap();
            assert_eq!((&*report.role, &*report.peers[0].address), ("?[2J", "?1?"));
            assert_eq!(value["role"], "\u{1b}[2J", "programs get it unchanged");
        };
        tokio::join!(serving, asking);
    }
}
