//! A named pipe for a single user.
//!
//! Pipes have names and no paths. The file at the socket's path therefore names the pipe, with a name
//! that is random, so that no other program can have taken it. The pipe's access list lets its owner,
//! administrators and the system connect, and nobody over the network.
//!
//! Other users can list the names of pipes, and can take a name when a listener was killed and its file
//! is still there. So whoever connects checks that the pipe belongs to the owner of the file.

use crate::access_list::{self, Fault, Forbidden};
use crate::{file, system};
use interprocess::ConnectWaitMode;
use interprocess::os::windows::named_pipe::pipe_mode::Bytes;
use interprocess::os::windows::named_pipe::tokio::{DuplexPipeStream, PipeListener};
use interprocess::os::windows::named_pipe::{self, PipeListenerOptions, PipeMode};
use interprocess::os::windows::security_descriptor::SecurityDescriptor;
use std::io::{self, Read};
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::path::Path;
use std::time::Duration;
use widestring::U16CString;

/// The access list of a pipe, in the language of security descriptors: full access for the owner of
/// the pipe, the system and administrators, and none for others.
const ACCESS: &str = "D:P(A;;GA;;;OW)(A;;GA;;;SY)(A;;GA;;;BA)";
/// What a file that names a pipe begins with.
const PREFIX: &str = r"\\.\pipe\lightseal-";
/// The length in bytes of the random part of a pipe's name.
const RANDOM_BYTES: usize = 16;
/// How long to wait for a listener that lives and accepts nobody.
const PATIENCE: ConnectWaitMode = ConnectWaitMode::Timeout(Duration::from_secs(3));

/// A connection to a socket of this user.
pub type Stream = DuplexPipeStream<Bytes>;

/// A socket that accepts connections of the user that opened it, and of administrators.
#[derive(Debug)]
pub struct Listener(PipeListener<Bytes, Bytes>);

/// Creates `directory` with access for its owner only, if it does not exist, and
/// [checks](check_directory) it.
///
/// # Errors
/// Errors of the operating system, or a directory that fails the check.
pub fn prepare_directory(directory: &Path) -> io::Result<()> {
    file::private_directory(directory)?;
    check_directory(directory)
}

/// Checks whether a directory may hold a socket: whether it is one, belongs to this user, the system or
/// administrators, and can be changed by nobody else.
///
/// # Errors
/// Errors of the operating system, or a directory that fails the check.
pub fn check_directory(directory: &Path) -> io::Result<()> {
    if !directory.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    system::check(directory, Forbidden::Change)?.map_err(|fault| denied("directory", &fault))
}

/// Opens a socket at `path`, which must not exist. Must be called within a tokio runtime.
///
/// # Errors
/// Errors of the operating system.
pub fn listen(path: &Path) -> io::Result<Listener> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let name = format!("{PREFIX}{:032x}", u128::from_be_bytes(random));
    let listener = pipe(&name, &format!("O:{}{ACCESS}", system::user()?))?;
    file::create(path, name.as_bytes())?;
    Ok(Listener(listener))
}

/// Creates the pipe with this name and this descriptor, a text.
fn pipe(name: &str, descriptor: &str) -> io::Result<PipeListener<Bytes, Bytes>> {
    let descriptor = U16CString::from_str(descriptor).map_err(io::Error::other)?;
    PipeListenerOptions::new()
        .path(name)
        .mode(PipeMode::Bytes)
        .security_descriptor(Some(SecurityDescriptor::deserialize(&descriptor)?))
        .create_tokio_duplex::<Bytes>()
}

impl Listener {
    /// Accepts the next connection.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub async fn accept(&self) -> io::Result<Stream> {
        self.0.accept().await
    }
}

/// Connects to the socket at `path`.
///
/// # Errors
/// Errors of the operating system. As with a Unix socket, the kind is `ConnectionRefused` if the file
/// is no socket, or nobody listens any more. It is `PermissionDenied` if the listener is neither the
/// owner of the file nor an administrator, and `TimedOut` if it accepts nobody for 3 seconds.
pub async fn connect(path: &Path) -> io::Result<Stream> {
    let name = pipe_of(path)?;
    let stream = Stream::connect_by_path_with_wait_mode(name.as_str(), PATIENCE).await;
    let stream = stream.map_err(refused)?;
    check_pipe(stream.as_handle(), path)?;
    Ok(stream)
}

/// Connects to the socket at `path` and closes the connection again.
///
/// # Errors
/// The errors of [`connect`], but the kind is `ConnectionRefused` if somebody else than the owner of the
/// file listens: nobody listens any more for whom the file was made.
pub fn try_connect(path: &Path) -> io::Result<()> {
    let name = pipe_of(path)?;
    type Waiting = named_pipe::DuplexPipeStream<Bytes>;
    let stream = Waiting::connect_by_path_with_wait_mode(name.as_str(), PATIENCE);
    let stream = stream.map_err(refused)?;
    check_pipe(stream.as_handle(), path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => io::ErrorKind::ConnectionRefused.into(),
        _ => error,
    })
}

/// Checks who listens at the other end of a connection: this user, the system or administrators.
/// Administrators may ask every user's programs.
///
/// # Errors
/// Errors of the operating system, or a pipe of another user.
pub fn check_listener(stream: &Stream) -> io::Result<()> {
    match system::check_pipe(stream.as_handle(), &system::user()?)? {
        Err(Fault::Owner(_)) if system::is_administrator()? => Ok(()),
        verdict => verdict.map_err(|fault| denied("pipe", &fault)),
    }
}

/// Checks that a pipe belongs to the owner of the file at `path`, the system or administrators, and is
/// open to nobody else.
fn check_pipe(pipe: BorrowedHandle<'_>, path: &Path) -> io::Result<()> {
    let file = system::descriptor(path)?;
    let owner = access_list::owner(&file).unwrap_or_default();
    system::check_pipe(pipe, owner)?.map_err(|fault| denied("pipe", &fault))
}

fn denied(what: &str, fault: &Fault) -> io::Error {
    let why = match fault {
        Fault::Owner(_) => format!("the {what} {fault}"),
        Fault::Open(_) => format!("the {what} is {fault}"),
    };
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Whether a path is a socket itself, and neither another file nor a link.
pub fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) && pipe_of(path).is_ok()
}

/// The name of the pipe that the file at `path` names.
fn pipe_of(path: &Path) -> io::Result<String> {
    let most = PREFIX.len() + 2 * RANDOM_BYTES;
    let mut name = String::new();
    // One byte more shows that a file is longer.
    match std::fs::File::open(path)?.take(most as u64 + 1).read_to_string(&mut name) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(error),
        _ => {}
    }
    let random = name.strip_prefix(PREFIX).unwrap_or_default();
    let is_name =
        random.len() == 2 * RANDOM_BYTES && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_name { Ok(name) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

/// The error for a pipe that does not exist: whoever listened there has ended.
fn refused(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::ErrorKind::ConnectionRefused.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::Dir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn one_connects_by_the_path_while_somebody_listens() {
        let dir = Dir::new("connects");
        prepare_directory(&dir.0).unwrap();
        let path = dir.0.join("s");
        assert_eq!(connect(&path).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = listen(&path).unwrap();
        assert!(is_socket(&path) && listen(&path).is_err(), "one socket a path");
        let (served, mut asking) = tokio::join!(listener.accept(), connect(&path));
        let (mut served, asking) = (served.unwrap(), asking.as_mut().unwrap());
        asking.write_all(b"?").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'?');
        drop((served, listener));
        assert_eq!(connect(&path).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(try_connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_listener_that_accepts_nobody_is_not_waited_for_without_end() {
        let dir = Dir::new("busy");
        prepare_directory(&dir.0).unwrap();
        let path = dir.0.join("s");
        let _listener = listen(&path).unwrap();
        let _first = connect(&path).await.unwrap();
        assert_eq!(connect(&path).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(try_connect(&path).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// Another user may listen at a name that a killed listener had.
    #[tokio::test]
    async fn a_pipe_that_others_can_open_is_not_the_listener_s() {
        let dir = Dir::new("pipes");
        prepare_directory(&dir.0).unwrap();
        let path = dir.0.join("s");
        let own = listen(&path).unwrap();
        // Each connection that is accepted makes room for the next one.
        let (accepted, connected) = tokio::join!(own.accept(), connect(&path));
        accepted.unwrap();
        check_listener(&connected.unwrap()).unwrap();
        try_connect(&path).unwrap();
        let (path, name) = (dir.0.join("t"), format!("{PREFIX}{:032x}", std::process::id()));
        file::create(&path, name.as_bytes()).unwrap();
        let owner = system::user().unwrap();
        let other = pipe(&name, &format!("O:{owner}D:P(A;;GA;;;WD)")).unwrap();
        let (accepted, connected) = tokio::join!(other.accept(), connect(&path));
        accepted.unwrap();
        let error = connected.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "the pipe is open to everyone");
        assert_eq!(try_connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn other_files_are_no_sockets() {
        let dir = Dir::new("others");
        prepare_directory(&dir.0).unwrap();
        let long = format!("{PREFIX}{}", "0".repeat(33));
        for content in ["", "precious", r"\\server\pipe\lightseal-00", &long] {
            let path = dir.0.join("file");
            std::fs::write(&path, content).unwrap();
            assert!(!is_socket(&path), "{content}");
            assert_eq!(try_connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
