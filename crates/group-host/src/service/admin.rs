//! The administrator's socket.

use super::registry::Registry;
use super::request::AdminRequest;
use crate::token::Token;
use lightseal_core::Instant;
use lightseal_group::controller::Activation;
use lightseal_owner_only::socket::{self, Listener, Stream, check_directory};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// The name of the socket in the controller's directory.
const SOCKET: &str = "admin.sock";
/// The maximum length of a request in bytes.
const MAX_REQUEST: u64 = 64 << 10;

/// The path of the socket of the controller in `directory`.
fn socket_of(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

/// Carries out a request and returns a description of the result.
///
/// # Errors
/// The reason of a refusal, in one line.
pub fn serve(
    registry: &mut Registry,
    now: Instant,
    request: AdminRequest,
) -> Result<Value, String> {
    let said = |value: Result<Value, serde_json::Error>| value.map_err(|error| error.to_string());
    let done = |result: Result<(), super::Refusal>| {
        result.map(|()| json!({})).map_err(|error| error.to_string())
    };
    let described = |result: Result<super::Described, super::Refusal>| {
        result.map_err(|error| error.to_string()).and_then(|d| said(serde_json::to_value(d)))
    };
    match request {
        AdminRequest::Create(create) => described(registry.create(now, &create)),
        AdminRequest::Remove { group } => done(registry.remove(&group)),
        AdminRequest::List => said(serde_json::to_value(registry.list())),
        AdminRequest::Show { group } => described(registry.show(&group)),
        AdminRequest::Enrol(enrol) => {
            match registry.enrol(&enrol).map_err(|error| error.to_string())? {
                Some(token) => as_json(&token),
                None => Ok(json!({ "device": enrol.device })),
            }
        }
        AdminRequest::NewToken(new) => {
            as_json(&registry.new_token(&new).map_err(|error| error.to_string())?)
        }
        AdminRequest::AddCredential { device, identity } => {
            done(registry.add_credential(&device, &identity))
        }
        AdminRequest::ReplaceCredential { device, identity } => {
            done(registry.replace_credential(&device, &identity))
        }
        AdminRequest::RemoveCredential { device, identity } => {
            done(registry.remove_credential(&device, &identity))
        }
        AdminRequest::Devices => said(serde_json::to_value(registry.list_devices())),
        AdminRequest::Revoke { device } => done(registry.revoke(now, &device)),
        AdminRequest::Evict { group, device } => described(registry.evict(now, &group, &device)),
        AdminRequest::Readmit { group, device } => done(registry.readmit(now, &group, &device)),
        AdminRequest::Rekey { group, at_once } => {
            let activation = if at_once { Activation::AtOnce } else { Activation::Scheduled };
            described(registry.rekey(now, &group, activation))
        }
        AdminRequest::Log { most, group, device } => {
            let log = registry.read_log(most, group.as_deref(), device.as_deref());
            said(serde_json::to_value(log.map_err(|error| error.to_string())?))
        }
        AdminRequest::Backup { directory } => done(registry.back_up(&directory)),
    }
}

fn as_json(token: &Token) -> Result<Value, String> {
    let text = token.to_text().ok_or("the names are too long for a token")?;
    Ok(json!({ "device": token.device, "controller": token.controller, "token": *text }))
}

/// The administrator's socket of a controller. Its file is removed when this is dropped: on Windows the
/// file names a pipe, and whoever knows the name can listen there when the controller has ended.
#[derive(Debug)]
pub(super) struct AdminSocket {
    listener: Listener,
    path: PathBuf,
}

impl AdminSocket {
    /// Accepts the next connection.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) async fn accept(&self) -> io::Result<Stream> {
        self.listener.accept().await
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the socket, which only this user can access.
///
/// # Errors
/// The operating system's error.
pub(super) fn listen(directory: &Path) -> io::Result<AdminSocket> {
    check_directory(directory)?;
    let path = socket_of(directory);
    // The store is already locked by this process, so the process that created an existing socket
    // has ended.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = socket::listen(&path)?;
    Ok(AdminSocket { listener, path })
}

/// Reads one request, and sends the result of `answer`.
pub(super) async fn serve_connection(
    stream: Stream,
    answer: impl FnOnce(AdminRequest) -> Result<Value, String>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = zeroize::Zeroizing::new(String::new());
    (&mut stream).take(MAX_REQUEST).read_line(&mut line).await?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(request),
        Err(error) => Err(format!("malformed request: {error}")),
    };
    let reply = match reply {
        Ok(done) => json!({ "done": done }),
        Err(reason) => json!({ "refused": reason }),
    };
    let mut reply = zeroize::Zeroizing::new(reply.to_string());
    reply.push('\n');
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

/// Why an administrator's request failed.
#[derive(Debug)]
pub enum AskError {
    /// No controller is running in that directory.
    NotRunning,
    /// The socket cannot be used.
    Socket(io::Error),
    /// The controller refused the request, with this reason.
    Refused(String),
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRunning => f.write_str("no controller runs there"),
            Self::Socket(error) => error.fmt(f),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for AskError {}

/// Sends a request to the controller that runs in `directory`.
///
/// # Errors
/// See [`AskError`].
pub async fn ask(directory: &Path, request: &AdminRequest) -> Result<Value, AskError> {
    let stream = match socket::connect(&socket_of(directory)).await {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Err(AskError::NotRunning);
        }
        Err(error) => return Err(AskError::Socket(error)),
    };
    socket::check_listener(&stream).map_err(AskError::Socket)?;
    let mut stream = BufReader::new(stream);
    let mut line = serde_json::to_string(request).map_err(|e| AskError::Socket(e.into()))?;
    line.push('\n');
    stream.write_all(line.as_bytes()).await.map_err(AskError::Socket)?;
    let mut reply = zeroize::Zeroizing::new(String::new());
    stream.read_line(&mut reply).await.map_err(AskError::Socket)?;
    let mut reply: Value = serde_json::from_str(&reply).map_err(|e| AskError::Socket(e.into()))?;
    match reply["refused"].as_str() {
        Some(reason) => Err(AskError::Refused(reason.to_owned())),
        None => Ok(reply["done"].take()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{BufRead, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    /// What a process of the test does that another user runs, and in which directory.
    const ROLE: &str = "LIGHTSEAL_TEST_ROLE";
    const DIRECTORY: &str = "LIGHTSEAL_TEST_DIRECTORY";
    const LISTENS: u32 = 65_533;
    const ASKS: u32 = 65_534;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// Somebody else's program at the path of the socket: it answers whatever it is asked.
    fn pose(directory: &Path) {
        let path = socket_of(directory);
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        println!("ready");
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            if io::BufReader::new(&stream).read_line(&mut line).is_ok_and(|len| len > 0) {
                stream.write_all(b"{\"done\":\"posed\"}\n").unwrap();
            }
        }
    }

    fn is_denied(directory: &Path) {
        let asked = runtime().block_on(ask(directory, &AdminRequest::Devices));
        match asked {
            Err(AskError::Socket(error)) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                assert!(error.to_string().contains("another user"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_socket_of_another_user_is_not_asked() {
        if let (Ok(role), Some(directory)) = (std::env::var(ROLE), std::env::var_os(DIRECTORY)) {
            return match role.as_str() {
                "listens" => pose(Path::new(&directory)),
                _ => is_denied(Path::new(&directory)),
            };
        }
        let directory = Dir::new("lightseal-admin-asked");
        if directory.0.metadata().unwrap().uid() != 0 {
            return skip::test("only root can run programs as other users");
        }
        chown(&directory.0, Some(LISTENS), None).unwrap();
        let test = "service::admin::tests::a_socket_of_another_user_is_not_asked";
        let command = |user, role| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args([test, "--exact", "--nocapture"]).uid(user).current_dir("/");
            command.env(ROLE, role).env(DIRECTORY, &directory.0);
            command
        };
        let listener = command(LISTENS, "listens").stdout(Stdio::piped()).spawn();
        let Ok(mut listener) = listener else {
            return skip::test("other users cannot run the program of the tests");
        };
        let said = io::BufReader::new(listener.stdout.take().unwrap());
        let is_ready = said.lines().any(|line| line.is_ok_and(|line| line.ends_with("ready")));
        let asked = command(ASKS, "asks").output();
        listener.kill().unwrap();
        listener.wait().unwrap();
        let asked = asked.unwrap();
        assert!(is_ready && asked.status.success(), "{}", String::from_utf8_lossy(&asked.stdout));
    }

    #[test]
    fn the_socket_ends_with_the_controller() {
        let directory = Dir::new("lightseal-admin-end");
        std::fs::set_permissions(&directory.0, std::fs::Permissions::from_mode(0o700)).unwrap();
        let runtime = runtime();
        let _entered = runtime.enter();
        let socket = listen(&directory.0).unwrap();
        assert!(socket::is_socket(&socket_of(&directory.0)));
        drop(socket);
        assert!(!socket_of(&directory.0).exists());
    }
}
