//! How devices and their controller authenticate each other.
//!
//! A device is known by the identities that the controller has for it. Its token's key and its own
//! key are PSKs that the controller keeps itself. Raw public keys need nothing but their hash in the
//! list of devices; certificates are verified first, and PSKs of a file have their keys there.

use super::devices::{Credential, Devices, SeveralDevices, token_identity};
use crate::provider::PROVIDER;
use lightseal_dtls::codepoints::{CertificateType, PskKeyExchangeMode};
use lightseal_dtls::{
    BadCertificate, CertificateCompression, CertificateVerifier, ClientAuthentication, ConfigError,
    Identity, KeyStore, Lookup, Negotiated, PeerKey, PresentedCertificate, ProtocolVersion,
    PskStore, ServerConfig, SessionSlots, Settings, WhenFull,
};
use lightseal_net::RateLimitedLog;
use sha2::{Digest, Sha256};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of associations at a time. Devices close theirs when they need it no longer.
const MOST_ASSOCIATIONS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// How long an association must be idle before it may be evicted to make room for another device.
const MAKES_ROOM: Duration = Duration::from_secs(10);

/// Whether a device with these identities may connect.
pub type AccessList = dyn Fn(&[Identity]) -> bool + Send + Sync;

/// What a controller proves its identity with besides the tokens of devices, and how it verifies
/// what devices show. Without it, devices authenticate with their tokens.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Credentials {
    /// The controller's private keys, with certificates or as raw public keys. Without one, devices
    /// cannot authenticate with certificates and raw public keys.
    pub keys: Option<Arc<dyn KeyStore>>,
    /// Verifies the certificates of devices; without it they are refused. A raw public key is known
    /// by its hash in the list of devices.
    pub verifier: Option<Arc<dyn CertificateVerifier>>,
    /// The keys of devices whose identity is a PSK of a file.
    pub psks: Option<Arc<dyn PskStore>>,
    /// Further restricts which devices may connect. A device with a token, or with the key that it
    /// got for it, has the identity `psk:` and its name.
    pub list: Option<Arc<AccessList>>,
    /// How certificates may be compressed.
    pub compression: Vec<Arc<dyn CertificateCompression>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("keys", &self.keys.is_some())
            .field("verifier", &self.verifier.is_some())
            .field("psks", &self.psks.is_some())
            .field("list", &self.list.is_some())
            .finish_non_exhaustive()
    }
}

/// An authenticated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuthenticatedDevice {
    /// The device's name.
    pub(super) device: String,
    /// What the device was authenticated by, its identities and its public key.
    pub(super) credential: Credential,
    pub(super) identities: Vec<Identity>,
    pub(super) key: Option<PeerKey>,
}

impl AuthenticatedDevice {
    /// Whether the device was authenticated by its token only. It may then ask only for a key of its
    /// own.
    pub(super) const fn is_by_token(&self) -> bool {
        matches!(self.credential, Credential::Token(_))
    }
}

/// The settings of the link between devices and their controller: DTLS 1.3 with an ephemeral key
/// exchange, which gives forward secrecy. Recorded traffic cannot be read by an attacker that
/// learns a key later.
pub(crate) fn link_settings() -> Settings {
    let mut settings = Settings::new(&PROVIDER);
    settings.versions = vec![ProtocolVersion::Dtls13];
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE];
    // Each association shows its credential anew, which may have become void.
    (settings.tickets, settings.psk_tickets) = (0, 0);
    settings
}

/// Authenticates the devices of a controller.
pub(super) struct Authentication {
    devices: Arc<Devices>,
    credentials: Credentials,
    /// The kinds of certificates that devices may show.
    kinds: &'static [CertificateType],
    strangers: RateLimitedLog,
}

impl Authentication {
    pub(super) fn new(devices: Arc<Devices>, credentials: Credentials) -> Arc<Self> {
        let takes_x509 = credentials
            .verifier
            .as_ref()
            .is_some_and(|verifier| verifier.kinds().contains(&CertificateType::X509));
        let kinds: &'static [CertificateType] = match takes_x509 {
            true => &[CertificateType::RAW_PUBLIC_KEY, CertificateType::X509],
            false => &[CertificateType::RAW_PUBLIC_KEY],
        };
        Arc::new(Self { devices, credentials, kinds, strangers: RateLimitedLog::default() })
    }

    /// The configuration of the controller's DTLS server, which authenticates every client.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub(super) fn server(self: &Arc<Self>) -> Result<ServerConfig, ConfigError> {
        let slots = SessionSlots::at_most(MOST_ASSOCIATIONS, WhenFull::EvictIdle(MAKES_ROOM));
        let mut settings = link_settings();
        settings.certificate_compression.clone_from(&self.credentials.compression);
        let config = ServerConfig::with(Arc::clone(self) as _, settings)?.with_slots(slots);
        let Some(keys) = &self.credentials.keys else { return Ok(config) };
        let verifier = Arc::clone(self) as Arc<dyn CertificateVerifier>;
        config
            .with_keys(Arc::clone(keys))?
            .with_client_authentication(ClientAuthentication::Required(verifier))
    }

    /// The device that was authenticated by a handshake; `None` if it is no longer known.
    pub(super) fn device(&self, negotiated: &Negotiated) -> Option<AuthenticatedDevice> {
        let key = negotiated.peer_key().cloned();
        let by_token = self.devices.by_token(&negotiated.psk_identity).filter(|_| key.is_none());
        let (device, credential) = match by_token {
            Some(found) => found,
            None => self.devices.by_identities(negotiated.peer_identities().collect())?,
        };
        let identities = match &credential {
            Credential::Identities(identities) => identities.clone(),
            Credential::Token(_) | Credential::Own(_) => vec![token_identity(&device)],
        };
        let is_allowed = self.is_listed(&identities);
        is_allowed.then_some(AuthenticatedDevice { device, credential, identities, key })
    }

    /// Whether the device's credential is still valid.
    pub(super) fn is_valid(&self, device: &AuthenticatedDevice) -> bool {
        self.devices.is_valid(&device.device, &device.credential)
    }

    fn is_listed(&self, identities: &[Identity]) -> bool {
        self.credentials.list.as_ref().is_none_or(|list| list(identities))
    }

    /// Whether these identities of one peer belong to one device that may connect.
    fn admits(&self, identities: &[Identity]) -> bool {
        let name = self.devices.owner(identities);
        let is_admitted = matches!(name, Ok(Some(_))) && self.is_listed(identities);
        if !is_admitted && let Some(count) = self.strangers.due() {
            let shown: Vec<String> = identities.iter().map(ToString::to_string).collect();
            let shown = shown.join(" with ");
            let why = match name {
                Ok(None) => "belongs to no device",
                Ok(Some(_)) => "is not on the access list",
                Err(SeveralDevices) => "belongs to several devices",
            };
            tracing::warn!("refused: {shown} {why} ({count} since the last line)");
        }
        is_admitted
    }

    /// Looks up a PSK of the file, if its identity belongs to a device.
    fn of_file(&self, identity: &[u8], look_up: impl FnOnce(&dyn PskStore) -> Lookup) -> Lookup {
        let Some(psks) = &self.credentials.psks else { return Lookup::Unknown };
        let identities = [Identity::Psk(identity.to_vec())];
        let is_known = !matches!(psks.look_up(identity), Lookup::Unknown);
        match is_known && self.admits(&identities) {
            true => look_up(&**psks),
            false => Lookup::Unknown,
        }
    }
}

impl PskStore for Authentication {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        match self.devices.by_token(identity) {
            Some((name, _)) if self.is_listed(&[token_identity(&name)]) => {
                self.devices.psk(identity).into()
            }
            Some(_) => Lookup::Unknown,
            None => self.of_file(identity, |psks| psks.look_up(identity)),
        }
    }

    fn look_up_imported(&self, identity: &[u8], context: &[u8]) -> Lookup {
        match self.devices.by_token(identity) {
            Some(_) => Lookup::Unknown,
            None => self.of_file(identity, |psks| psks.look_up_imported(identity, context)),
        }
    }
}

/// Why a certificate or key is refused that was verified.
const NO_DEVICE: BadCertificate = BadCertificate::other("no device has the peer's identity");

impl CertificateVerifier for Authentication {
    fn kinds(&self) -> &[CertificateType] {
        self.kinds
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let (spki, name) = match (presented.kind, &self.credentials.verifier) {
            (CertificateType::RAW_PUBLIC_KEY, _) => {
                let [spki] = presented.entries else { return Err(BadCertificate::Malformed) };
                (spki.to_vec(), None)
            }
            (_, Some(verifier)) => verifier.verify(presented)?,
            (_, None) => return Err(BadCertificate::UnknownIssuer),
        };
        let subject = name.clone().map(Identity::Subject);
        let key = Identity::Key(Sha256::digest(&spki).into());
        let identities: Vec<Identity> = subject.into_iter().chain([key]).collect();
        match self.admits(&identities) {
            true => Ok((spki, name)),
            false => Err(NO_DEVICE),
        }
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.credentials.verifier.as_ref().map_or_else(Vec::new, |verifier| verifier.authorities())
    }
}
