//! Captures what members send over the loopback interface, and checks that no number is used twice.
//!
//! A number is used twice if two different records have the same key and nonce. In `axiom-1.2`
//! numbers are not encrypted. In both profiles all messages of the trial begin with the same bytes,
//! so ciphertexts that begin alike were made with the same keystream.

use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// `AF_PACKET` on Linux, and IPv4 as its protocol in network byte order.
const PACKETS: i32 = 17;
const IPV4: i32 = 0x0800_u16.to_be() as i32;
/// Number of equal leading bytes from which two ciphertexts count as made with the same keystream.
/// By chance these bytes are equal once in 2^96.
const ALIKE: usize = 12;
const AXIOM_HEADER: usize = 13;
const EXPLICIT_NONCE: usize = 8;

/// Identifies the datagrams of one trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// The first two bytes of its members' addresses.
    pub(crate) network: [u8; 2],
    /// The port of its groups.
    pub(crate) group_port: u16,
    /// The port of its controllers, to which members speak DTLS.
    pub(crate) controller_port: u16,
}

/// The results of a capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Number of records without repetitions.
    pub(crate) records: u64,
    /// Numbers that were used twice.
    pub(crate) reused: Vec<String>,
}

/// A running capture.
pub(crate) struct Capture {
    enough: Arc<AtomicBool>,
    reader: JoinHandle<Seen>,
}

impl Capture {
    /// Starts to capture.
    ///
    /// # Errors
    /// If the program lacks the rights, or the system is not Linux.
    pub(crate) fn start(trial: Trial) -> io::Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let protocol = Protocol::from(IPV4);
        let mut socket = Socket::new(Domain::from(PACKETS), Type::DGRAM, Some(protocol))?;
        socket.set_recv_buffer_size(16 << 20)?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let enough = Arc::new(AtomicBool::new(false));
        let is_enough = Arc::clone(&enough);
        let reader = std::thread::spawn(move || {
            let (mut ledger, mut buf) = (Ledger::default(), vec![0; 65_536]);
            loop {
                match socket.read(&mut buf) {
                    Ok(len) => ledger.packet(&trial, &buf[..len]),
                    // The capture ends only when nothing is left to read.
                    Err(_) if is_enough.load(Ordering::Relaxed) => return ledger.seen,
                    Err(_) => {}
                }
            }
        });
        Ok(Self { enough, reader })
    }

    /// Ends the capture and returns its results.
    pub(crate) fn stop(self) -> Seen {
        self.enough.store(true, Ordering::Relaxed);
        self.reader.join().expect("it reads whatever comes")
    }
}

/// For each key and number that was seen, the record that had it.
#[derive(Default)]
struct Ledger {
    places: HashMap<Vec<u8>, Vec<u8>>,
    seen: Seen,
}

impl Ledger {
    fn packet(&mut self, trial: &Trial, packet: &[u8]) {
        let Some((from, to, data)) = datagram(trial, packet) else { return };
        // The first byte tells the profiles apart: it is a content type of DTLS 1.2, or a byte of
        // `compact` from 0x20 to 0x3f or from 0xf8 on. No value is both.
        if data.first().is_some_and(|kind| !(0x20..0x40).contains(kind) && *kind < 0xf8) {
            self.axiom(from, to, data);
        } else {
            self.compact(from, to, data);
        }
    }

    fn axiom(&mut self, from: Ipv4Addr, to: Ipv4Addr, mut data: &[u8]) {
        while let Some((header, rest)) = data.split_at_checked(AXIOM_HEADER) {
            let len = usize::from(u16::from_be_bytes([header[11], header[12]]));
            let Some((body, rest)) = rest.split_at_checked(len) else { return };
            let record = &data[..AXIOM_HEADER + len];
            // The key and number are identified by epoch, SenderID or GroupID, and number. All
            // senders share one key, and each listener has one key for each sender.
            let mut place = header[3..11].to_vec();
            if !to.is_multicast() {
                place.extend([from.octets(), to.octets()].concat());
            } else {
                place.extend(to.octets());
            }
            self.seen.records += u64::from(self.once(&place, record));
            self.alike(from, to, body.get(EXPLICIT_NONCE..).unwrap_or_default(), record);
            data = rest;
        }
    }

    fn compact(&mut self, from: Ipv4Addr, to: Ipv4Addr, data: &[u8]) {
        let first = data[0];
        if first >= 0xf8 {
            let ids = if first & 3 >= 2 { 4 } else { 2 };
            let Some(header) = data.get(1..1 + ids + 14) else { return };
            let mut place = vec![first & 3];
            place.extend(header);
            place.extend([from.octets(), to.octets()].concat());
            self.seen.records += u64::from(self.once(&place, data));
            return;
        }
        let ids = if to.is_multicast() { 2 } else { 4 };
        let length = if first & 4 == 0 { 0 } else { 2 };
        let ciphertext = data.get(1 + ids + 2 + length..).unwrap_or_default();
        self.seen.records += u64::from(self.alike(from, to, ciphertext, data));
    }

    fn alike(&mut self, from: Ipv4Addr, to: Ipv4Addr, ciphertext: &[u8], record: &[u8]) -> bool {
        let Some(beginning) = ciphertext.get(..ALIKE) else { return true };
        let mut place = beginning.to_vec();
        place.extend([from.octets(), to.octets()].concat());
        place.push(0);
        self.once(&place, record)
    }

    /// Stores a record. Returns whether it is new.
    fn once(&mut self, place: &[u8], record: &[u8]) -> bool {
        let Some(known) = self.places.get(place) else {
            self.places.insert(place.to_vec(), record.to_vec());
            return true;
        };
        if known != record {
            self.seen.reused.push(format!("{known:02x?}, and {record:02x?}"));
        }
        false
    }
}

/// The UDP datagram in a packet, if it is one of the group's.
fn datagram<'p>(trial: &Trial, packet: &'p [u8]) -> Option<(Ipv4Addr, Ipv4Addr, &'p [u8])> {
    let header = 4 * usize::from(packet.first()? & 0xf);
    let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
    let is_udp = packet.first()? >> 4 == 4 && *packet.get(9)? == 17;
    let address = |at: usize| Some(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into());
    let (from, to): (Ipv4Addr, Ipv4Addr) = (address(12)?, address(16)?);
    let udp = packet.get(header..total)?;
    let port = |at: usize| Some(u16::from_be_bytes(udp.get(at..at + 2)?.try_into().ok()?));
    let (source, destination, data) = (port(0)?, port(2)?, udp.get(8..)?);
    let ours = |address: Ipv4Addr| address.octets()[..2] == trial.network;
    let is_request = to.is_multicast() && destination == trial.group_port;
    let is_link = [source, destination].contains(&trial.controller_port);
    let is_response = ours(to) && !is_link;
    let is_ours = is_udp && ours(from) && (is_request || is_response) && !data.is_empty();
    is_ours.then_some((from, to, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: Trial = Trial { network: [127, 9], group_port: 5000, controller_port: 6000 };

    fn packet(to: [u8; 4], port: u16, data: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, (28 + data.len()) as u8, 0, 0, 0, 0, 1, 17, 0, 0];
        packet.extend([127, 9, 1, 2].iter().chain(&to));
        packet.extend(7000_u16.to_be_bytes().iter().chain(&port.to_be_bytes()));
        packet.extend([0; 4].iter().chain(data));
        packet
    }

    fn record(number: u8, body: u8) -> Vec<u8> {
        let mut record = vec![23, 0xfe, 0xfd, 0, 1, 9, 0, 0, 0, 0, number, 0, 30];
        record.extend([body; 30]);
        record
    }

    fn seen(packets: &[Vec<u8>]) -> Seen {
        let mut ledger = Ledger::default();
        packets.iter().for_each(|packet| ledger.packet(&TRIAL, packet));
        ledger.seen
    }

    #[test]
    fn a_number_with_two_records_is_found_and_a_repetition_is_none() {
        let group = [239, 1, 1, 1];
        let (one, two) = (record(1, 1), record(2, 2));
        let good = [packet(group, 5000, &one), packet(group, 5000, &two)];
        assert_eq!(seen(&good).records, 2);
        assert!(seen(&[good[0].clone(), good[0].clone()]).reused.is_empty());
        let reused = [packet(group, 5000, &one), packet(group, 5000, &record(1, 3))];
        assert_eq!(seen(&reused).reused.len(), 1);
        let reused = [packet(group, 5000, &one), packet(group, 5000, &record(2, 1))];
        assert_eq!(seen(&reused).reused.len(), 1);
        let others = [packet(group, 5001, &one), packet([127, 9, 1, 3], 6000, &one)];
        assert_eq!(seen(&others).records, 0);
    }

    #[test]
    fn hidden_numbers_show_in_ciphertexts_that_begin_alike() {
        let unified = |number: u8, body: u8, end: u8| {
            let mut record = vec![0x39, 7, 9, 0, number];
            record.extend([body; 20]);
            record.push(end);
            record
        };
        let group = [239, 1, 1, 1];
        let of = |records: [Vec<u8>; 2]| seen(&records.map(|r| packet(group, 5000, &r))).reused;
        assert!(of([unified(1, 1, 0), unified(1, 2, 0)]).is_empty());
        assert!(of([unified(1, 1, 0), unified(1, 1, 0)]).is_empty());
        assert_eq!(of([unified(1, 1, 0), unified(2, 1, 1)]).len(), 1);
        let full = |end: u8| [&[0xf8, 7, 9][..], &[0; 14], &[end; 9]].concat();
        assert!(of([full(1), full(1)]).is_empty());
        assert_eq!(of([full(1), full(2)]).len(), 1);
    }
}
