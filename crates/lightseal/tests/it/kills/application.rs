//! The applications that speak through the members, and know nothing of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// All messages have the same beginning: see `wire`.
const REQUEST: &str = "is anybody there? ";
const ANSWER: &str = "yes, here it is: ";

/// Asks the group repeatedly, and records the answers.
pub(crate) struct Application {
    socket: UdpSocket,
    member: SocketAddr,
    asked: u64,
    /// The names of the services that answered, by the number of the question.
    answered: BTreeMap<u64, BTreeSet<String>>,
}

impl Application {
    pub(crate) fn new(member: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let member = member.parse().unwrap();
        Self { socket, member, asked: 0, answered: BTreeMap::new() }
    }

    pub(crate) fn ask(&mut self) {
        self.asked += 1;
        // The question is lost if the member does not run.
        let _ = self.socket.send_to(format!("{REQUEST}{}", self.asked).as_bytes(), self.member);
    }

    /// The number of the next question.
    pub(crate) const fn next(&self) -> u64 {
        self.asked + 1
    }

    /// Records the answers that have arrived.
    pub(crate) fn hear(&mut self) {
        let mut buf = [0; 256];
        // An ICMP error about an earlier question is no answer, and further answers may follow it.
        for _ in 0..1000 {
            let len = match self.socket.recv(&mut buf) {
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            let text = std::str::from_utf8(&buf[..len]).unwrap_or_default();
            let answer = text.strip_prefix(ANSWER).and_then(|text| text.split_once(' '));
            let Some((name, number)) = answer else { continue };
            if let Ok(number) = number.parse() {
                self.answered.entry(number).or_default().insert(name.to_owned());
            }
        }
    }

    /// Whether all of these services answered one question, number `since` or a later one.
    pub(crate) fn has_heard(&self, since: u64, all: &BTreeSet<String>) -> bool {
        self.answered.range(since..).any(|(_, names)| all.is_subset(names))
    }

    /// The services that have answered question `since` or a later one.
    pub(crate) fn heard(&self, since: u64) -> BTreeSet<String> {
        self.answered.range(since..).flat_map(|(_, names)| names).cloned().collect()
    }
}

/// Answers questions with its name.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    enough: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub(crate) fn start(name: &'static str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let address = socket.local_addr().unwrap();
        let enough = Arc::new(AtomicBool::new(false));
        let is_enough = Arc::clone(&enough);
        let serve = move || {
            let mut buf = [0; 256];
            while !is_enough.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut buf) else { continue };
                let text = std::str::from_utf8(&buf[..len]).unwrap_or_default();
                if let Some(number) = text.strip_prefix(REQUEST) {
                    let answer = format!("{ANSWER}{name} {number}");
                    let _ = socket.send_to(answer.as_bytes(), from);
                }
            }
        };
        Self { address, enough, thread: Some(std::thread::spawn(serve)) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
