//! All that a server looks up one by one: pre-shared keys in one source, and in another one the public
//! keys and names of certificates that are let in.

use super::args::KeySourceArgs;
use super::known::Told;
use super::report::KeyReport;
use super::source::{Entry, Kind, MOST_IDENTITY_BYTES};
use super::threads::{KeyUse, KeyUser, RESTORES, Revoked, SourceLookup};
use crate::credential::refused::RefusedPeers;
use crate::failure::Failure;
use lightseal_dtls::{
    BadCertificate, Handle, Identity, Lookup, Negotiated, PeerKey, PeerLookup, PskStore,
};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a peer is refused that the source does not let in.
const NOT_LET_IN: BadCertificate = BadCertificate::other(NOT_LET_IN_TEXT);
const NOT_LET_IN_TEXT: &str = "the source of --allow-… does not let the peer in";

/// What a server looks up one by one.
#[derive(Debug)]
pub(crate) struct KeyLookup {
    psks: Option<Arc<SourceLookup>>,
    peers: Option<Arc<SourceLookup>>,
    /// Peers that are not let in.
    refused: RefusedPeers,
}

impl KeyLookup {
    /// Opens the sources that the flags name; `None` if they name none.
    ///
    /// # Errors
    ///
    /// If a source cannot be used, or the system has no thread left.
    pub(crate) fn open(args: &KeySourceArgs) -> Result<Option<Arc<Self>>, Failure> {
        let open = |kind| {
            let place = args.place(kind)?;
            place.map(|place| SourceLookup::open(&place, args)).transpose()
        };
        let (psks, peers) = (open(Kind::Psks)?, open(Kind::Peers)?);
        let is_given = psks.is_some() || peers.is_some();
        Ok(is_given.then(|| Arc::new(Self { psks, peers, refused: RefusedPeers::default() })))
    }

    fn sources(&self) -> impl Iterator<Item = &Arc<SourceLookup>> {
        self.psks.iter().chain(&self.peers)
    }

    /// Whether pre-shared keys are looked up.
    pub(crate) const fn has_psks(&self) -> bool {
        self.psks.is_some()
    }

    /// Whether public keys and names of certificates are looked up.
    pub(crate) const fn has_peers(&self) -> bool {
        self.peers.is_some()
    }

    /// Tells `user` of answers and revocations from now on.
    pub(crate) fn attach(&self, user: &Arc<dyn KeyUser>) {
        self.sources().for_each(|source| source.attach(Arc::clone(user)));
    }

    /// Asks the sources about all identities in use, whatever has changed.
    pub(crate) fn check_all(&self) {
        self.sources().for_each(|source| source.check_all());
    }

    /// An association uses what was looked up for its handshake from now on, until the result is
    /// dropped. The result is `None` for an association for which nothing was looked up.
    ///
    /// # Errors
    ///
    /// If the key was removed or changed meanwhile, or the peer is not let in any more.
    pub(crate) fn begin(
        &self,
        agreed: &Negotiated,
        handle: Handle,
    ) -> Result<Option<KeyUse>, Revoked> {
        let (source, identities) = match (agreed.peer_key(), agreed.key_check) {
            (Some(peer), _) => (&self.peers, identities(peer)),
            (None, Some(_)) => (&self.psks, vec![Identity::Psk(agreed.psk_identity.clone())]),
            (None, None) => return Ok(None),
        };
        let Some(source) = source else { return Ok(None) };
        let check = agreed.key_check.filter(|_| agreed.peer_key().is_none());
        source.begin(&identities, check, handle).map(Some)
    }

    /// Calls `restore`, in which the engine looks up what stored associations need.
    pub(crate) fn restoring<T>(&self, restore: impl FnOnce() -> T) -> T {
        RESTORES.set(true);
        let restored = restore();
        RESTORES.set(false);
        restored
    }

    /// Waits until what stored associations need is looked up, or for this time.
    pub(crate) fn wait_for_stored(&self, patience: Duration) {
        let until = Instant::now() + patience;
        for source in self.sources() {
            source.wait_for_stored(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Why the proxy cannot go on, if it cannot: nobody would be revoked any more.
    pub(crate) fn why_ended(&self) -> Option<String> {
        self.sources().find_map(|source| source.why_ended())
    }

    /// Why no client is admitted at present, if so.
    pub(crate) fn obstacle(&self) -> Option<String> {
        self.sources().find_map(|source| source.obstacle())
    }

    /// What the status reports.
    pub(crate) fn report(&self) -> KeyReport {
        KeyReport::sum(self.sources().map(|source| source.report()))
    }

    /// Says in words for the log who was not let in since the last call; `None` if a handshake has
    /// failed for another reason than that.
    pub(crate) fn take_refused(&self, why: &dyn fmt::Display) -> Option<String> {
        let refused = self.refused.take();
        refused.filter(|_| why.to_string().contains(NOT_LET_IN_TEXT))
    }

    /// Whether a client is let in that has proved its key: by its name, or else by the key.
    pub(crate) fn look_up_peer(&self, peer: &PeerKey) -> PeerLookup {
        let Some(source) = &self.peers else { return PeerLookup::Accepted };
        for identity in identities(peer) {
            match source.look_up(&identity) {
                Told::Found(_) => return PeerLookup::Accepted,
                Told::Later => return PeerLookup::Later,
                Told::Unknown => {}
            }
        }
        let refusal = || {
            let shown: Vec<_> = identities(peer).iter().map(ToString::to_string).collect();
            format!("{} is not let in by {source}", shown.join(" or "))
        };
        // The log names those who are refused in a handshake.
        if !RESTORES.get() {
            self.refused.note(refusal);
        }
        PeerLookup::Refused(NOT_LET_IN)
    }
}

/// The identities of a peer in the order in which they are looked up.
fn identities(peer: &PeerKey) -> Vec<Identity> {
    let name = peer.name.clone().map(Identity::Subject);
    name.into_iter().chain([Identity::Key(peer.spki_sha256)]).collect()
}

/// The flags with their values.
impl fmt::Display for KeyLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.sources().map(ToString::to_string).collect();
        f.write_str(&shown.join(", "))
    }
}

impl PskStore for KeyLookup {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        let Some(source) = &self.psks else { return Lookup::Unknown };
        // No source is asked for what it cannot have.
        if !(1..=MOST_IDENTITY_BYTES).contains(&identity.len()) {
            return Lookup::Unknown;
        }
        match source.look_up(&Identity::Psk(identity.to_vec())) {
            Told::Found(Entry::Psk(psk)) => Lookup::Found(psk),
            Told::Found(Entry::Admitted) | Told::Unknown => Lookup::Unknown,
            Told::Later => Lookup::Later,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        keys: KeySourceArgs,
    }

    #[test]
    fn identities_that_no_key_can_have_are_not_looked_up() {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("lightseal-keys-lengths-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        std::fs::write(path.join("!revoke-all"), "").unwrap();
        let flags = ["", "--psk-dir", path.to_str().unwrap()];
        let lookup = KeyLookup::open(&Command::parse_from(flags).keys).unwrap().unwrap();
        for len in [0, MOST_IDENTITY_BYTES + 1, 65_535] {
            let answer = PskStore::look_up(&*lookup, &vec![b'x'; len]);
            assert!(matches!(answer, Lookup::Unknown), "{len} bytes: {answer:?}");
        }
        for len in [1, MOST_IDENTITY_BYTES] {
            let answer = PskStore::look_up(&*lookup, &vec![b'x'; len]);
            assert!(matches!(answer, Lookup::Later), "{len} bytes: {answer:?}");
        }
        drop(lookup);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
