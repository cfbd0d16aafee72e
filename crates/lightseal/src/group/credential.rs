//! Credentials of members and of their controller that come from files.

use crate::credential::args::CredentialArgs;
use crate::credential::{Changes, Credentials, FailureLog, compressions};
use crate::failure::Failure;
use crate::provider::PROVIDER;
use lightseal_dtls::{ClientConfig, Settings};
use lightseal_group_host::member::ClientCredentials;
use lightseal_group_host::service::{self, Service};
use lightseal_pki::file::Expiration;
use std::sync::{Arc, Mutex, PoisonError};

/// What a member says that has nothing to prove its identity with.
const NO_CREDENTIAL: &str =
    "--ca, --pin and --allow say which controllers this device accepts: give --credential too";

/// What a controller says that could verify devices and has no key to ask them with.
const NO_KEY: &str = "--ca and --pin need a --credential with a certificate or key of this \
                      controller, with which it asks devices for theirs";

/// The credential of a member. Its files are read again, if they changed, before each association.
pub(super) struct MemberCredentials {
    files: Credentials,
    /// The name of the controller in its certificate, if it is not that of its address.
    name: Option<String>,
    failures: Mutex<FailureLog>,
}

impl MemberCredentials {
    pub(super) fn open(args: &CredentialArgs, name: Option<String>) -> Result<Arc<Self>, Failure> {
        let files = Credentials::open(args, &PROVIDER)?;
        if !files.has_keys() && files.psks().is_none() {
            return Err(Failure::new(NO_CREDENTIAL));
        }
        let credentials = Self { files, name, failures: Mutex::default() };
        // A contradiction among the flags is reported at once.
        credentials.configure("localhost", Settings::new(&PROVIDER))?;
        Ok(Arc::new(credentials))
    }

    fn configure(&self, host: &str, settings: Settings) -> Result<ClientConfig, Failure> {
        let name = self.name.as_deref().unwrap_or(host);
        self.files.client(None, name, self.files.verifier(), settings)
    }
}

impl ClientCredentials for MemberCredentials {
    fn client(&self, host: &str, settings: Settings) -> Result<ClientConfig, String> {
        let Changes { failures, .. } = self.files.reload(false);
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).log(&failures);
        self.configure(host, settings).map_err(|failure| failure.to_string())
    }
}

/// The credentials of a controller.
pub(super) struct ControllerCredentials {
    files: Credentials,
    failures: Mutex<FailureLog>,
}

/// What became of files that were to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reload {
    Unchanged,
    Read,
    /// Some cannot be used, for a reason that was not logged before.
    Failed,
}

impl ControllerCredentials {
    /// Reads all files.
    ///
    /// # Errors
    /// A file cannot be used, or the flags contradict each other.
    pub(super) fn open(args: &CredentialArgs) -> Result<Self, Failure> {
        let files = Credentials::open(args, &PROVIDER)?;
        if files.verifies() && !files.has_keys() {
            return Err(Failure::new(NO_KEY));
        }
        Ok(Self { files, failures: Mutex::default() })
    }

    /// The credentials as the service takes them.
    pub(super) fn for_service(&self) -> service::Credentials {
        let mut credentials = service::Credentials::default();
        credentials.keys = self.files.keys();
        credentials.verifier = self.files.verifier_without_list();
        credentials.psks = self.files.psk_store();
        credentials.compression = compressions();
        if let Some(list) = self.files.list().cloned() {
            let allows = move |identities: &[_]| list.allows(identities.iter().cloned());
            credentials.list = Some(Arc::new(allows));
        }
        credentials
    }

    /// The hashes of the controller's public keys, which its members may pin.
    pub(super) fn key_hashes(&self) -> impl Iterator<Item = String> {
        self.files.key_hashes().iter().map(ToString::to_string)
    }

    /// Reads the files again that changed, or all with `force`, and ends the associations of devices
    /// that are no longer accepted.
    pub(super) fn reload(&self, service: &Service, force: bool) -> Reload {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if force {
            failures.forget();
        }
        let (files, changes) = (&self.files, self.files.reload(force));
        if !changes.is_empty() {
            let ended = match changes.may_revoke() {
                true => service.end_unless(|identities, key| {
                    files.still_accepts_peer(identities, key, &changes)
                }),
                false => 0,
            };
            changes.log(ended);
        }
        match (failures.log(&changes.failures), changes.is_empty()) {
            (true, _) => Reload::Failed,
            (false, true) => Reload::Unchanged,
            (false, false) => Reload::Read,
        }
    }

    /// When the certificates and revocation lists in use expire.
    pub(super) fn expirations(&self) -> Vec<Expiration> {
        self.files.expirations()
    }
}
