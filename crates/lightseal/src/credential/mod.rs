//! Credentials of this end and whom it accepts, in one form for all commands with DTLS.
//!
//! - [`args`]: the flags;
//! - [`allow`]: the access list;
//! - [`lookup`]: what a server looks up one by one;
//! - [`refused`]: who was refused, for the log.

pub(crate) mod allow;
pub(crate) mod args;
pub(crate) mod lookup;
mod refused;

use crate::failure::{Context, Failure};
use crate::keys::KeyFile;
use crate::units::counted;
use allow::{AccessList, AllowedPeers, AllowedPsks};
use args::{CredentialArgs, Pin};
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{
    BadCertificate, CertificateCompression, CertificateVerifier, ClientAuthentication,
    ClientConfig, ConfigError, Identity, KeyStore, Negotiated, PeerKey, Psk, PskStore,
    ServerConfig, Settings,
};
use lightseal_pki::file::{
    CredentialForm, Expiration, ReloadingKeys, ReloadingVerifier, TrustFiles,
};
use lightseal_pki::{Clock, Settings as TrustSettings, SpkiHash, Zlib};
use lookup::{KeyLookup, LookedUpPeers};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How often the files of credentials are checked for changes: a revocation is to take less than a
/// second.
pub(crate) const FILES_POLL: Duration = Duration::from_millis(500);

/// The credentials of one end, and whom it accepts. Everything comes from files, which can be read
/// again while associations use them.
pub(crate) struct Credentials {
    psks: Option<Arc<KeyFile>>,
    /// Where a server looks up what is not in files.
    lookup: Option<Arc<KeyLookup>>,
    keys: Option<Arc<ReloadingKeys>>,
    verifier: Option<Arc<ReloadingVerifier>>,
    list: Option<Arc<AccessList>>,
    /// SHA-256 of the public keys of this end, as they were at the start.
    key_hashes: Vec<SpkiHash>,
}

/// Whether a server asks clients that have not used a PSK for a certificate or raw public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientPolicy {
    Ignored,
    Requested,
    Required,
}

/// What changed when the files were read again.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Identities of pre-shared keys that were removed or changed.
    revoked: BTreeSet<String>,
    /// Whether the trusted authorities and keys were read again.
    trust: bool,
    /// Whether the access list was read again.
    list: bool,
    /// What was read again, for the log.
    read: Vec<String>,
    /// The files that have become unusable. What was read from them before remains in use.
    pub(crate) failures: Vec<Failure>,
}

impl Changes {
    /// Whether a file was read again.
    pub(crate) const fn is_empty(&self) -> bool {
        self.read.is_empty()
    }

    /// Logs in one line what was read again, and how many associations ended for it.
    pub(crate) fn log(&self, ended: usize) {
        let ended = match ended {
            0 => String::new(),
            count => format!("; {} ended", counted(count as u64, "association")),
        };
        tracing::info!("read {}{ended}", self.read.join(", "));
    }

    /// Whether a peer may have lost its access, so that handshakes must begin anew that have begun
    /// before.
    pub(crate) fn may_revoke(&self) -> bool {
        self.trust || self.list || !self.revoked.is_empty()
    }
}

/// Logs failures to read files again, each once while it lasts: a file that is being replaced is
/// missing for a moment.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Vec<String>);

impl FailureLog {
    /// Logs the failures that the last call did not have. Returns whether there were any.
    pub(crate) fn log(&mut self, failures: &[Failure]) -> bool {
        let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
        let mut new = false;
        for failure in failures.iter().filter(|failure| !self.0.contains(failure)) {
            tracing::error!("{failure}; going on with what was read before");
            new = true;
        }
        self.0 = failures;
        new
    }

    /// Makes the next call log all failures.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

impl Credentials {
    /// Reads all files.
    ///
    /// # Errors
    ///
    /// If there is no credential, or a file cannot be used.
    pub(crate) fn open(args: &CredentialArgs, provider: &Provider) -> Result<Self, Failure> {
        let mut psk_files: Vec<_> = args.psk_file.iter().collect();
        for form in &args.credential {
            if let CredentialForm::Psks(file) = form {
                psk_files.push(file);
            }
        }
        if psk_files.len() > 1 {
            return Err(Failure::new("more than one file of pre-shared keys"));
        }
        let psks = psk_files.first().map(|file| KeyFile::open(file)).transpose()?.map(Arc::new);
        let (mut key_files, mut key_hashes) = (Vec::new(), Vec::new());
        for form in &args.credential {
            let Some(files) = form.key_files() else { continue };
            let key = files
                .load(provider)
                .map_err(|error| lacks_key(form).unwrap_or_else(|| Failure::new(error)))?;
            key_hashes.push(SpkiHash::of(key.key().public_key()));
            key_files.push(files);
        }
        let keys = match key_files.is_empty() {
            true => None,
            false => {
                Some(Arc::new(ReloadingKeys::open(provider, key_files).map_err(Failure::new)?))
            }
        };
        let verifier = trust(args, provider)?;
        let list = args.allow.as_deref().map(AccessList::open).transpose()?.map(Arc::new);
        Ok(Self { psks, lookup: None, keys, verifier, list, key_hashes })
    }

    /// Keys are looked up there, if there is such a source.
    ///
    /// # Errors
    ///
    /// If there is a file of keys, too.
    pub(crate) fn look_up_in(&mut self, lookup: Option<Arc<KeyLookup>>) -> Result<(), Failure> {
        self.lookup = lookup;
        match (&self.lookup, &self.psks) {
            (Some(lookup), Some(_)) if lookup.has_psks() => {
                Err(Failure::new(format_args!("{lookup} takes the place of a file of keys")))
            }
            _ => Ok(()),
        }
    }

    /// Where keys are looked up that are not in files.
    pub(crate) const fn lookup(&self) -> Option<&Arc<KeyLookup>> {
        self.lookup.as_ref()
    }

    /// The file of pre-shared keys.
    pub(crate) fn psks(&self) -> Option<&KeyFile> {
        self.psks.as_deref()
    }

    /// The hashes of the public keys of this end.
    pub(crate) fn key_hashes(&self) -> &[SpkiHash] {
        &self.key_hashes
    }

    /// What this end accepts of its peers, in a few words for the log.
    pub(crate) fn accepted(&self) -> String {
        let keys = self.psks.as_ref().map(|psks| counted(psks.len() as u64, "key"));
        let source = self.lookup.as_ref().map(|lookup| format!("keys from {lookup}"));
        let trust = self.verifier.as_ref().map(|_| "certificates and raw public keys".to_owned());
        let list = self.list.as_ref().map(|list| listed(list.len()));
        let all: Vec<_> = [keys, source, trust, list].into_iter().flatten().collect();
        all.join(", ")
    }

    /// Whether this end accepts certificates or raw public keys.
    pub(crate) fn verifies(&self) -> bool {
        self.verifier.is_some() || self.looks_up_peers()
    }

    fn looks_up_peers(&self) -> bool {
        self.lookup.as_ref().is_some_and(|lookup| lookup.has_peers())
    }

    /// Whether this end has a certificate or raw public key of its own.
    pub(crate) const fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether a server proxy asks clients without a pre-shared key for a certificate or raw public key.
    ///
    /// # Errors
    ///
    /// If the flags contradict each other.
    pub(crate) fn client_policy(&self, anonymous_clients: bool) -> Result<ClientPolicy, Failure> {
        let wrong = |why| Err(Failure::new(why));
        match (self.has_keys(), self.verifies(), anonymous_clients) {
            (true, true, false) => Ok(ClientPolicy::Required),
            (true, true, true) => Ok(ClientPolicy::Requested),
            (true, false, true) => Ok(ClientPolicy::Ignored),
            (true, false, false) => wrong(
                "no --ca, --pin or --allow-… to verify clients with; --anonymous-clients accepts \
                 everybody",
            ),
            (false, _, true) => wrong("--anonymous-clients needs a --credential with a key"),
            (false, true, false) => wrong(
                "--ca, --pin and --allow-… need a --credential with a certificate or key of this \
                 server, with which it asks clients for theirs",
            ),
            (false, false, false) => Ok(ClientPolicy::Ignored),
        }
    }

    /// The verifier of the peer's certificate. It heeds the access list, and where peers are looked up.
    pub(crate) fn verifier(&self) -> Option<Arc<dyn CertificateVerifier>> {
        let mut verifier = self.verifier_without_list();
        if let Some(lookup) = self.lookup.as_ref().filter(|lookup| lookup.has_peers()) {
            verifier = Some(Arc::new(LookedUpPeers::new(verifier, Arc::clone(lookup))));
        }
        let verifier = verifier?;
        Some(match &self.list {
            Some(list) => Arc::new(AllowedPeers { verifier, list: Arc::clone(list) }),
            None => verifier,
        })
    }

    /// The verifier of the peer's certificate, which does not heed the access list.
    pub(crate) fn verifier_without_list(&self) -> Option<Arc<dyn CertificateVerifier>> {
        self.verifier.as_ref().map(|verifier| Arc::clone(verifier) as _)
    }

    /// The private keys of this end.
    pub(crate) fn keys(&self) -> Option<Arc<dyn KeyStore>> {
        self.keys.as_ref().map(|keys| Arc::clone(keys) as _)
    }

    /// The keys in the file of pre-shared keys, which do not heed the access list.
    pub(crate) fn psk_store(&self) -> Option<Arc<dyn PskStore>> {
        self.psks.as_ref().map(|psks| Arc::clone(psks) as _)
    }

    /// The access list.
    pub(crate) const fn list(&self) -> Option<&Arc<AccessList>> {
        self.list.as_ref()
    }

    /// The pre-shared key of a client: the one with this identity, or the first one. `None` without
    /// a file of keys.
    ///
    /// # Errors
    ///
    /// If the file has no such key, or the access list lacks its identity.
    fn client_psk(&self, identity: Option<&str>) -> Result<Option<Psk>, Failure> {
        let Some(psks) = &self.psks else { return Ok(None) };
        let psk = psks.choose(identity)?;
        let listed = Identity::Psk(psk.identity().to_vec());
        match &self.list {
            Some(list) if !list.allows([listed.clone()]) => {
                Err(Failure::new(format_args!("{listed} is not on the access list (--allow)")))
            }
            _ => Ok(Some(psk)),
        }
    }

    /// The configuration of a client. It uses the PSK with this identity, or the first one, and
    /// expects a certificate with this name.
    ///
    /// # Errors
    ///
    /// If there is nothing by which the server is known, or the settings do not fit.
    pub(crate) fn client(
        &self,
        identity: Option<&str>,
        name: &str,
        verifier: Option<Arc<dyn CertificateVerifier>>,
        mut settings: Settings,
    ) -> Result<ClientConfig, Failure> {
        settings.certificate_compression = compressions();
        let psk = self.client_psk(identity)?;
        let config = match (psk, verifier) {
            (_, None) if self.keys.is_some() => return Err(Failure::new(NO_VERIFIER)),
            (Some(psk), None) => ClientConfig::with(psk, settings).map_err(unusable)?,
            (None, None) => return Err(Failure::new(NO_SERVER)),
            (psk, Some(verifier)) => {
                let config = match psk {
                    Some(psk) => ClientConfig::with(psk, settings)
                        .and_then(|config| config.with_verifier(verifier)),
                    None => ClientConfig::verifying(verifier, settings),
                };
                config.and_then(|config| config.with_server_name(name)).map_err(unusable)?
            }
        };
        match &self.keys {
            Some(keys) => config.with_keys(Arc::clone(keys) as _).context("settings"),
            None => Ok(config),
        }
    }

    /// The configuration of a server.
    ///
    /// # Errors
    ///
    /// If there is no credential, or the settings do not fit.
    pub(crate) fn server(
        &self,
        clients: ClientPolicy,
        verifier: Option<Arc<dyn CertificateVerifier>>,
        mut settings: Settings,
    ) -> Result<ServerConfig, Failure> {
        settings.certificate_compression = compressions();
        let file = self.psks.as_ref().map(|psks| Arc::clone(psks) as Arc<dyn PskStore>);
        let lookup = self.lookup.as_ref().filter(|lookup| lookup.has_psks());
        let store = file.or_else(|| lookup.map(|lookup| Arc::clone(lookup) as _));
        let has_psks = store.is_some();
        let psks: Arc<dyn PskStore> = match (store, &self.list) {
            (Some(psks), Some(list)) => Arc::new(AllowedPsks { psks, list: Arc::clone(list) }),
            (Some(psks), None) => psks,
            (None, _) => Arc::new(Vec::new()),
        };
        let config = ServerConfig::with(psks, settings).context("settings")?;
        let has_list = self.list.is_some() || self.looks_up_peers();
        if has_list && self.keys.is_some() && clients != ClientPolicy::Required {
            return Err(Failure::new(LIST_NEEDS_IDENTITIES));
        }
        let Some(keys) = &self.keys else {
            return match has_psks {
                true if clients != ClientPolicy::Ignored => Err(Failure::new(NO_KEY)),
                true => Ok(config),
                false => Err(Failure::new(NO_CREDENTIAL)),
            };
        };
        let config = config.with_keys(Arc::clone(keys) as Arc<dyn KeyStore>).context("settings")?;
        let clients = match (clients, verifier) {
            (ClientPolicy::Ignored, None) => ClientAuthentication::Off,
            (ClientPolicy::Ignored, Some(_)) => return Err(Failure::new(NOT_ASKED)),
            (_, None) => return Err(Failure::new("no --ca or --pin to verify clients with")),
            (ClientPolicy::Requested, Some(verifier)) => ClientAuthentication::Requested(verifier),
            (ClientPolicy::Required, Some(verifier)) => ClientAuthentication::Required(verifier),
        };
        config.with_client_authentication(clients).context("settings")
    }

    /// Whether the peer of an association may still use it, after [`reload`](Self::reload) has
    /// returned these changes. Only the hash of the key and the name are known of a certificate any
    /// more: a peer with a certificate has to show it again when an authority is trusted no more, or
    /// when the revocation lists have changed. A pinned key remains accepted as long as its pin is
    /// there.
    pub(crate) fn still_accepts(&self, agreed: &Negotiated, changes: &Changes) -> bool {
        let identities: Vec<_> = agreed.peer_identities().collect();
        self.still_accepts_peer(&identities, agreed.peer_key(), changes)
    }

    /// As [`still_accepts`](Self::still_accepts), for a peer with these identities and this key.
    pub(crate) fn still_accepts_peer(
        &self,
        identities: &[Identity],
        key: Option<&PeerKey>,
        changes: &Changes,
    ) -> bool {
        let is_revoked = |identity: &Identity| match identity {
            Identity::Psk(psk) => {
                std::str::from_utf8(psk).is_ok_and(|psk| changes.revoked.contains(psk))
            }
            _ => false,
        };
        if identities.iter().any(is_revoked) {
            return false;
        }
        let accepted = match (key, &self.verifier) {
            // A key without a name counts for itself where peers are looked up.
            (Some(key), _) if key.name.is_none() && self.looks_up_peers() => true,
            (Some(key), Some(verifier)) if changes.trust => verifier.still_accepts(key),
            _ => true,
        };
        accepted && self.list.as_ref().is_none_or(|list| list.allows(identities.iter().cloned()))
    }

    /// When the certificates and revocation lists in use expire.
    pub(crate) fn expirations(&self) -> Vec<Expiration> {
        let keys = self.keys.iter().flat_map(|keys| keys.expirations());
        keys.chain(self.verifier.iter().flat_map(|verifier| verifier.expirations())).collect()
    }

    /// Reads the files again that changed, or all with `force`. A file that has become unusable
    /// leaves what was read from it before in use, and does not keep the others from being read.
    pub(crate) fn reload(&self, force: bool) -> Changes {
        let mut changes = Changes::default();
        if let Some(lookup) = self.lookup.as_ref().filter(|_| force) {
            lookup.check_all();
        }
        if let Some(psks) = &self.psks {
            match psks.reload(force) {
                Ok(Some(revoked)) => {
                    let (count, removed) = (counted(psks.len() as u64, "key"), revoked.len());
                    changes.read.push(format!("{count} again ({removed} removed or changed)"));
                    changes.revoked = revoked;
                }
                Ok(None) => {}
                Err(failure) => changes.failures.push(failure),
            }
        }
        if let Some(keys) = &self.keys {
            match keys.reload(force) {
                Ok(true) => changes.read.push("this end's private keys again".to_owned()),
                Ok(false) => {}
                Err(failure) => changes.failures.push(Failure::new(failure)),
            }
        }
        if let Some(verifier) = &self.verifier {
            // Not `force`: without need all peers with certificates would have to show them again.
            let reloaded = verifier.reload(false);
            if reloaded.changed {
                changes.read.push("the trusted authorities and keys again".to_owned());
                changes.trust = true;
            }
            changes.failures.extend(reloaded.failures.into_iter().map(Failure::new));
        }
        if let Some(list) = &self.list {
            match list.reload(force) {
                Ok(true) => {
                    changes.read.push(format!("{} again", listed(list.len())));
                    changes.list = true;
                }
                Ok(false) => {}
                Err(failure) => changes.failures.push(failure),
            }
        }
        changes
    }
}

/// An access list with its length, for the log.
fn listed(identities: usize) -> String {
    match identities {
        1 => "an access list of 1 identity".to_owned(),
        count => format!("an access list of {count} identities"),
    }
}

/// What a client says that has a certificate, and nothing to verify the server with.
const NO_VERIFIER: &str =
    "nothing to verify the server's certificate with: give --ca FILE or --pin spki:HASH";

/// What a server says that would ask for certificates and has none itself.
const NO_KEY: &str = "only a server with a key or certificate can ask clients for certificates";

/// What a server says whose clients may be anonymous although it has an access list.
const LIST_NEEDS_IDENTITIES: &str = "--allow and --allow-… refuse clients that prove no identity: s_server needs --require-client \
     beside them, and a proxy no --anonymous-clients";

/// What a server says that could verify clients and does not ask them.
const NOT_ASKED: &str =
    "--ca and --pin verify clients: give --require-client or --request-client beside them";

/// What a client says that knows no server.
const NO_SERVER: &str = "no --psk-file given, nor --ca or --pin to verify the server with; \
                         `lightseal psk NAME` prints a line for a file of keys";

/// What a server says that has no credential.
const NO_CREDENTIAL: &str = "no --psk-file given, nor --credential, nor --cert and --key of \
                             s_server; `lightseal psk NAME` prints a line for a file of keys";

/// Says which flags have led to a configuration that cannot be used.
fn unusable(error: ConfigError) -> Failure {
    match error {
        ConfigError::CipherSuites => Failure::new(
            "settings: no suite in --cipher-suite can be used with these credentials and the \
             versions in --dtls",
        ),
        ConfigError::ServerName => Failure::new(
            "settings: the server's name is no host name or IP address; --name gives another one",
        ),
        error => Failure::new(format_args!("settings: {error}")),
    }
}

/// Why the certificate of a server is refused that should have this name, for the user.
pub(crate) fn refusal(why: BadCertificate, name: Option<&str>) -> String {
    match (why, name) {
        (BadCertificate::WrongName, Some(name)) => format!("{why} than {name} (--name)"),
        (BadCertificate::UnknownRevocation, _) => format!("{why} (--crl)"),
        _ => why.to_string(),
    }
}

/// What is wrong with a file that was given for both a certificate and its private key, and has no
/// private key: without this, the error would be about the mode of a file of keys.
fn lacks_key(form: &CredentialForm) -> Option<Failure> {
    let CredentialForm::Certificate { chain, key } = form else { return None };
    let text = zeroize::Zeroizing::new(std::fs::read(chain).ok().filter(|_| chain == key)?);
    let has_key = text.windows(PRIVATE_KEY.len()).any(|bytes| bytes == PRIVATE_KEY);
    let file = chain.display();
    let lacks = format_args!("{file} has no private key: give cert:{file},key:FILE").to_string();
    (!has_key).then(|| Failure::new(lacks))
}

/// With these words the label of every private key in a PEM file ends.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

fn trust(
    args: &CredentialArgs,
    provider: &Provider,
) -> Result<Option<Arc<ReloadingVerifier>>, Failure> {
    if args.ca.is_empty() && args.pin.is_empty() {
        return Ok(None);
    }
    let mut files = TrustFiles {
        authorities: args.ca.clone(),
        revocation_lists: args.crl.clone(),
        ..TrustFiles::default()
    };
    for pin in &args.pin {
        match pin {
            Pin::Key(hash) => files.pins.push(*hash),
            Pin::File(file) => files.accepted_keys.push(file.clone()),
        }
    }
    let settings = TrustSettings::new(provider, Clock::system());
    let verifier = ReloadingVerifier::open(settings, files).map_err(Failure::new)?;
    Ok(Some(Arc::new(verifier)))
}

/// The peer's identity as logs, reports and access lists show it.
pub(crate) fn shown(agreed: &Negotiated) -> String {
    agreed.peer_identity().map_or_else(|| ANONYMOUS.to_owned(), |identity| identity.to_string())
}

/// A peer that did not authenticate itself. No identity has this form.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// The algorithms with which peers may compress their certificates.
pub(crate) fn compressions() -> Vec<Arc<dyn CertificateCompression>> {
    vec![Arc::new(Zlib)]
}
