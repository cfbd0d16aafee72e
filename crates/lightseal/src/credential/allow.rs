//! The access list: the peers that are allowed in, one identity in each line.
//!
//! ```text
//! # sensors on the roof
//! psk:sensor-7
//! subject:sensor-8.example  # a name that a certificate proves
//! spki:5a…                  # the hash of a public key
//! ```
//!
//! Lines that begin with `#` and empty lines are ignored, and so is what follows after white space
//! and a `#`. A list without an identity is taken for a mistake, for example for a file that is just
//! being written, unless it has the line `!revoke-all`, as in a file of pre-shared keys.

use super::refused::RefusedPeers;
use crate::failure::{Context, Failure};
use crate::keys::{BYTE_ORDER_MARK, REVOKE_ALL};
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, Identity, Lookup, PeerKey, PeerLookup,
    PresentedCertificate, PskStore,
};
use lightseal_owner_only::file::{Version, refuse_writable};
use lightseal_pki::SpkiHash;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The largest list that is read, in bytes: as large as a file of pre-shared keys.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Why a peer that is not on the list is refused.
pub(crate) const NOT_LISTED: BadCertificate =
    BadCertificate::other("the peer is not on the access list");

/// A file of identities, which can be read again when it changes.
#[derive(Debug)]
pub(crate) struct AccessList {
    path: PathBuf,
    state: RwLock<State>,
    refused: RefusedPeers,
}

#[derive(Debug)]
struct State {
    identities: BTreeSet<Identity>,
    version: Version,
}

impl AccessList {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, a line is no identity, or the file has none.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let state = RwLock::new(State::read(path)?);
        Ok(Self { path: path.to_owned(), state, refused: RefusedPeers::default() })
    }

    /// Whether one of the identities of a peer is on the list.
    pub(crate) fn allows(&self, identities: impl IntoIterator<Item = Identity>) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        identities.into_iter().any(|identity| state.identities.contains(&identity))
    }

    /// As [`allows`](Self::allows), for a peer that begins a handshake. `refusal` says for the log what
    /// a refused peer has shown.
    fn admits(&self, identities: Vec<Identity>, refusal: impl FnOnce() -> String) -> bool {
        let allowed = self.allows(identities);
        if !allowed {
            self.refused.note(refusal);
        }
        allowed
    }

    /// Says in words for the log whom the list has refused since the last call; `None` if nobody.
    pub(crate) fn take_refused(&self) -> Option<String> {
        self.refused.take()
    }

    /// The number of identities.
    pub(crate) fn len(&self) -> usize {
        self.state.read().unwrap_or_else(PoisonError::into_inner).identities.len()
    }

    /// Reads the file again if it changed, or in any case with `force`. Returns whether it was read.
    /// If the file has become unusable, the list that was read before remains in use.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub(crate) fn reload(&self, force: bool) -> Result<bool, Failure> {
        let metadata = std::fs::metadata(&self.path).context(self.name())?;
        let version = Version::of(&metadata);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !force && version == state.version {
            return Ok(false);
        }
        // The version is stored even for a broken file, so that it is reported once.
        state.version = version;
        *state = State::read(&self.path)?;
        Ok(true)
    }

    fn name(&self) -> String {
        named(&self.path)
    }
}

fn named(path: &Path) -> String {
    format!("access list {}", path.display())
}

impl State {
    fn read(path: &Path) -> Result<Self, Failure> {
        let name = named(path);
        let mut file = File::open(path).context(&name)?;
        let metadata = file.metadata().context(&name)?;
        // Everybody may read the list, and whoever can change it can let anybody in.
        refuse_writable(path, &metadata).context(&name)?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(Failure::new(format_args!("{name}: longer than 1 GiB")));
        }
        let mut text = String::new();
        (&mut file).take(MAX_FILE_BYTES).read_to_string(&mut text).context(&name)?;
        let identities =
            parse(&text).map_err(|error| Failure::new(format_args!("{name}{error}")))?;
        Ok(Self { identities, version: Version::of(&metadata) })
    }
}

fn parse(text: &str) -> Result<BTreeSet<Identity>, String> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut identities = BTreeSet::new();
    let mut revokes_all = false;
    for (number, line) in (1..).zip(text.lines()) {
        let remark = line.match_indices('#').map(|(at, _)| at).find(|at| {
            line.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\t']))
        });
        let line = line.get(..remark.unwrap_or(line.len())).unwrap_or_default().trim();
        if line == REVOKE_ALL {
            revokes_all = true;
        } else if !line.is_empty() {
            let identity = line.parse().map_err(|error| {
                let hint = match line.starts_with("spki:") && line.contains(char::is_whitespace) {
                    true => "remove what follows the hash: only files for --pin have names there",
                    false => "a space in an identity is written %20",
                };
                format!(", line {number}: {error}; {hint}")
            })?;
            identities.insert(identity);
        }
    }
    match (revokes_all, identities.is_empty()) {
        (true, false) => Err(format!(": an identity beside {REVOKE_ALL}; remove one of the two")),
        (false, true) => Err(format!(
            " holds no identity; the line {REVOKE_ALL} in it refuses all peers on purpose"
        )),
        _ => Ok(identities),
    }
}

/// What the log says of a client that names a PSK.
fn unlisted_psk(identity: &Identity) -> String {
    format!("{identity} is not on the access list")
}

/// What the log says of a peer that has shown this certificate or public key. It has not proved yet
/// that it has the private key.
fn unlisted_key(identity: &Identity) -> String {
    let kind = match identity {
        Identity::Subject(_) => "a certificate of",
        _ => "the key",
    };
    format!("it showed {kind} {identity}, which is not on the access list")
}

/// The keys of a store whose identities are on an access list.
pub(super) struct AllowedPsks {
    pub(super) psks: Arc<dyn PskStore>,
    pub(super) list: Arc<AccessList>,
}

impl PskStore for AllowedPsks {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        // The list counts only for identities that have a key: otherwise strangers could fill the
        // log with names.
        let found = self.psks.look_up(identity);
        let identity = Identity::Psk(identity.to_vec());
        match found {
            Lookup::Unknown | Lookup::Later => found,
            _ if self.list.admits(vec![identity.clone()], || unlisted_psk(&identity)) => found,
            _ => Lookup::Unknown,
        }
    }
}

/// Accepts the peers that another verifier accepts and that are on an access list.
pub(super) struct AllowedPeers {
    pub(super) verifier: Arc<dyn CertificateVerifier>,
    pub(super) list: Arc<AccessList>,
}

impl CertificateVerifier for AllowedPeers {
    fn kinds(&self) -> &[CertificateType] {
        self.verifier.kinds()
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let (spki, name) = self.verifier.verify(presented)?;
        let key = Identity::Key(SpkiHash::of(&spki).0);
        let subject = name.clone().map(Identity::Subject);
        let identities = subject.clone().into_iter().chain([key.clone()]).collect();
        match self.list.admits(identities, || unlisted_key(&subject.unwrap_or(key))) {
            true => Ok((spki, name)),
            false => Err(NOT_LISTED),
        }
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        let name = peer.name.clone().map(Identity::Subject);
        let identities = name.into_iter().chain([Identity::Key(peer.spki_sha256)]);
        self.list.allows(identities) && self.verifier.still_accepts(peer)
    }

    fn look_up(&self, client: &PeerKey) -> PeerLookup {
        self.verifier.look_up(client)
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.certificate_schemes()
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.verifier.authorities()
    }

    fn authorities_in_hello(&self) -> Vec<Vec<u8>> {
        self.verifier.authorities_in_hello()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_identity_in_each_line() {
        let text = "\u{feff}# ours\npsk:sensor-7  # roof\n\n  subject:CN=a%20b#c \r\n\t# none\n";
        let expected = ["psk:sensor-7", "subject:CN=a%20b#c"];
        let list = parse(text).unwrap();
        assert_eq!(list.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        assert!(parse("# nobody\n!revoke-all\n").unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        let hash = "5a".repeat(32);
        for (text, said) in [
            ("#\n\npsk:a\nsensor-7\n", ", line 4: an identity is psk:"),
            ("psk:a b", ", line 1: an identity is psk:"),
            ("Psk:a", ", line 1:"),
            ("psk:", ", line 1:"),
            (&format!("spki:{}", &hash[1..]), ", line 1:"),
            (&format!("spki:{hash}0"), ", line 1:"),
            ("subjet:CN=a", ", line 1:"),
            ("psk:a#b # c\n*", ", line 2:"),
            ("", " holds no identity; the line !revoke-all"),
            ("# psk:a\n", " holds no identity"),
            ("!revoke-all\npsk:a", ": an identity beside !revoke-all"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
        // `keygen key` prints such lines, for files of pins.
        assert!(parse(&format!("spki:{hash} own.key")).unwrap_err().contains("--pin"));
    }

    fn list(text: &str) -> Arc<AccessList> {
        let path = std::env::temp_dir().join(format!(
            "lightseal-allow-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::write(&path, text).unwrap();
        let list = AccessList::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        Arc::new(list)
    }

    /// A PSK identity may have any text, also one that looks like another kind of identity.
    #[test]
    fn an_identity_of_one_kind_never_counts_as_another() {
        let hash = "5a".repeat(32);
        let list = list(&format!("spki:{hash}\nsubject:a.example\npsk:subject:b.example\n"));
        for identity in [format!("spki:{hash}"), "subject:a.example".into(), "a.example".into()] {
            assert!(!list.allows([Identity::Psk(identity.into_bytes())]));
        }
        assert!(list.allows([Identity::Psk(b"subject:b.example".to_vec())]));
        assert!(!list.allows([Identity::Subject("b.example".into())]));
        assert!(!list.allows([Identity::Subject(hash)]));
        assert!(list.allows([Identity::Key([0x5a; 32])]) && !list.allows([]));
    }

    #[test]
    fn a_refused_peer_is_named_once_and_never_for_another_one() {
        let list = list("psk:a\n");
        let knock = |name: &[u8]| {
            let identity = Identity::Psk(name.to_vec());
            list.admits(vec![identity.clone()], || unlisted_psk(&identity))
        };
        assert!(knock(b"a") && list.take_refused().is_none());
        assert!(!knock(b"b c"));
        assert_eq!(list.take_refused().unwrap(), "psk:b%20c is not on the access list");
        assert!(list.take_refused().is_none());
        assert!(!knock(b"b") && !knock(b"c"));
        assert_eq!(list.take_refused().unwrap(), "it is not among the peers that are let in");
    }
}
