//! A Unix socket for a single user.
//!
//! `bind` creates a file whose mode depends on the umask, and only `listen` lets clients connect.
//! The mode is set between the two, so that other users can connect at no moment. If umask or file
//! system nevertheless let another user connect, the connection is refused by the credentials that
//! the kernel has of it.

use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::task::{Context, Poll, ready};
use tokio::net::{UnixListener, UnixStream};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A connection to a socket of this user.
pub type Stream = UnixStream;

/// A socket that accepts connections of the user that opened it, and of root.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    owner: u32,
}

/// Creates `directory` with access for its owner only, if it does not exist, and
/// [checks](check_directory) it.
///
/// # Errors
/// Errors of the operating system, or a directory that fails the check.
pub fn prepare_directory(directory: &Path) -> io::Result<()> {
    crate::file::private_directory(directory)?;
    check_directory(directory)
}

/// Checks whether a directory may hold a socket: it must belong to this user or to root, and nobody
/// else may be able to change its content. If `directory` is a symbolic link, the link must belong
/// to this user or to root as well: in a sticky directory such as `/tmp`, another user may have
/// created it.
///
/// # Errors
/// Errors of the operating system, or a directory that fails the check.
pub fn check_directory(directory: &Path) -> io::Result<()> {
    check_directory_of(directory, geteuid().as_raw())
}

fn check_directory_of(directory: &Path, user: u32) -> io::Result<()> {
    let refused = |what: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    let owner = directory.symlink_metadata()?.uid();
    if owner != user && owner != 0 {
        return refused(format!("the directory belongs to another user ({owner})"));
    }
    let metadata = directory.metadata()?;
    let (mode, owner) = (metadata.permissions().mode() & 0o7777, metadata.uid());
    if owner != user && owner != 0 {
        return refused(format!("the directory belongs to another user ({owner})"));
    }
    // In a sticky directory other users can create files, but can remove only their own.
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return refused(format!(
            "other users can change the directory (mode {mode:03o}): chmod 700 {}",
            directory.display()
        ));
    }
    Ok(())
}

/// Opens a socket at `path`, which must not exist. Must be called within a tokio runtime.
///
/// # Errors
/// Errors of the operating system.
pub fn listen(path: &Path) -> io::Result<Listener> {
    let socket = bound(path)?;
    socket.listen(BACKLOG)?;
    let listener = socket.into();
    Ok(Listener { listener: UnixListener::from_std(listener)?, owner: geteuid().as_raw() })
}

/// A socket whose file already has its mode, and to which nobody can connect yet.
fn bound(path: &Path) -> io::Result<Socket> {
    // This reports a path that is too long in the same words as a connection to it does.
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

impl Listener {
    /// Accepts the next connection. A connection of another user is closed and reported as an
    /// error; the next call can accept others.
    ///
    /// # Errors
    /// Errors of the operating system, or a connection of another user.
    pub async fn accept(&self) -> io::Result<Stream> {
        std::future::poll_fn(|context| self.poll_accept(context)).await
    }

    /// Does what [`accept`](Self::accept) does, for a task that polls.
    ///
    /// # Errors
    /// The errors of [`accept`](Self::accept).
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let accepted = ready!(self.listener.poll_accept(context));
        Poll::Ready(accepted.and_then(|(stream, _)| {
            admit(stream.peer_cred()?.uid(), self.owner)?;
            Ok(stream)
        }))
    }
}

/// Connects to the socket at `path`.
///
/// # Errors
/// Errors of the operating system. The kind is `ConnectionRefused` if the file is no socket, or nobody
/// listens any more.
pub async fn connect(path: &Path) -> io::Result<Stream> {
    UnixStream::connect(path).await
}

/// Connects to the socket at `path` and closes the connection again.
///
/// # Errors
/// The errors of [`connect`].
pub fn try_connect(path: &Path) -> io::Result<()> {
    std::os::unix::net::UnixStream::connect(path).map(drop)
}

/// Whether a path is a socket itself, and neither another file nor a link.
pub fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Checks who listens at the other end of a connection: this user or root. Root may ask every
/// user's programs.
///
/// # Errors
/// Errors of the operating system, or a socket of another user.
pub fn check_listener(stream: &Stream) -> io::Result<()> {
    trust(stream.peer_cred()?.uid(), geteuid().as_raw())
}

/// Refuses the socket of a user other than `asker` and root, unless root asks.
fn trust(user: u32, asker: u32) -> io::Result<()> {
    if user == asker || user == 0 || asker == 0 {
        return Ok(());
    }
    let what = format!("the socket belongs to another user ({user})");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Refuses users other than the owner and root.
fn admit(user: u32, owner: u32) -> io::Result<()> {
    if user == owner || user == 0 {
        return Ok(());
    }
    let what = format!("user {user} is not let in");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::Dir;
    use std::os::unix::net::UnixStream as Connection;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn nobody_connects_before_the_mode_is_set() {
        let dir = Dir::new("bound");
        prepare_directory(&dir.0).unwrap();
        let path = dir.0.join("s");
        let socket = bound(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // The file's mode allows everything, but nobody listens yet.
        set_mode(&path, 0o666);
        let error = Connection::connect(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        socket.listen(BACKLOG).unwrap();
        Connection::connect(&path).unwrap();
    }

    #[tokio::test]
    async fn its_owner_is_let_in_and_others_are_not() {
        let dir = Dir::new("owner");
        prepare_directory(&dir.0).unwrap();
        let path = dir.0.join("s");
        let mut listener = listen(&path).unwrap();
        let _own = Connection::connect(&path).unwrap();
        listener.accept().await.unwrap();
        assert!(listen(&path).is_err(), "one socket a name");
        let own = geteuid().as_raw();
        assert!(admit(own, own).is_ok() && admit(0, 4711).is_ok());
        assert_eq!(admit(4711, 4712).unwrap_err().to_string(), "user 4711 is not let in");
        if own != 0 {
            listener.owner = own + 1;
            let _other = Connection::connect(&path).unwrap();
            assert!(listener.accept().await.is_err());
        }
    }

    #[test]
    fn only_sockets_of_this_user_and_of_root_are_trusted_unless_root_asks() {
        assert!(trust(4711, 4711).is_ok() && trust(0, 4711).is_ok() && trust(4711, 0).is_ok());
        let said = trust(4712, 4711).unwrap_err().to_string();
        assert_eq!(said, "the socket belongs to another user (4712)");
    }

    #[tokio::test]
    async fn the_listener_is_known_by_the_kernel_s_credentials() {
        let dir = Dir::new("listener");
        prepare_directory(&dir.0).unwrap();
        let path = dir.0.join("s");
        let _listener = listen(&path).unwrap();
        check_listener(&UnixStream::connect(&path).await.unwrap()).unwrap();
    }

    /// Another user may link a directory of ours to where we look for it.
    #[test]
    fn a_link_of_another_user_is_refused() {
        let dir = Dir::new("link");
        prepare_directory(&dir.0).unwrap();
        let (own, link) = (geteuid().as_raw(), dir.0.join("link"));
        std::os::unix::fs::symlink("/", &link).unwrap();
        check_directory_of(&link, own).unwrap();
        // To another user, the link is a stranger's, and the directory is root's.
        if own != 0 {
            let said = check_directory_of(&link, own + 1).unwrap_err().to_string();
            assert!(said.contains("belongs to another user"), "{said}");
        } else if std::os::unix::fs::lchown(&link, Some(4712), None).is_ok() {
            let said = check_directory_of(&link, 4711).unwrap_err().to_string();
            assert!(said.contains("another user (4712)"), "{said}");
        }
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let dir = Dir::new("directory");
        prepare_directory(&dir.0).unwrap();
        assert_eq!(dir.0.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        for (mode, good) in [(0o755, true), (0o1777, true), (0o775, false), (0o777, false)] {
            set_mode(&dir.0, mode);
            assert_eq!(prepare_directory(&dir.0).is_ok(), good, "{mode:o}");
        }
        set_mode(&dir.0, 0o777);
        let said = prepare_directory(&dir.0).unwrap_err().to_string();
        assert!(said.contains("chmod 700"), "{said}");
    }
}
