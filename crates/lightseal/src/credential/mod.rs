//! Credentials of this end and whom it accepts.
//!
//! - [`args`]: the flags;
//! - [`form`]: a credential as users write it.

pub(crate) mod args;
pub(crate) mod form;

use crate::failure::{Context, Failure};
use crate::keys::KeyFile;
use args::{CredentialArgs, Pin};
use form::CredentialForm;
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{
    CertificateVerifier, ClientAuthentication, ClientConfig, KeyStore, PskStore, ServerConfig,
    Settings,
};
use lightseal_pki::file::{KeyFiles, ReloadingKeys, ReloadingVerifier, TrustFiles};
use lightseal_pki::{Clock, Settings as TrustSettings, SpkiHash};
use std::sync::Arc;

/// The credentials of one end, and whom it accepts.
pub(crate) struct Credentials {
    psks: Option<Arc<KeyFile>>,
    keys: Option<Arc<ReloadingKeys>>,
    verifier: Option<Arc<ReloadingVerifier>>,
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
        let mut key_hashes = Vec::new();
        for files in &key_files {
            let key = files.load(provider).map_err(Failure::new)?;
            key_hashes.push(SpkiHash::of(key.key().public_key()));
        }
        let keys = match key_files.is_empty() {
            true => None,
            false => {
                Some(Arc::new(ReloadingKeys::open(provider, key_files).map_err(Failure::new)?))
            }
        };
        Ok(Self { psks, keys, verifier: trust(args, provider)?, key_hashes })
    }

    /// The hashes of the public keys of this end.
    pub(crate) fn key_hashes(&self) -> &[SpkiHash] {
        &self.key_hashes
    }

    /// The verifier of the peer's certificate.
    pub(crate) fn verifier(&self) -> Option<Arc<dyn CertificateVerifier>> {
        self.verifier.clone().map(|verifier| verifier as _)
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
        let psks: Arc<dyn PskStore> = match &self.psks {
            Some(psks) => Arc::clone(psks) as _,
            None => Arc::new(Vec::new()),
        };
        let config = ServerConfig::with(psks, settings).context("settings")?;
        let Some(keys) = &self.keys else {
            return match self.psks {
                Some(_) if clients != ClientPolicy::Ignored => Err(Failure::new(NO_KEY)),
                Some(_) => Ok(config),
                None => Err(Failure::new(NO_CREDENTIAL)),
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
}

/// What a client says that has a certificate, and nothing to verify the server with.
const NO_VERIFIER: &str =
    "nothing to verify the server's certificate with: give --ca FILE or --pin spki:HASH";

/// What a server says that would ask for certificates and has none itself.
const NO_KEY: &str = "only a server with --key or --cert can ask clients for certificates";

/// What a server says that could verify clients and does not ask them.
const NOT_ASKED: &str =
    "--ca and --pin verify clients: give --require-client or --request-client beside them";

/// What an end says that has no credential.
const NO_CREDENTIAL: &str = "no --psk-file given, nor --key or --credential; `lightseal psk NAME` \
                             prints a line for a file of keys";

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
