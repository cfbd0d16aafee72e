//! The address of a database.

use super::{DatabaseError, tls::Tls};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};

/// The address of a database: `postgresql://user@host/database` or `host=/run/postgresql dbname=…`.
#[derive(Clone, Debug)]
pub(crate) struct StoreUrl {
    config: Config,
    /// The file of the authorities that the server's certificate must come from, if the connection is
    /// under TLS.
    roots: Option<PathBuf>,
}

impl StoreUrl {
    /// Connects with what `adjust` changes of the configuration.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached, or refuses.
    pub(crate) async fn connect(
        &self,
        adjust: impl FnOnce(&mut Config),
    ) -> Result<Client, DatabaseError> {
        let mut config = self.config.clone();
        adjust(&mut config);
        // A connection ends with its client, and the client's next call reports its errors.
        Ok(match &self.roots {
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(async { drop(connection.await) });
                client
            }
            Some(roots) => {
                config.ssl_mode(SslMode::Require);
                let (client, connection) = config.connect(Tls::trusting(roots)?).await?;
                tokio::spawn(async { drop(connection.await) });
                client
            }
        })
    }

    /// A host to which the connection goes over a network without TLS, if there is one.
    pub(crate) fn exposed_host(&self) -> Option<&str> {
        let over_network = |host: &'_ Host| match host {
            Host::Tcp(name) => {
                let address = name.parse::<std::net::IpAddr>();
                name != "localhost" && !address.is_ok_and(|address| address.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => false,
        };
        let hosts = self.config.get_hosts().iter().filter(|_| self.roots.is_none());
        hosts.filter(|host| over_network(host)).find_map(|host| match host {
            Host::Tcp(name) => Some(&**name),
            #[cfg(unix)]
            Host::Unix(_) => None,
        })
    }
}

/// What an address says of TLS, which the library does not read as we do.
#[derive(Debug, Default, PartialEq, Eq)]
struct TlsPart {
    mode: Option<String>,
    roots: Option<String>,
}

impl TlsPart {
    /// Takes a parameter. Returns whether it is one about TLS.
    fn take(&mut self, name: &str, value: &str) -> bool {
        let of = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.roots,
            _ => return false,
        };
        *of = Some(value.to_owned());
        true
    }

    /// The file of the authorities, if there is to be TLS.
    fn roots(self) -> Result<Option<PathBuf>, String> {
        match (self.mode.as_deref(), self.roots) {
            (None | Some("disable"), None) => Ok(None),
            (Some("verify-full"), Some(roots)) => Ok(Some(roots.into())),
            (Some("verify-full"), None) => {
                Err("sslmode=verify-full needs sslrootcert=FILE, with the authorities".into())
            }
            (None | Some("disable"), Some(_)) => {
                Err("sslrootcert needs sslmode=verify-full".into())
            }
            (Some(mode), _) => Err(format!(
                "sslmode={mode} does not prove who the server is: verify-full does, and disable says that \
                 there is no TLS"
            )),
        }
    }
}

/// Splits an address into what the library reads, and what it says of TLS.
fn split(text: &str) -> Result<(String, TlsPart), String> {
    let mut tls = TlsPart::default();
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        let Some((base, query)) = text.split_once('?') else { return Ok((text.into(), tls)) };
        let mut rest = Vec::new();
        for part in query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !tls.take(name, &decoded(value)?) {
                rest.push(part);
            }
        }
        let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        return Ok((format!("{base}{query}"), tls));
    }
    let (mut rest, mut at) = (String::new(), text.trim_start());
    while let Some((name, after)) = at.split_once('=') {
        let after = after.trim_start();
        let quote = after.starts_with('\'');
        let (mut value, mut end, mut escaped) = (String::new(), after.len(), false);
        for (index, letter) in after.char_indices().skip(usize::from(quote)) {
            match letter {
                _ if escaped => escaped = false,
                '\\' => {
                    escaped = true;
                    continue;
                }
                '\'' if quote => {
                    end = index + 1;
                    break;
                }
                letter if !quote && letter.is_whitespace() => {
                    end = index;
                    break;
                }
                _ => {}
            }
            value.push(letter);
        }
        let (raw, next) = after.split_at(end);
        if !tls.take(name.trim(), &value) {
            rest += &format!("{}={raw} ", name.trim());
        }
        at = next.trim_start();
    }
    rest += at;
    Ok((rest.trim_end().into(), tls))
}

/// A value of a URL's query, in which `%2F` stands for `/`.
fn decoded(value: &str) -> Result<String, String> {
    let wrong = || format!("{value}: a % without two hexadecimal digits");
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| format!("{value}: no UTF-8"))
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, tls) = split(text)?;
        let config: Config = text.parse().map_err(|error: tokio_postgres::Error| {
            let why = error.source();
            why.map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        if config.get_hosts().is_empty() {
            return Err("no host of the database, as in postgresql://host/database".into());
        }
        let roots = tls.roots()?;
        let is_local = |host: &Host| !matches!(host, Host::Tcp(_));
        if roots.is_some() && config.get_hosts().iter().any(is_local) {
            return Err("a Unix socket needs no TLS: leave sslmode out".into());
        }
        Ok(Self { config, roots })
    }
}

/// Hosts and database, and no password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, .. } = self;
        f.write_str("postgresql:")?;
        for (at, host) in config.get_hosts().iter().enumerate() {
            f.write_str(if at == 0 { "//" } else { "," })?;
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                #[cfg(unix)]
                Host::Unix(path) => path.display().fmt(f)?,
            }
        }
        write!(f, "/{}", config.get_dbname().or(config.get_user()).unwrap_or_default())
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

    #[test]
    fn a_connection_is_under_verified_tls_or_there_is_none() {
        for url in [
            "postgresql://db/fleet?sslmode=verify-full&sslrootcert=%2Fetc%2Froot%20ca.pem&connect_timeout=3",
            "host=db sslmode=verify-full dbname=fleet sslrootcert='/etc/root ca.pem'",
            "sslrootcert = '/etc/root ca.pem' sslmode=verify-full host=db dbname=fleet",
        ] {
            let url: StoreUrl = url.parse().unwrap();
            assert_eq!(url.roots.as_deref(), Some("/etc/root ca.pem".as_ref()));
            assert_eq!(
                (url.to_string(), url.exposed_host()),
                ("postgresql://db/fleet".into(), None)
            );
        }
        for (url, exposed) in [
            ("postgresql://db,127.0.0.1/fleet", Some("db")),
            ("postgresql://localhost,[::1]/fleet?sslmode=disable", None),
            #[cfg(unix)]
            ("host=/run/postgresql password='a b\\' c' dbname=fleet", None),
        ] {
            let url: StoreUrl = url.parse().unwrap();
            assert_eq!((url.exposed_host(), &url.roots), (exposed, &None));
        }
        for (wrong, why) in [
            ("postgresql://db/fleet?sslmode=require", "does not prove"),
            ("postgresql://db/fleet?sslmode=verify-full", "sslrootcert"),
            ("host=db sslrootcert=ca.pem", "verify-full"),
            ("postgresql://db/fleet?sslmode=verify-full&sslrootcert=%2", "%"),
            #[cfg(unix)]
            ("host=/run/db sslmode=verify-full sslrootcert=ca.pem", "Unix socket"),
        ] {
            let failure = wrong.parse::<StoreUrl>().unwrap_err();
            assert!(failure.contains(why), "{wrong}: {failure}");
        }
    }
}
