//! What the observer reads of DTLS 1.2. Record numbers are in clear, but only the keys tell which
//! handshake a record belongs to: an end may still have the association of an earlier one.

use super::{CLIENT, Fault, SERVER, Wrong};
use lightseal_core::{DecodeError, Reader};
use lightseal_dtls::codepoints::{ContentType, HandshakeType};
use lightseal_dtls::crypto::{CipherSuite12, MasterSecret12};
use lightseal_dtls::record::epochs::EPOCH_12;
use lightseal_dtls::record::{ConnectionId, Header12, ReceiveEpoch};
use std::collections::BTreeSet;

/// A client's random value and the master secret of its handshake.
pub(super) type Master = ([u8; 32], [u8; 48]);

/// Which keys an end uses: the randoms of both ends, and the end.
type Keys = ([u8; 32], [u8; 32], usize);

/// The handshakes and records of both ends.
#[derive(Default)]
pub(super) struct Observer12 {
    server_randoms: Vec<[u8; 32]>,
    /// The keys of all protected records, and their numbers.
    sent: BTreeSet<(Keys, u64)>,
}

impl Observer12 {
    /// An end sends a record. `masters` are those of all handshakes so far. Returns whether the record
    /// is protected.
    pub(super) fn record(
        &mut self,
        end: usize,
        suite: &'static CipherSuite12,
        masters: &[Master],
        header: &Header12,
        record: &[u8],
    ) -> Result<bool, Wrong> {
        if u64::from(header.epoch) != EPOCH_12 {
            if end == SERVER && header.kind == ContentType::HANDSHAKE {
                self.learn(&record[header.len..]);
            }
            return Ok(false);
        }
        let pairs = masters.iter().rev().flat_map(|master| {
            self.server_randoms.iter().rev().map(move |random| (master, *random))
        });
        for ((client_random, master), server_random) in pairs {
            let keys = MasterSecret12::from_bytes(suite.hash, *master);
            let keys = keys.keys(suite, client_random, &server_random);
            let aead = if end == CLIENT { keys.client } else { keys.server };
            let cid = match header.kind {
                ContentType::TLS12_CID => header.cid(record),
                _ => &[],
            };
            let cid = ConnectionId::new(cid).expect("no longer than was configured");
            let mut copy = record.to_vec();
            let mut epoch = ReceiveEpoch::dtls12(EPOCH_12, suite, aead, cid);
            if epoch.open12(header, &mut copy).inner.is_some() {
                let number = header.number;
                if self.sent.insert(((*client_random, server_random, end), number)) {
                    return Ok(true);
                }
                return Err(Wrong::new(Fault::Number, format!("record {number} sent twice")));
            }
        }
        Err(Wrong::new(Fault::Other, format!("nobody can read record {}", header.number)))
    }

    /// Learns the server's random value from its hello.
    fn learn(&mut self, fragments: &[u8]) {
        let random = || -> Result<Option<[u8; 32]>, DecodeError> {
            let mut r = Reader::new(fragments);
            if HandshakeType(r.u8()?) != HandshakeType::SERVER_HELLO {
                return Ok(None);
            }
            // The rest of the message's header, and the version.
            r.take(11 + 2)?;
            r.array().map(Some)
        };
        if let Ok(Some(random)) = random()
            && !self.server_randoms.contains(&random)
        {
            self.server_randoms.push(random);
        }
    }
}
