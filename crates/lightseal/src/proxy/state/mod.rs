//! Associations that survive their proxy: `--state DIR`.
//!
//! - [`key`]: the key under which associations are sealed;
//! - [`place`]: what tells a store from a copy of it;
//! - [`store`]: the tables;
//! - [`writer`]: the thread that writes;
//! - [`report`]: what the log and the status say of it.
//!
//! The engine says what must be durable before it goes on
//! ([`Event::Save`](lightseal_dtls::Event::Save)), and is told when it is. Associations are taken over
//! in the same way after an orderly end and after any other.

mod key;
mod place;
pub(crate) mod report;
mod store;
mod writer;

pub(crate) use key::StateKey;

use crate::failure::{Context, Failure};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, Endpoint, Handle, Negotiated, PeerKey, RestoreError,
    SaveError, SavedAssociation,
};
use lightseal_pki::{Evidence, RecordingVerifier};
use report::TakenOver;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};
use store::{Change, MOST_ROW_ID, PeerHash, Row, RowId, Save, Store};
use writer::{Confirm, Writer};

/// How long a proxy that ends waits for its last writes.
const FAREWELL: Duration = Duration::from_secs(5);

/// A store that no association has been taken from yet.
pub(crate) struct OpenState {
    store: Store,
    name: String,
    verifier: Option<Arc<RecordingVerifier>>,
}

impl OpenState {
    /// Opens the store in a directory, and creates it if it does not exist. With `forget` it begins
    /// anew. `verifier` is the one with which the proxy verifies its peers.
    ///
    /// # Errors
    ///
    /// If the key or the store cannot be used, another process has the store open, or it is a copy.
    pub(crate) fn new(
        directory: &Path,
        key: &Path,
        forget: bool,
        verifier: Option<Arc<RecordingVerifier>>,
    ) -> Result<Self, Failure> {
        let store = Store::open(directory, StateKey::read(key)?, forget)?;
        Ok(Self { store, name: directory.display().to_string(), verifier })
    }

    /// Calls `restore` with each association in the store and the port from which the service saw it,
    /// and begins to write. What `restore` refuses for good is removed.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(crate) fn take_over(
        self,
        confirm: Confirm,
        mut restore: impl FnMut(&SavedAssociation, u16) -> Result<Handle, Refused>,
    ) -> Result<State, Failure> {
        let began = StdInstant::now();
        let name = format!("--state {}", self.name);
        let mut taken = TakenOver::default();
        let (mut rows, mut peers) = (HashMap::new(), HashSet::new());
        let (mut refused, mut next) = (Vec::new(), 0);
        let sizes = self.store.load(|row| {
            let Row { id, saved, service_port, peer, chain } = row;
            if id <= MOST_ROW_ID {
                next = next.max(id + 1);
            }
            let restored = saved.ok_or(Refused::for_good(DAMAGED)).and_then(|saved| {
                self.judge(chain.as_deref()).map_err(Refused::for_now)?;
                restore(&saved, service_port)
            });
            match restored {
                Ok(handle) => {
                    taken.restored += 1;
                    if chain.is_some() {
                        peers.extend(peer);
                    }
                    rows.insert(handle, RowOf { id, peer: peer.map(Box::new) });
                }
                Err(Refused { why, for_good }) => {
                    *taken.refused.entry(why).or_default() += 1;
                    if for_good {
                        refused.push(id);
                    } else {
                        taken.kept += 1;
                    }
                }
            }
        });
        taken.sizes = sizes.context(&name)?;
        taken.elapsed = began.elapsed();
        let writer = Writer::start(self.store, confirm).context(&name)?;
        for id in refused {
            writer.change(id, Change::Remove, None);
        }
        taken.log(&self.name);
        Ok(State { writer, rows, next, peers, verifier: self.verifier, taken })
    }

    /// Shows the verifier what a peer had presented, so that it accepts the peer if it still would.
    fn judge(&self, chain: Option<&[u8]>) -> Result<(), BadCertificate> {
        let (Some(verifier), Some(chain)) = (&self.verifier, chain) else { return Ok(()) };
        let evidence = Evidence::from_bytes(chain).map_err(|_| BadCertificate::Malformed)?;
        let verifier: &dyn CertificateVerifier = verifier.inner();
        evidence.judge(verifier).map(drop)
    }
}

/// Why an association is not taken over.
#[derive(Debug)]
pub(crate) struct Refused {
    why: String,
    /// Whether no later start would take it over. Otherwise it stays in the store: a clock may be
    /// set, or an option that was wrong be corrected.
    for_good: bool,
}

impl Refused {
    pub(crate) fn for_good(why: impl Display) -> Self {
        Self { why: why.to_string(), for_good: true }
    }

    pub(crate) fn for_now(why: impl Display) -> Self {
        Self { why: why.to_string(), for_good: false }
    }
}

impl From<RestoreError> for Refused {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Malformed(_) | RestoreError::Skipped | RestoreError::InUse => {
                Self::for_good(error)
            }
            _ => Self::for_now(error),
        }
    }
}

/// Why a row is not taken over that does not open under the key.
const DAMAGED: &str = "the stored association is damaged";

/// Where an association is in the store.
#[derive(Debug)]
struct RowOf {
    id: RowId,
    peer: Option<Box<PeerHash>>,
}

/// The stored associations of a running proxy.
#[derive(Debug)]
pub(crate) struct State {
    writer: Writer,
    rows: HashMap<Handle, RowOf>,
    next: RowId,
    /// The peers whose chains are in the store.
    peers: HashSet<PeerHash>,
    verifier: Option<Arc<RecordingVerifier>>,
    taken: TakenOver,
}

impl State {
    /// Writes an association as the engine asks for it, and confirms that.
    pub(crate) fn save(
        &mut self,
        endpoint: &Endpoint,
        handle: Handle,
        saved: Box<SavedAssociation>,
        service_port: u16,
    ) {
        let Some(connection) = endpoint.connection(handle) else { return };
        let Some(agreed) = connection.negotiated() else { return };
        let version = saved.marks.version;
        self.write(handle, agreed, saved, service_port, Some((handle, version)));
    }

    fn write(
        &mut self,
        handle: Handle,
        agreed: &Negotiated,
        saved: Box<SavedAssociation>,
        service_port: u16,
        confirms: Option<(Handle, u64)>,
    ) {
        let is_new = !self.rows.contains_key(&handle);
        if is_new {
            let peer = self.peer(agreed);
            self.rows.insert(handle, RowOf { id: self.next, peer: peer.map(Box::new) });
            self.next += 1;
        }
        let Some(RowOf { id, peer }) = self.rows.get(&handle) else { return };
        let (id, peer) = (*id, peer.as_deref().copied());
        let save = Save { saved, service_port, peer, is_new };
        self.writer.change(id, Change::Save(save), confirms);
    }

    /// The peer of an association that is new in the store, if it has presented a chain now or
    /// before. A new chain is written with the association.
    fn peer(&mut self, agreed: &Negotiated) -> Option<PeerHash> {
        let (key, verifier) = (agreed.peer_key()?, self.verifier.as_ref()?);
        let hash = peer_hash(key);
        if let Some(evidence) = verifier.take(key)
            && self.writer.chain(hash, evidence.to_bytes())
        {
            self.peers.insert(hash);
        }
        self.peers.contains(&hash).then_some(hash)
    }

    /// Removes an association that has ended.
    pub(crate) fn remove(&mut self, handle: Handle) {
        if let Some(row) = self.rows.remove(&handle) {
            self.writer.change(row.id, Change::Remove, None);
        }
    }

    /// Saves all associations that can be saved, and ends them without a word to their peers. An
    /// association that is busy goes on from what was written ahead. Returns the associations that are
    /// not in the store.
    pub(crate) fn save_all(
        &mut self,
        now: lightseal_core::Instant,
        endpoint: &mut Endpoint,
        service_port: impl Fn(Handle) -> u16,
    ) -> Vec<Handle> {
        let handles: Vec<_> = endpoint.connections().map(|(handle, _)| handle).collect();
        let mut left = Vec::new();
        for handle in handles {
            let connection = endpoint.connection(handle);
            let agreed = connection.and_then(|connection| connection.negotiated().cloned());
            match (endpoint.save(now, handle), agreed) {
                (Some(Ok(saved)), Some(agreed)) => {
                    self.write(handle, &agreed, Box::new(saved), service_port(handle), None);
                }
                // It is ending: nobody goes on with it.
                (Some(Err(SaveError::NotConnected)), _) => {
                    self.remove(handle);
                    left.push(handle);
                }
                _ if self.rows.contains_key(&handle) => endpoint.forget(handle),
                _ => left.push(handle),
            }
        }
        left
    }

    /// Whether associations are not written any more, so that the proxy cannot go on.
    pub(crate) fn has_ended(&self) -> bool {
        self.writer.has_ended()
    }

    /// Waits for the last writes of a proxy that ends.
    pub(crate) fn flush(&self) {
        if !self.writer.flush(FAREWELL) {
            let seconds = FAREWELL.as_secs();
            tracing::error!(
                "--state: the last changes are not written after {seconds} s; associations go on from \
                 what was written before"
            );
        }
    }
}

/// A hash of a peer's key and name.
fn peer_hash(key: &PeerKey) -> PeerHash {
    let mut hash = Sha256::new();
    hash.update(key.spki_sha256);
    hash.update([key.name.is_some().into()]);
    hash.update(key.name.as_deref().unwrap_or_default());
    hash.finalize().into()
}
