//! What an observer who has all keys sees: whether an end seals two records under one nonce.

use lightseal_core::Reader;
use lightseal_dtls::KeyLog;
use lightseal_dtls::ProtocolVersion;
use lightseal_dtls::Scheme;
use lightseal_dtls::crypto::{CipherSuite, Sha256, TrafficSecret};
use lightseal_dtls::record::epochs::{APPLICATION_EPOCH, EPOCH_12};
use lightseal_dtls::record::{Header12, ReceiveBuffer, ReceiveEpoch, UnifiedHeader};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// The traffic secrets of all handshakes, by the end that sends under them.
#[derive(Debug, Default)]
pub(super) struct Secrets(Mutex<Vec<(usize, Vec<u8>)>>);

impl KeyLog for Secrets {
    fn log(&self, line: &str) {
        let end = match line.split(' ').next() {
            Some("CLIENT_TRAFFIC_SECRET_0") => 0,
            Some("SERVER_TRAFFIC_SECRET_0") => 1,
            _ => return,
        };
        let hex = line.rsplit(' ').next().unwrap_or_default().as_bytes();
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let secret: Option<Vec<u8>> = hex.chunks_exact(2).map(digits).collect();
        let mut all = self.0.lock().expect("nobody panics with the log");
        let entry = (end, secret.expect("a key log has hexadecimal secrets"));
        // Both ends log each secret.
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
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
    suite: &'static CipherSuite,
    version: ProtocolVersion,
    cid_len: usize,
    secrets: Arc<Secrets>,
    read: usize,
    senders: [Vec<Sender>; 2],
    /// The records of DTLS 1.2, whose numbers are in clear: end, association, epoch and number.
    clear: BTreeSet<(usize, usize, u64)>,
    /// The number of protected records of the newest handshake's epochs that were read.
    pub(super) records: u64,
}

impl Observer {
    pub(super) fn new(
        suite: &'static CipherSuite,
        version: ProtocolVersion,
        cid_len: usize,
    ) -> (Self, Arc<Secrets>) {
        let secrets = Arc::new(Secrets::default());
        let observer = Self {
            suite,
            version,
            cid_len,
            secrets: Arc::clone(&secrets),
            read: 0,
            senders: [Vec::new(), Vec::new()],
            clear: BTreeSet::new(),
            records: 0,
        };
        (observer, secrets)
    }

    /// An end sends a datagram. `association` counts the attempts at a handshake.
    pub(super) fn sent(
        &mut self,
        end: usize,
        association: usize,
        datagram: &[u8],
    ) -> Result<(), String> {
        let mut rest = datagram;
        while let Some(first) = rest.first() {
            let cid_len = self.cid_len;
            let (len, result) = if UnifiedHeader::begins_with(*first) {
                let header = UnifiedHeader::read(&mut Reader::new(rest), cid_len)
                    .map_err(|error| error.to_string())?;
                let body = header.length.map(usize::from);
                let len = body.map_or(rest.len(), |body| header.header_len() + body);
                (len, self.record(end, header, &rest[..len]))
            } else {
                let header = Header12::read(rest, cid_len).map_err(|error| error.to_string())?;
                let len = header.len + usize::from(header.body);
                let protected = u64::from(header.epoch) == EPOCH_12;
                let is_new = !protected || self.clear.insert((end, association, header.number));
                self.records += u64::from(protected);
                let number = header.number;
                (len, if is_new { Ok(()) } else { Err(format!("record {number} sent twice")) })
            };
            result?;
            rest = &rest[len..];
        }
        Ok(())
    }

    fn learn(&mut self) {
        let secrets = self.secrets.0.lock().expect("nobody panics with the log");
        for (end, secret) in &secrets[self.read..] {
            let secret = TrafficSecret::new(&Sha256, secret);
            let first = ReceiveEpoch::new(APPLICATION_EPOCH, self.suite, Scheme::Plain, &secret);
            let held = ReceiveBuffer::new(1 << 20);
            self.senders[*end].push(Sender { secret, epochs: vec![first], held });
        }
        self.read = secrets.len();
    }

    fn record(&mut self, end: usize, header: UnifiedHeader, record: &[u8]) -> Result<(), String> {
        assert_eq!(self.version, ProtocolVersion::Dtls13);
        self.learn();
        for sender in self.senders[end].iter_mut().rev() {
            let next = sender.secret.next();
            let number = APPLICATION_EPOCH + sender.epochs.len() as u64;
            let mut following = ReceiveEpoch::new(number, self.suite, Scheme::Plain, &next);
            let newest = sender.epochs.len();
            let known = sender.epochs.iter_mut().enumerate().rev();
            for (at, epoch) in std::iter::once((newest, &mut following)).chain(known) {
                if epoch.epoch() & 3 != u64::from(header.epoch_bits) {
                    continue;
                }
                let mut copy = record.to_vec();
                let opened = epoch.open(header, &mut copy, &mut sender.held);
                if opened.outcomes.replayed > 0 {
                    return Err(format!("a record of epoch {} repeats a number", epoch.epoch()));
                }
                if opened.inner.is_some() {
                    self.records += 1;
                    if at + 1 < newest {
                        return Err(format!("a record of epoch {} after the next", epoch.epoch()));
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
        Err(format!("nobody can read a record of epoch bits {}", header.epoch_bits))
    }
}
