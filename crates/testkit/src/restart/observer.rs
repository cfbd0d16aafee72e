//! What an observer who has all keys sees: whether an end seals two records under one nonce.
//!
//! An end seals its records in the order of their numbers, and the observer sees them in that order.
//! Data under shared tags has no tag of its own: the observer knows it by its content.

use super::observer12::{Master, Observer12};
use super::{CLIENT, Fault, SERVER, Wrong};
use lightseal_core::Reader;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuite, CipherSuite12, Sha256, TrafficSecret};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::{Header12, ReceiveEpoch, UnifiedHeader};
use lightseal_dtls::{KeyLog, ProtocolVersion, Scheme, Settings};
use std::sync::{Arc, Mutex};

/// The secrets of all handshakes.
#[derive(Debug, Default)]
struct Logged {
    /// Traffic secrets of DTLS 1.3, by the end that sends under them.
    traffic: Vec<(usize, Vec<u8>)>,
    masters: Vec<Master>,
}

/// The secrets of all handshakes, as both ends log them.
#[derive(Debug, Default)]
pub(super) struct Secrets(Mutex<Logged>);

impl KeyLog for Secrets {
    fn log(&self, line: &str) {
        let hex = |text: &str| -> Vec<u8> {
            let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let bytes: Option<_> = text.as_bytes().chunks_exact(2).map(digit).collect();
            bytes.expect("a key log has hexadecimal numbers")
        };
        let fields: Vec<_> = line.split(' ').collect();
        let [label, random, secret] = fields[..] else {
            panic!("a key log's line has three fields")
        };
        let mut all = self.0.lock().expect("nobody panics with the log");
        let end = match label {
            "CLIENT_TRAFFIC_SECRET_0" => CLIENT,
            "SERVER_TRAFFIC_SECRET_0" => SERVER,
            "CLIENT_RANDOM" => {
                let length = "a random value and a master secret";
                let master =
                    (hex(random).try_into().expect(length), hex(secret).try_into().expect(length));
                if !all.masters.contains(&master) {
                    all.masters.push(master);
                }
                return;
            }
            _ => return,
        };
        let entry = (end, hex(secret));
        // Both ends log each secret.
        if !all.traffic.contains(&entry) {
            all.traffic.push(entry);
        }
    }
}

/// The suite that both ends choose.
#[derive(Clone, Copy)]
enum Suite {
    Dtls12(&'static CipherSuite12),
    Dtls13(&'static CipherSuite),
}

/// The epochs of one end in one association.
struct Sender {
    secret: TrafficSecret,
    /// From [`APPLICATION_EPOCH`] on. None is forgotten: an end must not return to one.
    epochs: Vec<Epoch>,
}

/// An epoch of one end, under each scheme that it may have: one when the first record was read.
struct Epoch {
    number: u64,
    keys: Vec<ReceiveEpoch>,
    /// One more than the highest record number.
    next: u64,
}

impl Epoch {
    fn new(
        number: u64,
        suite: &'static CipherSuite,
        schemes: &[Scheme],
        secret: &TrafficSecret,
    ) -> Self {
        let keys = schemes.iter().map(|scheme| ReceiveEpoch::new(number, suite, *scheme, secret));
        Self { number, keys: keys.collect(), next: 0 }
    }

    /// The number of a record, if the record is one of this epoch. Payloads have been numbered below
    /// `payloads`.
    fn read(&mut self, header: UnifiedHeader, record: &[u8], payloads: u64) -> Option<u64> {
        let (at, number) = self.keys.iter().enumerate().find_map(|(at, keys)| {
            let mut copy = record.to_vec();
            let (inner, is_proved) = keys.observe(header, &mut copy, self.next)?;
            let payload = inner.content.try_into().map(u64::from_be_bytes);
            let is_known = inner.kind == ContentType::APPLICATION_DATA
                && payload.is_ok_and(|payload| payload < payloads);
            (is_proved || is_known).then_some((at, inner.number))
        })?;
        self.keys.swap(0, at);
        self.keys.truncate(1);
        Some(number)
    }
}

/// Reads all datagrams in the order in which an end sends them.
pub(super) struct Observer {
    suite: Suite,
    /// The schemes that an epoch may have.
    schemes: Vec<Scheme>,
    cid_len: usize,
    secrets: Arc<Secrets>,
    read: usize,
    senders: [Vec<Sender>; 2],
    older: Observer12,
    /// The number of protected records of the newest handshake's epochs that were read.
    pub(super) records: u64,
}

impl Observer {
    pub(super) fn new(secrets: &Arc<Secrets>, settings: &Settings, cid_len: usize) -> Self {
        let Settings { suites, provider, versions, aggregation, .. } = settings;
        let mut schemes = vec![Scheme::Plain];
        schemes.extend(aggregation.send.iter().chain(&aggregation.receive));
        let suite = match versions[..] {
            [ProtocolVersion::Dtls12] => {
                Suite::Dtls12(suites.iter().find_map(|id| provider.suite_12(*id)).expect("a suite"))
            }
            _ => Suite::Dtls13(suites.iter().find_map(|id| provider.suite(*id)).expect("a suite")),
        };
        Self {
            suite,
            schemes,
            cid_len,
            secrets: Arc::clone(secrets),
            read: 0,
            senders: [Vec::new(), Vec::new()],
            older: Observer12::default(),
            records: 0,
        }
    }

    /// An end sends a datagram. The payloads of both ends have been numbered below `payloads`.
    pub(super) fn sent(&mut self, end: usize, datagram: &[u8], payloads: u64) -> Result<(), Wrong> {
        let mut rest = datagram;
        while let Some(first) = rest.first() {
            let cid_len = self.cid_len;
            let (len, result) = if UnifiedHeader::begins_with(*first) {
                let header =
                    UnifiedHeader::read(&mut Reader::new(rest), cid_len).map_err(unreadable)?;
                let body = header.length.map(usize::from);
                let len = body.map_or(rest.len(), |body| header.header_len() + body);
                (len, self.record(end, header, &rest[..len], payloads))
            } else {
                let header = Header12::read(rest, cid_len).map_err(unreadable)?;
                let len = header.len + usize::from(header.body);
                (len, self.record12(end, &header, &rest[..len]))
            };
            result?;
            rest = &rest[len..];
        }
        Ok(())
    }

    fn record12(&mut self, end: usize, header: &Header12, record: &[u8]) -> Result<(), Wrong> {
        // The hellos of DTLS 1.3 have the older form.
        let Suite::Dtls12(suite) = self.suite else { return Ok(()) };
        let secrets = self.secrets.0.lock().expect("nobody panics with the log");
        let protected = self.older.record(end, suite, &secrets.masters, header, record)?;
        self.records += u64::from(protected);
        Ok(())
    }

    fn learn(&mut self, suite: &'static CipherSuite) {
        let secrets = self.secrets.0.lock().expect("nobody panics with the log");
        for (end, secret) in &secrets.traffic[self.read..] {
            let secret = TrafficSecret::new(&Sha256, secret);
            let first = Epoch::new(APPLICATION_EPOCH, suite, &self.schemes, &secret);
            self.senders[*end].push(Sender { secret, epochs: vec![first] });
        }
        self.read = secrets.traffic.len();
    }

    fn record(
        &mut self,
        end: usize,
        header: UnifiedHeader,
        record: &[u8],
        payloads: u64,
    ) -> Result<(), Wrong> {
        let Suite::Dtls13(suite) = self.suite else {
            return Err(unreadable("a record of another version"));
        };
        self.learn(suite);
        for sender in self.senders[end].iter_mut().rev() {
            let newest = sender.epochs.len();
            let bits = u64::from(header.epoch_bits);
            let mut read = |(at, epoch): (usize, &mut Epoch)| {
                let is_it = epoch.number & 3 == bits;
                let number = if is_it { epoch.read(header, record, payloads) } else { None };
                number.map(|number| (at, number))
            };
            let mut found = sender.epochs.iter_mut().enumerate().rev().find_map(&mut read);
            let following = APPLICATION_EPOCH + newest as u64;
            if found.is_none() && following & 3 == bits {
                let secret = sender.secret.next();
                let mut epoch = Epoch::new(following, suite, &self.schemes, &secret);
                found = read((newest, &mut epoch));
                if found.is_some() {
                    sender.secret = secret;
                    sender.epochs.push(epoch);
                }
            }
            let Some((at, number)) = found else { continue };
            let epoch = &mut sender.epochs[at];
            if number < epoch.next {
                let what = format!("record {number} of epoch {} repeats a number", epoch.number);
                return Err(Wrong::new(Fault::Number, what));
            }
            if at + 1 < newest {
                let what = format!("a record of epoch {} after the next", epoch.number);
                return Err(Wrong::new(Fault::Other, what));
            }
            epoch.next = number + 1;
            self.records += 1;
            return Ok(());
        }
        if header.epoch_bits == 2 {
            // The handshake's epoch, in which no association that was saved sends.
            return Ok(());
        }
        Err(unreadable(format_args!(
            "nobody can read a record of epoch bits {}",
            header.epoch_bits
        )))
    }
}

fn unreadable(why: impl std::fmt::Display) -> Wrong {
    Wrong::new(Fault::Other, why.to_string())
}
