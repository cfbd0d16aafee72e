//! Why a database fails.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why the database has not done what it was asked for.
#[derive(Debug)]
pub(super) struct DatabaseError {
    why: String,
    is_late: bool,
}

impl DatabaseError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_late: false }
    }

    /// It has not answered in this time.
    pub(super) fn late(patience: Duration) -> Self {
        let why = format!("the database has not answered for {} s", patience.as_secs());
        Self { why, is_late: true }
    }

    /// Whether it may have been asked for too much at once.
    pub(super) const fn is_late(&self) -> bool {
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
