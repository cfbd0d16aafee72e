//! An unmodified CoAP client and server (libcoap), and a forwarder between them that counts
//! retransmissions.

use crate::process::{Daemon, free_address};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// libcoap's server, which stores a representation for any resource.
pub struct Server {
    address: SocketAddr,
    _daemon: Daemon,
}

impl Server {
    /// Starts the server on a free port of the loopback interface.
    ///
    /// # Panics
    /// The server is not installed: Debian's package `libcoap3-bin`.
    pub fn start() -> Self {
        let address = free_address();
        let mut command = Command::new("coap-server-notls");
        command.args(["-A", "127.0.0.1", "-d", "1000", "-p", &address.port().to_string()]);
        let mut daemon = Daemon::start(&mut command).expect("libcoap3-bin is installed");
        daemon.listens_at(address);
        Self { address, _daemon: daemon }
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The longest representation in bytes that goes in one message. Longer ones would go in blocks
/// (RFC 7959). libcoap 4.3.1 loses some blocks when it has to retransmit one, with or without
/// proxies.
pub const MAX_CONTENT: usize = 1024;

/// Seconds that a client waits for its answer, which allows three or four transmissions (RFC 7252
/// section 4.2). By default it waits until the fifth has failed, a minute and a half.
const PATIENCE_SECONDS: &str = "20";

/// Puts `content` into `resource` of the server behind `to` and gets it back. Returns the
/// representation that came back, or `None`. Files are left in `folder`.
///
/// # Errors
/// A file cannot be written, or the client cannot be started.
///
/// # Panics
/// `content` is longer than [`MAX_CONTENT`].
pub fn put_and_get(
    to: SocketAddr,
    resource: &str,
    content: &[u8],
    folder: &Path,
) -> io::Result<Option<Vec<u8>>> {
    let uri = format!("coap://{to}/{resource}");
    put_and_get_by("coap-client-notls", &[], &uri, content, folder)
}

/// [`put_and_get`] with another client program, additional arguments, and any URI.
///
/// # Errors
/// As for [`put_and_get`].
///
/// # Panics
/// As for [`put_and_get`].
pub fn put_and_get_by(
    program: &str,
    arguments: &[&str],
    uri: &str,
    content: &[u8],
    folder: &Path,
) -> io::Result<Option<Vec<u8>>> {
    assert!(content.len() <= MAX_CONTENT, "it would go in blocks");
    let resource = uri.rsplit('/').next().unwrap_or_default();
    let (there, back) = (folder.join(format!("{resource}.put")), folder.join(resource));
    std::fs::write(&there, content)?;
    // The client writes no file if it received nothing, so an older file must be removed.
    if back.exists() {
        std::fs::remove_file(&back)?;
    }
    let client = |method: &str, option: &str, file: &Path| {
        let mut command = Command::new(program);
        command.args(arguments).args(["-v", "0", "-B", PATIENCE_SECONDS, "-m", method, option]);
        command.arg(file).arg(uri).status()
    };
    client("put", "-f", &there)?;
    client("get", "-o", &back)?;
    Ok(std::fs::read(&back).ok().filter(|content| !content.is_empty()))
}

/// A forwarder that counts the CoAP messages of all clients. It gives each client an upstream port
/// of its own, as a NAT does.
pub struct Tap {
    address: SocketAddr,
    counted: Arc<Counted>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counted {
    stop: AtomicBool,
    messages: AtomicUsize,
    again: AtomicUsize,
    /// The confirmable messages that have passed: the client, whether it is the sender, message ID.
    seen: Mutex<BTreeSet<(SocketAddr, bool, u16)>>,
}

impl Counted {
    fn count(&self, client: SocketAddr, from_client: bool, datagram: &[u8]) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        let Some(id) = confirmable(datagram) else { return };
        let mut seen = self.seen.lock().expect("nobody panics with it");
        if !seen.insert((client, from_client, id)) {
            self.again.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The message ID, if the message is confirmable (RFC 7252 section 3).
///
/// ```text
///  0 1 2 3 4 5 6 7
/// |Ver| T |  TKL  |  Code  |  Message ID (2)  | ...
/// ```
fn confirmable(datagram: &[u8]) -> Option<u16> {
    match datagram {
        [first, _, high, low, ..] if first >> 4 == 0b0100 => {
            Some(u16::from_be_bytes([*high, *low]))
        }
        _ => None,
    }
}

/// How often a forwarding thread checks whether it should end.
const LOOK_UP: Duration = Duration::from_millis(50);

impl Tap {
    /// Starts forwarding from a new port to `upstream`.
    ///
    /// # Panics
    /// There is no loopback interface.
    pub fn start(upstream: SocketAddr) -> Self {
        let socket = bind();
        let address = socket.local_addr().expect("it is bound");
        let counted = Arc::new(Counted::default());
        let thread = thread::spawn({
            let counted = Arc::clone(&counted);
            move || forward(&socket, upstream, &counted)
        });
        Self { address, counted, thread: Some(thread) }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of messages that passed in both directions.
    pub fn messages(&self) -> usize {
        self.counted.messages.load(Ordering::Relaxed)
    }

    /// Number of confirmable messages that had passed before.
    pub fn retransmissions(&self) -> usize {
        self.counted.again.load(Ordering::Relaxed)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.counted.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has printed its message already.
            let _ = thread.join();
        }
    }
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback interface");
    socket.set_read_timeout(Some(LOOK_UP)).expect("not zero");
    socket
}

/// Forwards until told to stop: requests on this thread, answers on a thread for each client.
fn forward(socket: &UdpSocket, upstream: SocketAddr, counted: &Arc<Counted>) {
    let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut buffer = [0; 2048];
    thread::scope(|scope| {
        while !counted.stop.load(Ordering::Relaxed) {
            let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
            counted.count(client, true, &buffer[..length]);
            let outside = clients.entry(client).or_insert_with(|| {
                let outside = Arc::new(bind());
                let counted = Arc::clone(counted);
                let inside = Arc::clone(&outside);
                scope.spawn(move || answer(socket, client, &inside, &counted));
                outside
            });
            // A datagram that cannot be sent is lost, as on any network.
            let _ = outside.send_to(&buffer[..length], upstream);
        }
    });
}

fn answer(socket: &UdpSocket, client: SocketAddr, outside: &UdpSocket, counted: &Counted) {
    let mut buffer = [0; 2048];
    while !counted.stop.load(Ordering::Relaxed) {
        let Ok(length) = outside.recv(&mut buffer) else { continue };
        counted.count(client, false, &buffer[..length]);
        let _ = socket.send_to(&buffer[..length], client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_confirmable_message_that_comes_again_is_counted() {
        let (here, there) = (bind(), bind());
        let tap = Tap::start(there.local_addr().expect("bound"));
        let messages: [&[u8]; 5] = [
            &[0x40, 1, 0, 7],    // confirmable 7
            &[0x40, 1, 0, 8],    // another
            &[0x50, 1, 0, 7],    // not confirmable
            &[0x40, 1, 0],       // cut
            &[0x42, 1, 0, 7, 9], // confirmable 7 again
        ];
        let mut buffer = [0; 64];
        for message in messages {
            here.send_to(message, tap.address()).expect("loopback");
            let (length, nat) = there.recv_from(&mut buffer).expect("loopback");
            assert_eq!(&buffer[..length], message);
            there.send_to(&[0x60, 0, 0, 7], nat).expect("loopback");
            assert_eq!(here.recv(&mut buffer).expect("loopback"), 4);
        }
        assert_eq!((tap.messages(), tap.retransmissions()), (10, 1));
    }
}
