//! What all uses of a PostgreSQL database have in common: its address, why it fails, and how a thread
//! waits for it.

mod tls;
mod url;

pub(crate) use url::StoreUrl;

use std::error::Error;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The runtime of a thread that waits for the database. It may be dropped anywhere.
#[derive(Debug)]
pub(crate) struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    /// # Errors
    ///
    /// If the system has no descriptors left.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(Some(tokio::runtime::Builder::new_current_thread().enable_all().build()?)))
    }

    /// Waits for a future. Not to be called by a task of another runtime.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("it is there until it is dropped").block_on(future)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Why the database has not done what it was asked for.
#[derive(Debug)]
pub(crate) struct DatabaseError {
    why: String,
    is_late: bool,
}

impl DatabaseError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_late: false }
    }

    /// It has not answered in this time.
    pub(crate) fn late(patience: Duration) -> Self {
        let why = format!("the database has not answered for {} s", patience.as_secs());
        Self { why, is_late: true }
    }

    /// Whether it may have been asked for too much at once.
    pub(crate) const fn is_late(&self) -> bool {
        self.is_late
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for DatabaseError {}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::new(match (error.as_db_error(), error.source()) {
            (Some(answer), _) => {
                format!("{} (SQLSTATE {})", answer.message(), answer.code().code())
            }
            (None, Some(cause)) => format!("{error}: {cause}"),
            (None, None) => error.to_string(),
        })
    }
}
