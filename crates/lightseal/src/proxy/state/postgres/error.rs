//! Why a database fails.

use std::error::Error;
use std::fmt;

/// Why the database has not done what it was asked for.
#[derive(Debug)]
pub(super) struct DatabaseError(String);

impl DatabaseError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for DatabaseError {}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(match (error.as_db_error(), error.source()) {
            (Some(answer), _) => {
                format!("{} (SQLSTATE {})", answer.message(), answer.code().code())
            }
            (None, Some(cause)) => format!("{error}: {cause}"),
            (None, None) => error.to_string(),
        })
    }
}
