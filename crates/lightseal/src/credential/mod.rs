//! Credentials of this end and whom it accepts, in one form for all commands.
//!
//! - [`args`]: the flags;
//! - [`form`]: a credential as users write it;
//! - [`allow`]: the access list.

pub(crate) mod allow;
pub(crate) mod args;
pub(crate) mod form;
mod verifier;

use crate::failure::{Context, Failure};
use crate::keys::KeyFile;
use allow::{AccessList, AllowedPsks};
use args::{CredentialArgs, Pin};
use form::CredentialForm;
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{
    CertificateVerifier, ClientAuthentication, ClientConfig, KeyStore, Negotiated, PskStore,
    ServerConfig, Settings,
};
use lightseal_pki::file::{KeyFiles, ReloadingKeys, ReloadingVerifier, TrustFiles};
use lightseal_pki::{Clock, Settings as TrustSettings};
use std::collections::BTreeSet;
use std::sync::Arc;
use verifier::AllowedPeers;

/// The credentials of one end, and whom it accepts. Everything comes from files, which can be read
/// again.
pub(crate) struct Credentials {
    psks: Option<Arc<KeyFile>>,
    keys: Option<Arc<ReloadingKeys>>,
    verifier: Option<Arc<ReloadingVerifier>>,
    list: Option<Arc<AccessList>>,
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
    pub(crate) revoked: BTreeSet<String>,
    /// The files that were read again, for the log.
    pub(crate) read: Vec<String>,
}

impl Credentials {
    /// Reads all files.
    ///
    /// # Errors
    ///
    /// If there is no credential, or a file cannot be used.
    pub(crate) fn open(args: &CredentialArgs, provider: &Provider) -> Result<Self, Failure> {
        let mut psk_files: Vec<_> = args.psk_file.iter().collect();
        let mut key_files = Vec::new();
        for form in &args.credential {
            match form {
                CredentialForm::Psks(file) => psk_files.push(file),
                CredentialForm::RawKey(key) => key_files.push(KeyFiles::raw(key)),
                CredentialForm::Certificate { chain, key } => {
                    key_files.push(KeyFiles::x509(key, chain));
                }
            }
        }
        if psk_files.len() > 1 {
            return Err(Failure::new("more than one file of pre-shared keys"));
        }
        let psks = psk_files.first().map(|file| KeyFile::open(file)).transpose()?.map(Arc::new);
        let keys = match key_files.is_empty() {
            true => None,
            false => {
                Some(Arc::new(ReloadingKeys::open(provider, key_files).map_err(Failure::new)?))
            }
        };
        let list = args.allow.as_deref().map(AccessList::open).transpose()?.map(Arc::new);
        Ok(Self { psks, keys, verifier: trust(args, provider)?, list })
    }

    /// Whether this end has pre-shared keys.
    pub(crate) const fn psks(&self) -> Option<&Arc<KeyFile>> {
        self.psks.as_ref()
    }

    /// Whether this end has a certificate or a raw public key.
    pub(crate) const fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether this end accepts certificates or raw public keys.
    pub(crate) const fn verifies(&self) -> bool {
        self.verifier.is_some()
    }

    /// The verifier of the peer's certificate, which heeds the access list.
    pub(crate) fn verifier(&self) -> Option<Arc<dyn CertificateVerifier>> {
        let verifier = Arc::clone(self.verifier.as_ref()?);
        Some(match &self.list {
            Some(list) => Arc::new(AllowedPeers { verifier, list: Arc::clone(list) }),
            None => verifier,
        })
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
        settings: Settings,
    ) -> Result<ClientConfig, Failure> {
        let psk = self.psks.as_ref().map(|psks| psks.choose(identity)).transpose()?;
        let config = match (psk, verifier) {
            (_, None) if self.keys.is_some() => return Err(Failure::new(NO_VERIFIER)),
            (Some(psk), None) => ClientConfig::with(psk, settings).context("settings")?,
            (None, None) => return Err(Failure::new(NO_CREDENTIAL)),
            (psk, Some(verifier)) => {
                let config = match psk {
                    Some(psk) => ClientConfig::with(psk, settings)
                        .and_then(|config| config.with_verifier(verifier)),
                    None => ClientConfig::verifying(verifier, settings),
                };
                config.and_then(|config| config.with_server_name(name)).context("settings")?
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
        settings: Settings,
    ) -> Result<ServerConfig, Failure> {
        let psks: Arc<dyn PskStore> = match (&self.psks, &self.list) {
            (Some(psks), Some(list)) => {
                Arc::new(AllowedPsks { psks: Arc::clone(psks) as _, list: Arc::clone(list) })
            }
            (Some(psks), None) => Arc::clone(psks) as _,
            (None, _) => Arc::new(Vec::new()),
        };
        let config = ServerConfig::with(psks, settings).context("settings")?;
        let Some(keys) = &self.keys else {
            return match self.psks {
                Some(_) => Ok(config),
                None => Err(Failure::new(NO_CREDENTIAL)),
            };
        };
        let config = config.with_keys(Arc::clone(keys) as Arc<dyn KeyStore>).context("settings")?;
        let clients = match (clients, verifier) {
            (ClientPolicy::Ignored, _) => ClientAuthentication::Off,
            (_, None) => return Err(Failure::new("no --ca or --pin to verify clients with")),
            (ClientPolicy::Requested, Some(verifier)) => ClientAuthentication::Requested(verifier),
            (ClientPolicy::Required, Some(verifier)) => ClientAuthentication::Required(verifier),
        };
        config.with_client_authentication(clients).context("settings")
    }

    /// Whether the access list, if there is one, still allows the peer of an association.
    pub(crate) fn allows(&self, agreed: &Negotiated) -> bool {
        {
            let identities: Vec<_> = agreed.peer_identities().collect();
            self.list.as_ref().is_none_or(|list| list.allows(&identities))
        }
    }

    /// Reads the files again that changed, or all with `force`. Files that have become unusable
    /// leave what was read before in use.
    ///
    /// # Errors
    ///
    /// If a file has become unusable.
    pub(crate) fn reload(&self, force: bool) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        if let Some(psks) = &self.psks
            && let Some(revoked) = psks.reload(force)?
        {
            let count = crate::units::counted(psks.len() as u64, "key");
            changes.read.push(format!("{count}, {} of them revoked or changed", revoked.len()));
            changes.revoked = revoked;
        }
        if let Some(keys) = &self.keys
            && keys.reload(force).map_err(Failure::new)?
        {
            changes.read.push("private keys and certificates".to_owned());
        }
        if let Some(verifier) = &self.verifier
            && verifier.reload(force).map_err(Failure::new)?
        {
            changes.read.push("trusted authorities and keys".to_owned());
        }
        if let Some(list) = &self.list
            && let Some(count) = list.reload(force)?
        {
            changes.read.push(format!("an access list of {count}"));
        }
        Ok(changes)
    }
}

/// What a client says that has a certificate, and nothing to verify the server with.
const NO_VERIFIER: &str =
    "nothing to verify the server's certificate with: give --ca FILE or --pin spki:HASH";

/// What an end says that has no credential.
const NO_CREDENTIAL: &str = "no --credential or --psk-file given; `lightseal psk NAME` prints a line \
                             for a file of keys";

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

/// The peer's identity as logs and reports show it; `anonymous` if it did not authenticate itself.
pub(crate) fn named(agreed: &Negotiated) -> String {
    agreed.peer_identity().map_or_else(|| "anonymous".to_owned(), |identity| identity.to_string())
}
