//! The tables of a store.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | a name | the format, the key's check value, the places |
//! | `marks` | number of the association | port towards the service (16), marks |
//! | `states` | number of the association | the sealed state: peer, if it has a chain, and state |
//! | `chains` | hash of the peer's key and name | the chain of certificates that it presented last |
//!
//! Marks are written often and have no secrets; the two tables of an association are written in one
//! transaction.

use super::key::StateKey;
use super::place::{self, Lock, Place};
use crate::failure::{Context, Failure};
use lightseal_dtls::{Marks, SavedAssociation};
use lightseal_owner_only::database::{StoreError, begun, open_with_cache};
use lightseal_owner_only::socket::prepare_directory;
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

const FILE: &str = "state.redb";

/// The version of the format of tables and rows. What the engine seals has a version of its own.
const FORMAT: &[u8] = &[1];

/// The most memory that pages of the database take, in bytes.
const CACHE_BYTES: usize = 32 << 20;

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const MARKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("marks");
const STATES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("states");
const CHAINS: TableDefinition<'_, [u8; 32], &[u8]> = TableDefinition::new("chains");

/// The names in `meta`. A run that ends while it begins leaves both places.
const META_FORMAT: &str = "format";
const META_KEY: &str = "key";
const META_PLACE: &str = "place";
const META_FORMER: &str = "former place";

/// The number of an association in the store. None is used twice in one run.
pub(super) type RowId = u64;
/// The highest number that a row may have: far above what a store ever counts to, and far below what
/// cannot be counted on from. A row with a higher one is damaged.
pub(super) const MOST_ROW_ID: RowId = 1 << 62;
/// A hash of a peer's key and name.
pub(super) type PeerHash = [u8; 32];
/// What a peer has presented ([`Evidence`](lightseal_pki::Evidence) as bytes).
pub(super) type Chain = Vec<u8>;

/// An association from the store.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: RowId,
    /// The association; `None` if the row is damaged.
    pub(super) saved: Option<SavedAssociation>,
    /// The port from which the service saw its messages; 0 if it has seen none.
    pub(super) service_port: u16,
    /// Its peer, if it had presented a chain, and the chain.
    pub(super) peer: Option<PeerHash>,
    pub(super) chain: Option<Chain>,
}

/// A change of a row.
#[derive(Debug)]
pub(super) enum Change {
    Save(Save),
    Remove,
}

/// A row that is written.
#[derive(Debug)]
pub(super) struct Save {
    pub(super) saved: Box<SavedAssociation>,
    pub(super) service_port: u16,
    /// The peer, if it has presented a chain in this run or an earlier one.
    pub(super) peer: Option<PeerHash>,
    /// Whether the row is not in the store yet.
    pub(super) is_new: bool,
}

/// What the rows of associations take in a store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// The number of associations.
    pub(super) rows: u64,
    /// Keys and values.
    pub(super) stored: u64,
    /// What the trees take besides.
    pub(super) index: u64,
}

/// Refuses a file that another user can change, or that is a link to another place.
fn refuse_foreign(name: &str, file: &Path) -> Result<(), Failure> {
    let metadata = match file.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.context(name)?,
    };
    if !metadata.is_file() {
        return Err(Failure::new(format_args!("{name}: {FILE} is no regular file")));
    }
    crate::keys::refuse_exposed(name, file, &metadata)
}

/// An open store. No other process can open it.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    key: StateKey,
    /// `None` while it could not be opened again after a failure.
    database: Option<Arc<Database>>,
    _lock: Lock,
}

impl Store {
    /// Opens the store in a directory, and creates it if it does not exist. With `forget` it begins
    /// anew.
    ///
    /// # Errors
    ///
    /// If another process has it open, it was made with another key or by another version, it is a
    /// copy, or it cannot be read or written. Then nothing is changed.
    pub(super) fn open(directory: &Path, key: StateKey, forget: bool) -> Result<Self, Failure> {
        let name = format!("--state {}", directory.display());
        prepare_directory(directory).context(&name)?;
        let Some(lock) = Lock::take(directory).context(&name)? else {
            return Err(Failure::new(format_args!("{name}: another process has it open")));
        };
        if forget {
            for file in [FILE, place::RUN] {
                match std::fs::remove_file(directory.join(file)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(error).context(&name);
                    }
                    _ => {}
                }
            }
        }
        refuse_foreign(&name, &directory.join(FILE))?;
        let found = place::found(directory, FILE);
        let database = open_with_cache(directory, FILE, CACHE_BYTES).context(&name)?;
        let store =
            Self { directory: directory.into(), key, database: Some(database), _lock: lock };
        store.examine(found).context(&name)?;
        store.begin(found).context(&name)?;
        Ok(store)
    }

    fn database(&self) -> Result<&Arc<Database>, StoreError> {
        self.database.as_ref().ok_or(StoreError::Damaged("it is not open"))
    }

    /// Refuses a store that is not this one's, and changes nothing.
    fn examine(&self, found: Option<Place>) -> Result<(), Failure> {
        let wrong = |why: &str| {
            Err(Failure::new(format_args!("{why}; --forget starts afresh, with new handshakes")))
        };
        let database = self.database().map_err(Failure::new)?;
        let meta = begun(database, || {
            let read = database.begin_read()?;
            let meta = match read.open_table(META) {
                Ok(meta) => meta,
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let value = |name| -> Result<_, StoreError> {
                Ok(meta.get(name)?.map(|value| value.value().to_vec()))
            };
            let names = [META_FORMAT, META_KEY, META_PLACE, META_FORMER];
            let [format, key, place, former] = names.map(value);
            let is_empty = read.open_table(MARKS)?.is_empty()?;
            Ok(Some((format?, key?, [place?, former?], is_empty)))
        });
        let Some((format, key, places, is_empty)) = meta.map_err(Failure::new)? else {
            return Ok(());
        };
        if format.as_deref() != Some(FORMAT) {
            return wrong("another version of this program has written it");
        }
        if key.as_deref() != Some(&self.key.check_value()) {
            return wrong("it was made with another --state-key");
        }
        let is_here =
            places.iter().flatten().any(|place| Some(&place[..]) == found.as_ref().map(|f| &f[..]));
        // A first run that ended while it began leaves no place, and nothing that a copy could repeat.
        if !is_here && !is_empty {
            return wrong(
                "it was copied or restored, and another run may have used its associations",
            );
        }
        Ok(())
    }

    /// Begins a run.
    fn begin(&self, found: Option<Place>) -> Result<(), StoreError> {
        let failed = |error: StoreError| io::Error::other(error);
        let begun = place::begin_run(&self.directory, FILE, |place| {
            self.transact(|transaction| {
                transaction.open_table(MARKS)?;
                transaction.open_table(STATES)?;
                transaction.open_table(CHAINS)?;
                let mut meta = transaction.open_table(META)?;
                // Until the run's file is in its place, the store is where it was found: the place
                // that is in the table may be that of a run which ended here.
                match found {
                    Some(found) => drop(meta.insert(META_FORMER, &found[..])?),
                    None => drop(meta.remove(META_FORMER)?),
                }
                meta.insert(META_FORMAT, FORMAT)?;
                meta.insert(META_KEY, &self.key.check_value()[..])?;
                meta.insert(META_PLACE, &place[..])?;
                Ok(())
            })
            .map_err(failed)
        });
        begun.map_err(|error| StoreError::File(self.directory.clone(), error))?;
        self.transact(|transaction| {
            transaction.open_table(META)?.remove(META_FORMER)?;
            Ok(())
        })
    }

    fn transact(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut transaction = self.database()?.begin_write()?;
        // In one phase, a page that the disk has spoilt would be taken for a write that was cut short,
        // and the transaction before, which was confirmed, would be taken back without a word.
        transaction.set_two_phase_commit(true);
        change(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    /// Calls `each` with every association, the newest first. Chains of peers without an association are removed.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub(super) fn load(&self, mut each: impl FnMut(Row)) -> Result<Sizes, StoreError> {
        let read = self.database()?.begin_read()?;
        let (marks, states) = (read.open_table(MARKS)?, read.open_table(STATES)?);
        let chains = read.open_table(CHAINS)?;
        let mut used = BTreeSet::new();
        let mut sizes = Sizes::default();
        for stats in [marks.stats()?, states.stats()?] {
            sizes.stored += stats.stored_bytes();
            sizes.index += stats.metadata_bytes() + stats.fragmented_bytes();
        }
        // The newest first: it counts where an older one has its address or connection ID.
        for entry in marks.iter()?.rev() {
            let (id, mark) = entry?;
            let id = id.value();
            sizes.rows += 1;
            let sealed = states.get(id)?;
            let read = sealed
                .filter(|_| id <= MOST_ROW_ID)
                .and_then(|sealed| self.read_row(id, mark.value(), sealed.value()));
            let Some((saved, service_port, peer)) = read else {
                each(Row { id, saved: None, service_port: 0, peer: None, chain: None });
                continue;
            };
            let mut chain = None;
            if let Some(peer) = peer {
                chain = chains.get(peer)?.map(|chain| chain.value().to_vec());
                used.insert(peer);
            }
            each(Row { id, saved: Some(saved), service_port, peer, chain });
        }
        let is_unused = |peer: &PeerHash| !used.contains(peer);
        if chains.iter()?.any(|entry| entry.is_ok_and(|(peer, _)| is_unused(&peer.value()))) {
            drop((marks, states, chains));
            self.transact(|transaction| {
                Ok(transaction.open_table(CHAINS)?.retain(|peer, _| !is_unused(&peer))?)
            })?;
        }
        Ok(sizes)
    }

    fn read_row(
        &self,
        id: RowId,
        mark: &[u8],
        sealed: &[u8],
    ) -> Option<(SavedAssociation, u16, Option<PeerHash>)> {
        let (port, marks) = mark.split_first_chunk::<2>()?;
        let marks = Marks::from_bytes(marks).ok()?;
        let plain = self.key.open(id, sealed)?;
        let (peer, state) = match plain.split_first()? {
            (0, state) => (None, state),
            (1, rest) => {
                let (peer, state) = rest.split_first_chunk()?;
                (Some(*peer), state)
            }
            _ => return None,
        };
        let saved = SavedAssociation::new(marks, state.to_vec());
        Some((saved, u16::from_be_bytes(*port), peer))
    }

    /// Writes changes and chains in one transaction.
    ///
    /// # Errors
    ///
    /// See [`StoreError`]. Then either everything is in effect or nothing.
    pub(super) fn write<'a>(
        &self,
        changes: impl Iterator<Item = (RowId, &'a Change)>,
        chains: &BTreeMap<PeerHash, Chain>,
    ) -> Result<(), StoreError> {
        self.transact(|transaction| {
            if !chains.is_empty() {
                let mut table = transaction.open_table(CHAINS)?;
                for (peer, chain) in chains {
                    table.insert(peer, &chain[..])?;
                }
            }
            let mut marks = transaction.open_table(MARKS)?;
            let mut states = transaction.open_table(STATES)?;
            for (id, change) in changes {
                let Change::Save(Save { saved, service_port, peer, .. }) = change else {
                    marks.remove(id)?;
                    states.remove(id)?;
                    continue;
                };
                let mark = [&service_port.to_be_bytes()[..], &saved.marks.to_bytes()].concat();
                marks.insert(id, &mark[..])?;
                if let Some(state) = saved.state() {
                    let mut plain = Zeroizing::new(Vec::with_capacity(33 + state.len()));
                    plain.push(peer.is_some().into());
                    plain.extend_from_slice(peer.as_ref().map_or(&[], |peer| &peer[..]));
                    plain.extend_from_slice(state);
                    let sealed = self.key.seal(id, &plain);
                    let sealed = sealed.map_err(|_| StoreError::Damaged("no randomness"))?;
                    states.insert(id, &sealed[..])?;
                }
            }
            Ok(())
        })
    }

    /// Opens the database again after a failure, after which it refuses everything.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        self.database = None;
        self.database = Some(open_with_cache(&self.directory, FILE, CACHE_BYTES)?);
        Ok(())
    }
}
