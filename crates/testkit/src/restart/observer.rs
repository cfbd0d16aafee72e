//! What an observer who has all keys sees: whether an end seals two records under one nonce.

use super::observer12::{Master, Observer12};
use super::{CLIENT, Fault, SERVER, Wrong};
use lightseal_core::Reader;
use lightseal_dtls::crypto::{CipherSuite, CipherSuite12, Sha256, TrafficSecret};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::{Header12, ReceiveBuffer, ReceiveEpoch, UnifiedHeader};
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
    epochs: Vec<ReceiveEpoch>,
    held: ReceiveBuffer,
}

/// Reads all datagrams in the order in which an end sends them.
pub(super) struct Observer {
    suite: Suite,
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
        let Settings { suites, provider, versions, .. } = settings;
        let suite = match versions[..] {
            [ProtocolVersion::Dtls12] => {
                Suite::Dtls12(suites.iter().find_map(|id| provider.suite_12(*id)).expect("a suite"))
            }
            _ => Suite::Dtls13(suites.iter().find_map(|id| provider.suite(*id)).expect("a suite")),
        };
        Self {
            suite,
            cid_len,
            secrets: Arc::clone(secrets),
            read: 0,
            senders: [Vec::new(), Vec::new()],
            older: Observer12::default(),
            records: 0,
        }
    }

    /// An end sends a datagram.
    pub(super) fn sent(&mut self, end: usize, datagram: &[u8]) -> Result<(), Wrong> {
        let mut rest = datagram;
        while let Some(first) = rest.first() {
            let cid_len = self.cid_len;
            let (len, result) = if UnifiedHeader::begins_with(*first) {
                let header =
                    UnifiedHeader::read(&mut Reader::new(rest), cid_len).map_err(unreadable)?;
                let body = header.length.map(usize::from);
                let len = body.map_or(rest.len(), |body| header.header_len() + body);
                (len, self.record(end, header, &rest[..len]))
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
            let first = ReceiveEpoch::new(APPLICATION_EPOCH, suite, Scheme::Plain, &secret);
            let held = ReceiveBuffer::new(1 << 20);
            self.senders[*end].push(Sender { secret, epochs: vec![first], held });
        }
        self.read = secrets.traffic.len();
    }

    fn record(&mut self, end: usize, header: UnifiedHeader, record: &[u8]) -> Result<(), Wrong> {
        let Suite::Dtls13(suite) = self.suite else {
            return Err(unreadable("a record of another version"));
        };
        self.learn(suite);
        for sender in self.senders[end].iter_mut().rev() {
            let next = sender.secret.next();
            let number = APPLICATION_EPOCH + sender.epochs.len() as u64;
            let mut following = ReceiveEpoch::new(number, suite, Scheme::Plain, &next);
            let newest = sender.epochs.len();
            let known = sender.epochs.iter_mut().enumerate().rev();
            for (at, epoch) in std::iter::once((newest, &mut following)).chain(known) {
                if epoch.epoch() & 3 != u64::from(header.epoch_bits) {
                    continue;
                }
                let mut copy = record.to_vec();
                let opened = epoch.open(header, &mut copy, &mut sender.held);
                if opened.outcomes.replayed > 0 {
                    let epoch = epoch.epoch();
                    let what = format!("a record of epoch {epoch} repeats a number");
                    return Err(Wrong::new(Fault::Number, what));
                }
                if opened.inner.is_some() {
                    self.records += 1;
                    if at + 1 < newest {
                        let what = format!("a record of epoch {} after the next", epoch.epoch());
                        return Err(Wrong::new(Fault::Other, what));
                    }
                    if at == newest {
                        sender.secret = next;
                        sender.epochs.push(following);
                    }
                    return Ok(());
                }
            }
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
