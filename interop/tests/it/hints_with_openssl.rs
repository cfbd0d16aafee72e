//! OpenSSL ignores hints (docs/spec/hints.md), in the middle of a handshake and later.

use std::io::{BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const HINT: [u8; 13] = [0xe3, 0xfe, 0xfd, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const PATIENCE: Duration = Duration::from_secs(20);

/// OpenSSL's program, and the bytes that it prints.
struct Program(Child, Receiver<u8>);

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let suite = ["-dtls1_2", "-cipher", "PSK-AES128-GCM-SHA256", "-psk", KEY];
        let mut child = Command::new("openssl")
            .args([arguments, &suite, &["-quiet", "-nbio"]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, printed) = channel();
        let out = child.stdout.take().unwrap();
        thread::spawn(move || {
            BufReader::new(out).bytes().map_while(Result::ok).try_for_each(|b| sender.send(b))
        });
        Self(child, printed)
    }

    fn say(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn wait_for(&self, line: &str) {
        let mut seen = String::new();
        while !seen.contains(line) {
            match self.1.recv_timeout(PATIENCE) {
                Ok(byte) => seen.push(char::from(byte)),
                Err(_) => panic!("no {line:?} in {seen:?}"),
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Carries datagrams to `server` and back, each answer with a hint before and one after it.
fn hinting_relay(server: u16) -> u16 {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = near.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut buf = [0; 2048];
        let mut back = None;
        while let Ok((len, client)) = near.recv_from(&mut buf) {
            far.send_to(&buf[..len], ("127.0.0.1", server)).unwrap();
            back.get_or_insert_with(|| {
                let (near, far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || {
                    let mut buf = [0; 2048];
                    while let Ok((len, _)) = far.recv_from(&mut buf) {
                        for datagram in [&HINT[..], &buf[..len], &HINT] {
                            near.send_to(datagram, client).unwrap();
                        }
                    }
                })
            });
        }
    });
    port
}

#[test]
fn openssl_drops_hints_before_and_after_its_handshake_is_complete() {
    if let Err(error) = Command::new("openssl").arg("version").stdout(Stdio::null()).status() {
        return skip::test(format_args!("openssl: {error}"));
    }
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server =
        Program::start(&["s_server", "-nocert", "-accept", &format!("127.0.0.1:{port}")]);
    let between = hinting_relay(port);
    // A ClientHello that is sent before the server listens is retransmitted.
    let mut client = Program::start(&["s_client", "-connect", &format!("127.0.0.1:{between}")]);
    for round in ["one", "two", "three"] {
        client.say(round);
        server.wait_for(round);
        server.say(round);
        client.wait_for(round);
    }
}
