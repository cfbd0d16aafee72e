//! A store in a directory: the tables of an embedded database.
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
use super::row::{self, Change, MOST_ROW_ID, PeerHash, Revision, Row, RowId, Sizes};
use super::writer::{Backend, Batch, Loaded, WriteError};
use crate::failure::{Context, Failure};
use lightseal_dtls::{Marks, SavedAssociation};
use lightseal_owner_only::database::{StoreError, begun, open_with_cache};
use lightseal_owner_only::socket::prepare_directory;
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

    fn read(&self, each: &mut dyn FnMut(Row)) -> Result<Loaded, StoreError> {
        let read = self.database()?.begin_read()?;
        let (marks, states) = (read.open_table(MARKS)?, read.open_table(STATES)?);
        let chains = read.open_table(CHAINS)?;
        let mut used = BTreeSet::new();
        let (mut sizes, mut next) = (Sizes::default(), 0);
        for stats in [marks.stats()?, states.stats()?] {
            sizes.stored += stats.stored_bytes();
            sizes.index += stats.metadata_bytes() + stats.fragmented_bytes();
        }
        // The newest first: it counts where an older one has its address or connection ID.
        for entry in marks.iter()?.rev() {
            let (id, mark) = entry?;
            let id = id.value();
            sizes.rows += 1;
            if id <= MOST_ROW_ID {
                next = next.max(id + 1);
            }
            let sealed = states.get(id)?;
            let read = sealed.and_then(|sealed| self.read_row(id, mark.value(), sealed.value()));
            let Some((saved, service_port, peer)) = read else {
                let (revision, peer, chain) = (Revision::default(), None, None);
                each(Row { id, revision, saved: None, service_port: 0, peer, chain, bytes: 0 });
                continue;
            };
            let revision = Revision { version: saved.marks.version, writer: 0 };
            let mut chain = None;
            if let Some(peer) = peer {
                chain = chains.get(peer)?.map(|chain| chain.value().to_vec());
                used.insert(peer);
            }
            each(Row { id, revision, saved: Some(saved), service_port, peer, chain, bytes: 0 });
        }
        let is_unused = |peer: &PeerHash| !used.contains(peer);
        if chains.iter()?.any(|entry| entry.is_ok_and(|(peer, _)| is_unused(&peer.value()))) {
            drop((marks, states, chains));
            self.transact(|transaction| {
                Ok(transaction.open_table(CHAINS)?.retain(|peer, _| !is_unused(&peer))?)
            })?;
        }
        Ok(Loaded { sizes, next, writer: 0 })
    }

    fn read_row(
        &self,
        id: RowId,
        mark: &[u8],
        sealed: &[u8],
    ) -> Option<(SavedAssociation, u16, Option<PeerHash>)> {
        let (port, marks) = mark.split_first_chunk::<2>()?;
        let marks = Marks::from_bytes(marks).ok()?;
        let (saved, peer) = row::open(&self.key, id, marks, sealed)?;
        Some((saved, u16::from_be_bytes(*port), peer))
    }

    fn write_batch(&self, batch: &Batch) -> Result<(), StoreError> {
        self.transact(|transaction| {
            if !batch.chains.is_empty() {
                let mut table = transaction.open_table(CHAINS)?;
                for (peer, chain) in &batch.chains {
                    table.insert(peer, &chain[..])?;
                }
            }
            let mut marks = transaction.open_table(MARKS)?;
            let mut states = transaction.open_table(STATES)?;
            for (id, change) in batch.changes() {
                let Change::Save(save) = change else {
                    marks.remove(id)?;
                    states.remove(id)?;
                    continue;
                };
                let port = save.service_port.to_be_bytes();
                let mark = [&port[..], &save.saved.marks.to_bytes()].concat();
                marks.insert(id, &mark[..])?;
                let sealed = row::seal(&self.key, id, save);
                if let Some(sealed) = sealed.map_err(|_| StoreError::Damaged("no randomness"))? {
                    states.insert(id, &sealed[..])?;
                }
            }
            Ok(())
        })
    }
}

impl Backend for Store {
    fn name(&self) -> String {
        format!("--state {}", self.directory.display())
    }

    /// Calls `each` with every association, the newest first. Chains of peers without an association
    /// are removed.
    fn load(&mut self, each: &mut dyn FnMut(Row)) -> Result<Loaded, Failure> {
        self.read(each).map_err(Failure::new)
    }

    /// All rows are this process's: none is lost.
    fn write(&mut self, batch: &Batch) -> Result<Vec<RowId>, WriteError> {
        self.write_batch(batch)?;
        Ok(Vec::new())
    }

    /// Opens the database again, which refuses everything after a failure.
    fn reopen(&mut self) -> Result<(), WriteError> {
        self.database = None;
        self.database = Some(open_with_cache(&self.directory, FILE, CACHE_BYTES)?);
        Ok(())
    }
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self { may_pass: lacks_room(&error), why: error.to_string(), is_late: false }
    }
}

/// Whether a write failed because the disk is full. After other failures it is not known what the
/// disk has and what only the system's cache has, and that cache would be believed.
fn lacks_room(error: &StoreError) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let kind = match error {
        StoreError::Database(error) => match &**error {
            redb::Error::Io(error) => error.kind(),
            _ => return false,
        },
        StoreError::File(_, error) => error.kind(),
        _ => return false,
    };
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}
