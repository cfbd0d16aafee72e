//! Databases in directories of one user: one file in each directory, written in transactions by an
//! embedded database.
//!
//! A transaction is on disk when [`commit`](redb::WriteTransaction::commit) returns. After a crash
//! it is in effect as a whole or not at all. Only one process at a time can have a database open.
//!
//! This module does not encrypt: only the file's owner can read it.

use crate::file::{open_private, private_directory};
use redb::{Database, DatabaseError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most memory that the pages of an open database take, in bytes.
const CACHE_BYTES: usize = 1 << 30;

/// Why a store cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// Another process has it open.
    InUse(PathBuf),
    /// The directory or file cannot be created or opened.
    File(PathBuf, io::Error),
    /// The database reports an error.
    Database(Box<redb::Error>),
    /// The content is damaged or of an unknown version. The text names the part.
    Damaged(&'static str),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(f, "{}: another process has it open", path.display()),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Database(error) => error.fmt(f),
            Self::Damaged(what) => write!(f, "the store is damaged: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::Database(Box::new(error.into()))
    }
}

/// Opens the database in the file `name` of `directory`, and creates both if necessary.
///
/// # Errors
/// See [`StoreError`].
pub fn open(directory: &Path, name: &str) -> Result<Arc<Database>, StoreError> {
    open_with_cache(directory, name, CACHE_BYTES)
}

/// As [`open`], with a cache of at most `cache_bytes` bytes.
///
/// # Errors
/// See [`StoreError`].
pub fn open_with_cache(
    directory: &Path,
    name: &str,
    cache_bytes: usize,
) -> Result<Arc<Database>, StoreError> {
    let path = directory.join(name);
    let at_path = |error| StoreError::File(path.clone(), error);
    private_directory(directory).map_err(|error| StoreError::File(directory.into(), error))?;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = open_private(&mut options, &path).map_err(at_path)?;
    if !has_sizes_of_a_database(&mut file).map_err(at_path)? {
        return Err(StoreError::Damaged("its first bytes"));
    }
    match catch_panic(|| checked(file, cache_bytes)) {
        Some(Ok(database)) => Ok(Arc::new(database)),
        Some(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(StoreError::InUse(path)),
        Some(Err(error)) => Err(error.into()),
        None => Err(StoreError::Damaged("the database cannot read it")),
    }
}

/// Whether the sizes at the beginning of a file fit the file's length. The database uses these
/// sizes to allocate memory before it verifies their checksum, and aborts the program if the memory
/// is not available. Files that are too short to contain the sizes are refused by the database.
fn has_sizes_of_a_database(file: &mut std::fs::File) -> io::Result<bool> {
    use std::io::{Read, Seek};
    /// The page size in bytes, which redb writes into its files.
    const PAGE_BYTES: u64 = 4096;
    /// The maximum number of data pages in a region: redb's regions have at most 4 GiB.
    const MOST_PAGES: u32 = 1 << 20;
    /// An upper bound for the number of pages of a region's header. The bitmaps of its data pages
    /// fit into fewer.
    const MOST_HEADER_PAGES: u32 = 1 << 10;
    /// The file offsets of the page numbers of the root pages. The upper five bits of a page number
    /// are the binary logarithm of the page's size, in units of the smallest page.
    const ROOTS: [usize; 4] = [72, 104, 200, 232];
    let len = file.metadata()?.len();
    let mut head = [0; 320];
    if len < head.len() as u64 {
        return Ok(true);
    }
    file.rewind()?;
    file.read_exact(&mut head)?;
    file.rewind()?;
    // After the magic number and three bytes follow: the page size, the number of header pages and
    // of data pages of a region, the number of full regions, and the number of data pages of the
    // last region.
    let mut sizes = head[12..32].chunks_exact(4).map(|size| {
        let size: [u8; 4] = size.try_into().expect("chunks of four");
        u32::from_le_bytes(size)
    });
    let mut size = || sizes.next().expect("the header has five sizes");
    let (page, header, data, full, last) = (size(), size(), size(), size(), size());
    let pages = u64::from(full) * u64::from(data) + u64::from(last);
    Ok(u64::from(page) == PAGE_BYTES
        && header <= MOST_HEADER_PAGES
        && (1..=MOST_PAGES).contains(&data)
        && last <= data
        && pages <= len / PAGE_BYTES
        && ROOTS.iter().all(|root| PAGE_BYTES << (head[root + 7] >> 3) <= len))
}

/// Opens a file and verifies all its checksums. If damage were found later, the database would
/// treat it as a bug of its own and panic.
fn checked(file: std::fs::File, cache_bytes: usize) -> Result<Database, DatabaseError> {
    let mut database = Database::builder().set_cache_size(cache_bytes).create_file(file)?;
    match database.check_integrity() {
        Ok(_) => Ok(database),
        Err(error) => Err(error),
    }
}

/// Runs the first operations on a database. They may still meet damage that the check of the file
/// did not find, which the database treats as a bug of its own: it panics.
///
/// # Errors
/// The errors of `work`, or that the database is damaged.
pub fn begun<T>(
    database: &Arc<Database>,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_panic(work).unwrap_or_else(|| {
        // Closing the database would panic again, so it is leaked.
        std::mem::forget(Arc::clone(database));
        Err(StoreError::Damaged("the database cannot read it"))
    })
}

/// Runs work that may panic, without the panic message on standard error. `None` if it panicked.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
    use std::sync::Once;
    thread_local! {
        static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(false);
    done.ok()
}
