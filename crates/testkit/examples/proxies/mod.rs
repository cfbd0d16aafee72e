//! Two proxies and a service behind them, for examples that run proxies in unusual surroundings.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Most messages on the way at a time, which all buffers hold.
const WINDOW: usize = 32;
/// How long an answer may take: an emulated handshake takes seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The key of both ends.
pub(crate) const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// A proxy. Dropping it ends it.
pub(crate) struct Proxy {
    pub(crate) child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    said: Receiver<String>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Starts a proxy of the program `line`, whose first words may be what runs it.
    ///
    /// # Errors
    /// What the proxy, or what runs it, says instead of starting.
    pub(crate) fn start<'a>(
        mut line: impl Iterator<Item = &'a str>,
        role: &str,
        connect: SocketAddr,
        keys: &str,
        more: &[&str],
    ) -> Result<Self, String> {
        let mut command = Command::new(line.next().unwrap());
        command.args(line).args(["proxy", role, "--listen", "0.0.0.0:0", "--psk-file", keys]);
        command.args(["--connect", &connect.to_string()]).args(more).stdin(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let (tell, said) = channel();
        let mut before = Vec::new();
        let carrying = lines.find_map(|line| {
            before.push(line.clone());
            tell.send(line.clone()).unwrap();
            Some(line.split_once("carrying ")?.1.to_owned())
        });
        let Some(carrying) = carrying else {
            let _ = child.wait();
            return Err(before.join(" | "));
        };
        let address = carrying.split_whitespace().next().unwrap();
        let port = address.parse::<SocketAddr>().unwrap().port();
        std::thread::spawn(move || lines.for_each(|line| drop(tell.send(line))));
        Ok(Self { child, address: ([127, 0, 0, 1], port).into(), said })
    }

    /// Lines of the log about what is done in another way.
    pub(crate) fn slower_ways(&self) -> impl Iterator<Item = String> {
        let lines = self.said.try_iter();
        let shown = lines.filter(|line| line.contains("slower") || line.contains(" WARN "));
        shown.map(|line| line.split_once("  ").map_or(line.clone(), |(_, text)| text.to_owned()))
    }
}

/// Answers that are not as they must be.
pub(crate) struct Wrong {
    /// How many messages have no answer.
    pub(crate) lost: usize,
    /// How many answers are to no message that waits for one, or have other bytes.
    pub(crate) other: usize,
}

/// Sends messages of different lengths to `to`, and compares what comes back.
pub(crate) fn exchange(to: SocketAddr, messages: u32) -> Wrong {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut missing = BTreeSet::new();
    let mut buf = [0; 1500];
    let mut next = 0..messages;
    let (mut waiting, mut other) = (0, 0);
    loop {
        while waiting < WINDOW {
            let Some(number) = next.next() else { break };
            missing.insert(number);
            waiting += 1;
            socket.send(&message(number)).unwrap();
            // The first message begins the handshake, which has room for a few.
            if number == 0 {
                break;
            }
        }
        if waiting == 0 {
            return Wrong { lost: missing.len(), other };
        }
        match socket.recv(&mut buf) {
            Ok(length) => {
                let number = buf.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                let sent = number.filter(|number| buf[..length] == message(*number));
                match sent.is_some_and(|number| missing.remove(&number)) {
                    true => waiting -= 1,
                    false => other += 1,
                }
            }
            // Whatever is on the way is lost.
            Err(_) => waiting = 0,
        }
    }
}

/// A message of 4 to 999 bytes, which begins with its number.
fn message(number: u32) -> Vec<u8> {
    let length = 4 + number as usize * 37 % 996;
    let rest = (4..length).map(|at| (at as u32 ^ number) as u8);
    number.to_be_bytes().into_iter().chain(rest).collect()
}

/// A service that answers each datagram with the same.
pub(crate) fn echo() -> SocketAddr {
    echo_at(([127, 0, 0, 1], 0).into())
}

/// A service at this address that answers each datagram with the same. Returns its address.
pub(crate) fn echo_at(address: SocketAddr) -> SocketAddr {
    let socket = UdpSocket::bind(address).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buf = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buf) {
            let _ = socket.send_to(&buf[..length], from);
        }
    });
    address
}
