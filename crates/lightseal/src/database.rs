//! What all uses of a PostgreSQL database have in common: its address, why it fails, and how a thread
//! waits for it.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The address of a database: `postgresql://user@host/database` or `host=/run/postgresql dbname=…`.
#[derive(Clone, Debug)]
pub(crate) struct StoreUrl(pub(crate) Config);

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let config: Config = text.parse().map_err(|error: tokio_postgres::Error| {
            let why = error.source();
            why.map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        if config.get_hosts().is_empty() {
            return Err("no host of the database, as in postgresql://host/database".into());
        }
        Ok(Self(config))
    }
}

/// Hosts and database, and no password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgresql:")?;
        for (at, host) in self.0.get_hosts().iter().enumerate() {
            f.write_str(if at == 0 { "//" } else { "," })?;
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                #[cfg(unix)]
                Host::Unix(path) => path.display().fmt(f)?,
            }
        }
        write!(f, "/{}", self.0.get_dbname().or(self.0.get_user()).unwrap_or_default())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_database_is_shown_without_its_password() {
        let url: StoreUrl = "postgresql://proxy:secret@db1,db2/fleet".parse().unwrap();
        assert_eq!(url.to_string(), "postgresql://db1,db2/fleet");
        assert!(!format!("{url:?}").contains("secret"));
        let local: StoreUrl = "host=/run/postgresql user=proxy".parse().unwrap();
        assert_eq!(local.to_string(), "postgresql:///run/postgresql/proxy");
        for wrong in ["", "redis://db", "postgresql://db:port", "user=proxy"] {
            assert!(wrong.parse::<StoreUrl>().is_err(), "{wrong}");
        }
    }
}
