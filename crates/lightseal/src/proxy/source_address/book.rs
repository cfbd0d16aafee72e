//! The thread that assigns addresses which are stored.

use super::SourcePrefix;
use super::file::AddressFile;
use super::store::AddressStore;
use super::table::AddressTable;
use crate::database::StoreUrl;
use crate::failure::{Context, Failure};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The most identities that get their addresses in one transaction.
const MOST_AT_ONCE: usize = 500;

/// How long the thread waits after a failure.
const RETRY: Duration = Duration::from_millis(500);

/// How often it is noted that an identity is there. A row states the day.
const DAY: Duration = Duration::from_secs(12 * 3600);

enum Ask {
    Assign(Arc<str>),
    Note(Vec<Arc<str>>),
}

/// What is told when addresses are assigned.
pub(crate) type Told = Box<dyn Fn(&[(Arc<str>, Option<IpAddr>)]) + Send>;

/// The way to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AddressBook {
    asks: Sender<Ask>,
    day_began: Instant,
}

/// A book that nobody has begun to use.
pub(crate) struct OpenBook {
    name: String,
    store: Box<dyn AddressStore>,
}

impl std::fmt::Debug for OpenBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenBook").field("name", &self.name).finish_non_exhaustive()
    }
}

impl OpenBook {
    /// Opens the file in a directory, which this process has for itself.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    pub(crate) fn in_directory(directory: &Path) -> Result<Self, Failure> {
        let name = format!("--state {}", directory.display());
        let store = AddressFile::open(directory).context(&name)?;
        Ok(Self { name, store: Box::new(store) })
    }

    /// Opens the table in a database, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// If the database does not answer or refuses.
    pub(crate) fn in_database(url: &StoreUrl) -> Result<Self, Failure> {
        let name = format!("--store {url}");
        let store = AddressTable::open(url).map_err(Failure::new).context(&name)?;
        Ok(Self { name, store: Box::new(store) })
    }

    /// Starts the thread, which tells what it has assigned.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(crate) fn start(self, prefix: SourcePrefix, told: Told) -> std::io::Result<AddressBook> {
        let (asks, asked) = channel();
        let Self { name, store } = self;
        let thread = Thread { name, store, prefix, told, asked, fails: false };
        std::thread::Builder::new().name("addresses".into()).spawn(|| thread.run())?;
        Ok(AddressBook { asks, day_began: Instant::now() })
    }
}

impl AddressBook {
    /// Asks for the address of an identity.
    pub(super) fn assign(&self, identity: &Arc<str>) {
        // The thread ends only with this.
        let _ = self.asks.send(Ask::Assign(Arc::clone(identity)));
    }

    /// Whether the identities that are there are to be noted.
    pub(super) fn is_day_over(&self) -> bool {
        self.day_began.elapsed() >= DAY
    }

    pub(super) fn note(&mut self, identities: Vec<Arc<str>>) {
        self.day_began = Instant::now();
        let _ = self.asks.send(Ask::Note(identities));
    }
}

struct Thread {
    name: String,
    store: Box<dyn AddressStore>,
    prefix: SourcePrefix,
    told: Told,
    asked: Receiver<Ask>,
    fails: bool,
}

impl Thread {
    fn run(mut self) {
        while let Ok(first) = self.asked.recv() {
            let mut identities = Vec::new();
            let mut present = Vec::new();
            for ask in std::iter::once(first).chain(self.asked.try_iter().take(MOST_AT_ONCE - 1)) {
                match ask {
                    Ask::Assign(identity) => identities.push(identity),
                    Ask::Note(of) => present.extend(of),
                }
            }
            // Two nodes that assign the same addresses do not wait for each other.
            identities.sort();
            present.sort();
            let prefix = self.prefix;
            if !identities.is_empty() {
                let addresses = self.until_done(|store| store.assign(prefix, &identities));
                let assigned: Vec<_> = identities.into_iter().zip(addresses).collect();
                (self.told)(&assigned);
            }
            for some in present.chunks(MOST_AT_ONCE) {
                self.until_done(|store| store.note(some));
            }
        }
    }

    fn until_done<T>(
        &mut self,
        mut act: impl FnMut(&mut dyn AddressStore) -> Result<T, String>,
    ) -> T {
        loop {
            match act(&mut *self.store) {
                Ok(done) => {
                    if std::mem::take(&mut self.fails) {
                        tracing::warn!("{}: source addresses are stored again", self.name);
                    }
                    return done;
                }
                Err(why) => {
                    if !std::mem::replace(&mut self.fails, true) {
                        tracing::error!(
                            "{}: {why}; devices without a source address wait",
                            self.name
                        );
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
    }
}
