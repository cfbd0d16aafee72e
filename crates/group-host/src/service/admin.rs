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

/// Opens the socket, which only this user can access.
///
/// # Errors
/// The operating system's error.
pub(super) fn listen(directory: &Path) -> io::Result<Listener> {
    check_directory(directory)?;
    let path = socket_of(directory);
    // The store is already locked by this process, so the process that created an existing socket
    // has ended.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    socket::listen(&path)
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
