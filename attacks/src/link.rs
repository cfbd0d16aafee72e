//! A link between emulated boards, on which an attacker sends datagrams of its own.
//!
//! QEMU carries a board's Ethernet frames in UDP datagrams, one in each. The link passes every frame
//! to all other boards, which pick those that are for them. Ahead of each frame with a datagram to
//! the attacked UDP port it sends altered, replayed and random datagrams in the name of its sender.

use crate::mutate;
use lightseal_core::Random;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The number of past datagrams that are altered and replayed.
const REMEMBERED: usize = 64;

/// The longest datagram of the attacker in bytes. A board has room for a few frames.
const MOST_BYTES: usize = 400;

/// The time between two datagrams of the attacker, so that boards keep up.
const PAUSE: Duration = Duration::from_micros(300);

/// The longest frame in bytes.
const FRAME_BYTES: usize = 1600;

/// The lengths of the headers of a frame in bytes, without options of IPv4.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;

/// What the link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames of boards.
    pub frames: u64,
    /// Frames of the attacker.
    pub altered: u64,
}

/// A link and the attacker on it.
#[derive(Debug)]
pub struct Link {
    boards: Vec<SocketAddr>,
    port: u16,
    copies: usize,
    random: Random,
    past: VecDeque<Vec<u8>>,
    counters: LinkCounters,
}

impl Link {
    /// A link between the boards with these addresses on the host. The attacker sends `copies`
    /// datagrams ahead of each that a board sends to UDP port `port` of another one or of a group.
    pub fn new(boards: Vec<SocketAddr>, port: u16, copies: usize, seed: u64) -> Self {
        let (past, counters) = (VecDeque::new(), LinkCounters::default());
        Self { boards, port, copies, random: Random::insecure(seed), past, counters }
    }

    /// Carries frames until there has been none for `quiet` after the first.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn carry(&mut self, socket: &UdpSocket, quiet: Duration) -> io::Result<LinkCounters> {
        let mut buf = [0; FRAME_BYTES];
        let mut heard: Option<Instant> = None;
        socket.set_read_timeout(Some(quiet.clamp(PAUSE, Duration::from_millis(100))))?;
        loop {
            let Ok((len, from)) = socket.recv_from(&mut buf) else {
                if heard.is_some_and(|heard| heard.elapsed() >= quiet) {
                    return Ok(self.counters);
                }
                continue;
            };
            self.counters.frames += 1;
            for frame in self.attack(&buf[..len]) {
                self.counters.altered += 1;
                self.send(socket, from, &frame);
                std::thread::sleep(PAUSE);
            }
            self.send(socket, from, &buf[..len]);
            heard = Some(Instant::now());
        }
    }

    /// Sends a frame to all boards except the one that sent it. A board that has ended loses it.
    fn send(&self, socket: &UdpSocket, from: SocketAddr, frame: &[u8]) {
        for board in self.boards.iter().filter(|board| **board != from) {
            let _ = socket.send_to(frame, board);
        }
    }

    /// The attacker's frames ahead of a genuine one.
    fn attack(&mut self, genuine: &[u8]) -> Vec<Vec<u8>> {
        let Some((headers, payload)) = datagram(genuine, self.port) else { return Vec::new() };
        if self.copies == 0 {
            return Vec::new();
        }
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(payload.to_vec());
        let Self { copies, random, past, .. } = self;
        let corpus = past.make_contiguous();
        let mut forge = || {
            let mut payload = match random.below(8) {
                0 => mutate::noise(random),
                // The last one is the genuine datagram, which has not arrived yet.
                1 => corpus[random.below(corpus.len().max(2) as u64 - 1) as usize].clone(),
                _ => mutate::altered(random, corpus),
            };
            payload.truncate(MOST_BYTES);
            framed(headers, &payload)
        };
        (0..*copies).map(|_| forge()).collect()
    }
}

/// The headers and the payload of a frame with a UDP datagram to `port`.
fn datagram(frame: &[u8], port: u16) -> Option<(&[u8; ETHERNET + IPV4 + UDP], &[u8])> {
    let (headers, rest) = frame.split_first_chunk::<{ ETHERNET + IPV4 + UDP }>()?;
    let is_udp = headers[12..15] == [0x08, 0x00, 0x45] && headers[ETHERNET + 9] == 17;
    let to = u16::from_be_bytes([headers[ETHERNET + IPV4 + 2], headers[ETHERNET + IPV4 + 3]]);
    let len = u16::from_be_bytes([headers[ETHERNET + IPV4 + 4], headers[ETHERNET + IPV4 + 5]]);
    let payload = rest.get(..usize::from(len).checked_sub(UDP)?)?;
    (is_udp && to == port).then_some((headers, payload))
}

/// A frame with these headers and another payload, with right lengths and the checksum of IPv4. UDP
/// has none.
fn framed(headers: &[u8; ETHERNET + IPV4 + UDP], payload: &[u8]) -> Vec<u8> {
    let mut frame = [&headers[..], payload].concat();
    let (ip, udp) = (ETHERNET, ETHERNET + IPV4);
    frame[ip + 2..ip + 4].copy_from_slice(&((IPV4 + UDP + payload.len()) as u16).to_be_bytes());
    frame[ip + 10..ip + 12].fill(0);
    let words = frame[ip..udp].chunks_exact(2);
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[ip + 10..ip + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame[udp + 4..udp + 6].copy_from_slice(&((UDP + payload.len()) as u16).to_be_bytes());
    frame[udp + 6..udp + 8].fill(0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram from 10.0.2.20 to 239.255.77.1, port 5684.
    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut headers = [0; ETHERNET + IPV4 + UDP];
        headers[12..14].copy_from_slice(&[0x08, 0x00]);
        let ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 2, 20, 239, 255, 77, 1];
        headers[ETHERNET..][..IPV4].copy_from_slice(&ip);
        headers[ETHERNET + IPV4..][..4].copy_from_slice(&[0x16, 0x34, 0x16, 0x34]);
        framed(&headers, payload)
    }

    #[test]
    fn a_frame_is_read_as_it_was_made() {
        let made = frame(b"payload");
        assert_eq!(datagram(&made, 5684).unwrap().1, b"payload");
        assert!(datagram(&made, 5683).is_none());
        // By hand: 4500+0023+0000+0000+4011+0000+0a00+0214+efff+4d01 = 1ce48, folded ce49.
        assert_eq!(made[ETHERNET + 10..][..2], [0x31, 0xb6]);
        for cut in 0..made.len() {
            assert!(datagram(&made[..cut], 5684).is_none());
        }
    }

    #[test]
    fn a_frame_reaches_all_other_boards_behind_those_of_the_attacker() {
        let bound = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let boards = [bound(), bound(), bound()];
        let addresses = boards.each_ref().map(|board| board.local_addr().unwrap());
        let socket = bound();
        let to = socket.local_addr().unwrap();
        let genuine = frame(b"genuine payload");
        boards[0].send_to(&genuine, to).unwrap();
        boards[0].send_to(b"no datagram", to).unwrap();
        let mut link = Link::new(addresses.to_vec(), 5684, 3, 1);
        let counters = link.carry(&socket, Duration::from_millis(50)).unwrap();
        assert_eq!(counters, LinkCounters { frames: 2, altered: 3 });
        for board in &boards[1..] {
            let received = || {
                let mut buf = [0; FRAME_BYTES];
                let len = board.recv(&mut buf).unwrap();
                buf[..len].to_vec()
            };
            let all: Vec<_> = (0..5).map(|_| received()).collect();
            assert_eq!((&all[3], &all[4][..]), (&genuine, &b"no datagram"[..]));
        }
        boards[0].set_nonblocking(true).unwrap();
        assert!(boards[0].recv(&mut [0; 1]).is_err());
    }
}
