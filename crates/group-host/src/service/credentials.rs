//! How devices authenticate to a controller.

use crate::store::Device;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::{
    ConfigError, Lookup, Negotiated, ProtocolVersion, Psk, PskStore, ServerConfig, SessionSlots,
    Settings, WhenFull,
};
use lightseal_dtls_aws_lc::PROVIDER;
use lightseal_group::control::{GroupName, RoleSet};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The maximum number of associations at a time. Devices close theirs when they need it no longer.
const MOST_ASSOCIATIONS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// How long an association must be idle before it may be evicted to make room for another device.
const MAKES_ROOM: Duration = Duration::from_secs(10);

/// A method by which devices authenticate.
pub trait Credentials: Send + Sync {
    /// The configuration of a DTLS server with mutual authentication.
    ///
    /// # Errors
    /// The configuration is invalid.
    fn server(self: Arc<Self>) -> Result<ServerConfig, ConfigError>;

    /// The device that was authenticated by a handshake; `None` if it is no longer known.
    fn device(&self, negotiated: &Negotiated) -> Option<AuthenticatedDevice>;
}

/// An authenticated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedDevice {
    /// The device's name.
    pub device: String,
    /// Whether it was authenticated by its token only. It may then ask only for a key of its own.
    pub by_token: bool,
}

/// The settings of the link between devices and their controller: DTLS 1.3 with an ephemeral key
/// exchange, which gives forward secrecy. Recorded traffic cannot be read by an attacker that
/// learns a key later.
pub(crate) fn link_settings() -> Settings {
    let mut settings = Settings::new(&PROVIDER);
    settings.versions = vec![ProtocolVersion::Dtls13];
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE];
    settings
}

/// The byte between a device's name and the ID of its own key in a PSK identity. No name contains
/// it.
const BEFORE_ID: u8 = 0;

/// The PSK identity of a device's own key.
pub(crate) fn own_identity(device: &str, id: &[u8; 8]) -> Vec<u8> {
    [device.as_bytes(), &[BEFORE_ID], id].concat()
}

fn parse(identity: &[u8]) -> Option<(&str, Option<[u8; 8]>)> {
    let split = identity.len().checked_sub(9).filter(|at| identity[*at] == BEFORE_ID);
    let (name, id) = match split {
        Some(at) => (&identity[..at], identity[at + 1..].try_into().ok()),
        None => (identity, None),
    };
    Some((std::str::from_utf8(name).ok()?, id))
}

/// Devices with pre-shared keys. Their PSK identities begin with their names.
#[derive(Default)]
pub struct Devices(RwLock<BTreeMap<String, Device>>);

impl Devices {
    /// A set of these devices, by name.
    pub fn new(devices: impl IntoIterator<Item = (String, Device)>) -> Self {
        Self(RwLock::new(devices.into_iter().collect()))
    }

    /// The roles that a device may have in a group; `None` if it may not join it.
    pub(super) fn may(&self, device: &str, group: &GroupName) -> Option<RoleSet> {
        let devices = self.read();
        let device = devices.get(device)?;
        let everywhere = device.groups.is_empty();
        let barred = device.barred.contains(group);
        (!barred && (everywhere || device.groups.contains(group))).then_some(device.may)
    }

    /// Whether a device was evicted from a group, and not readmitted.
    pub(super) fn is_barred(&self, device: &str, group: &GroupName) -> bool {
        self.read().get(device).is_some_and(|device| device.barred.contains(group))
    }

    /// Whether a device has got a key of its own, so that its program speaks version 2.
    pub(super) fn is_updated(&self, device: &str) -> bool {
        self.read().get(device).is_some_and(|device| !device.own.is_empty())
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Device>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Device>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PskStore for Devices {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        self.psk(identity).into()
    }
}

impl Devices {
    /// The key of the device that names itself so.
    fn psk(&self, identity: &[u8]) -> Option<Psk> {
        let (name, id) = parse(identity)?;
        let devices = self.read();
        let device = devices.get(name)?;
        let key = match id {
            Some(id) => &device.own.iter().find(|own| own.id == id)?.key,
            None => &device.key,
        };
        Psk::external(identity, &**key).ok()
    }
}

impl Credentials for Devices {
    fn server(self: Arc<Self>) -> Result<ServerConfig, ConfigError> {
        let slots = SessionSlots::at_most(MOST_ASSOCIATIONS, WhenFull::EvictIdle(MAKES_ROOM));
        Ok(ServerConfig::with(self, link_settings())?.with_slots(slots))
    }

    fn device(&self, negotiated: &Negotiated) -> Option<AuthenticatedDevice> {
        let (name, id) = parse(&negotiated.psk_identity)?;
        let devices = self.read();
        let device = devices.get(name)?;
        let is_known = id.is_none_or(|id| device.own.iter().any(|own| own.id == id));
        is_known.then(|| AuthenticatedDevice { device: name.to_owned(), by_token: id.is_none() })
    }
}
