//! The file in which a client keeps the session of one run for the next one.
//!
//! ```text
//! lightseal session 1
//! own spki:…              hash of each private key of the client
//! certificate 30…         what the server presented, its own certificate first,
//! raw-key 30…             or its raw public key
//! session 01…             the session
//! ```
//!
//! The file has the secret of the session, so only its owner may read it. The server's certificates
//! are verified anew before the session is used, and it is not used with other keys than those with
//! which it was made.

use super::exporter::hex;
use crate::failure::{Context, Failure};
use crate::keys::decode_hex;
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::{CertificateVerifier, ClientConfig, PresentedCertificate, Session};
use lightseal_owner_only::file::{refuse_exposed, replace};
use lightseal_pki::SpkiHash;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// The first line.
const HEAD: &str = "lightseal session 1";

/// The largest file that is read, in bytes: a session, and certificates of 64 KiB, in hexadecimal.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a server presented.
pub(super) type Presented = (CertificateType, Vec<Vec<u8>>);

/// The content of a session file.
pub(super) struct StoredSession {
    own: Vec<SpkiHash>,
    pub(super) presented: Option<Presented>,
    session: Zeroizing<Vec<u8>>,
}

impl StoredSession {
    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, other users can read it, or it is no session file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let name = format!("session file {}", path.display());
        let mut file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.context(&name)?,
        };
        let metadata = file.metadata().context(&name)?;
        refuse_exposed(path, &metadata).context(&name)?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(Failure::new(format_args!("{name}: longer than 1 MiB")));
        }
        // The buffer has its full size from the beginning: a buffer that grows leaves copies of the
        // secret in memory.
        let mut text = Zeroizing::new(String::with_capacity(metadata.len() as usize + 1));
        (&mut file).take(MAX_FILE_BYTES).read_to_string(&mut text).context(&name)?;
        let stored = Self::parse(&text);
        stored.map(Some).ok_or_else(|| Failure::new(format_args!("{name}: it holds no session")))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != HEAD {
            return None;
        }
        let (mut own, mut presented, mut session) = (Vec::new(), None::<Presented>, None);
        for line in lines {
            let (kind, value) = line.split_once(' ')?;
            let kind = match kind {
                "own" => {
                    own.push(value.parse().ok()?);
                    continue;
                }
                "session" => {
                    session = Some(decode_hex(value)?);
                    continue;
                }
                "certificate" => CertificateType::X509,
                "raw-key" => CertificateType::RAW_PUBLIC_KEY,
                _ => return None,
            };
            let (first, entries) = presented.get_or_insert((kind, Vec::new()));
            if *first != kind {
                return None;
            }
            entries.push(decode_hex(value)?.to_vec());
        }
        Some(Self { own, presented, session: session? })
    }

    /// The session for a client with this configuration, and with keys of its own with these hashes.
    ///
    /// # Errors
    ///
    /// Says why the client cannot use the session.
    pub(super) fn session(
        &self,
        config: &ClientConfig,
        own: &[SpkiHash],
        verifier: Option<&dyn CertificateVerifier>,
    ) -> Result<Session, String> {
        if self.own != own {
            return Err("it was made with other private keys of this end".to_owned());
        }
        if let (Some((kind, entries)), Some(verifier)) = (&self.presented, verifier) {
            let entries: Vec<_> = entries.iter().map(Vec::as_slice).collect();
            let mut presented = PresentedCertificate::new(*kind, &entries);
            presented.server_name = config.server_name();
            verifier.verify(&presented).map_err(|why| why.to_string())?;
        }
        let session = Session::from_bytes(&self.session, config);
        session.ok_or_else(|| "it was made with another credential".to_owned())
    }
}

/// Stores a session, and what the server presented when it was made.
///
/// # Errors
///
/// If the file cannot be written.
pub(super) fn store(
    path: &Path,
    session: &Session,
    own: &[SpkiHash],
    presented: Option<&Presented>,
) -> Result<(), Failure> {
    let Some(bytes) = session.to_bytes() else { return Ok(()) };
    let secret = Zeroizing::new(hex(&bytes));
    let public: usize =
        presented.map_or(0, |(_, all)| all.iter().map(|one| 2 * one.len() + 13).sum());
    let room = HEAD.len() + 1 + own.len() * 80 + public + secret.len() + 10;
    let mut text = Zeroizing::new(String::with_capacity(room));
    let mut line = |kind: &str, value: &str| {
        for part in [kind, " ", value, "\n"] {
            text.push_str(part);
        }
    };
    let (kind, version) = HEAD.rsplit_once(' ').unwrap_or((HEAD, ""));
    line(kind, version);
    for hash in own {
        line("own", &hash.to_string());
    }
    for entry in presented.iter().flat_map(|(_, entries)| entries) {
        let is_raw = presented.is_some_and(|(kind, _)| *kind == CertificateType::RAW_PUBLIC_KEY);
        line(if is_raw { "raw-key" } else { "certificate" }, &hex(entry));
    }
    line("session", &secret);
    replace(path, 0o600, text.as_bytes(), |_| Ok(()))
        .map(drop)
        .context(format_args!("session file {}", path.display()))
}

/// Removes the file: its session was used, and serves once.
///
/// # Errors
///
/// If the file cannot be removed.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.context(format_args!("session file {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_session_and_what_the_server_presented() {
        let hash = format!("spki:{}", "5a".repeat(32));
        let text =
            format!("{HEAD}\nown {hash}\ncertificate 3001\ncertificate 3002\nsession 0a0b\n");
        let stored = StoredSession::parse(&text).unwrap();
        assert_eq!((stored.own.len(), &stored.session[..]), (1, &[10, 11][..]));
        let (kind, entries) = stored.presented.unwrap();
        assert_eq!((kind, entries), (CertificateType::X509, vec![vec![0x30, 1], vec![0x30, 2]]));
        for wrong in [
            "",
            "lightseal session 2\nsession 0a\n",
            &format!("{HEAD}\n"),
            &format!("{HEAD}\nsession\n"),
            &format!("{HEAD}\nsession 0\n"),
            &format!("{HEAD}\nother 00\nsession 00\n"),
            &format!("{HEAD}\nown spki:00\nsession 00\n"),
            &format!("{HEAD}\ncertificate 30\nraw-key 30\nsession 00\n"),
        ] {
            assert!(StoredSession::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
