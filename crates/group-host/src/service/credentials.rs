//! How devices prove who they are to a controller.

use crate::store::Device;
use dtls::codepoints::PskKeyExchangeMode;
use dtls::{
    ConfigError, Negotiated, ProtocolVersion, Psk, PskStore, ServerConfig, SessionSlots, Settings,
    WhenFull,
};
use group::control::{GroupName, WantedRoles};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Associations at a time. Devices close theirs when they have what they want.
const MOST_ASSOCIATIONS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Who was silent for so long makes room for another device.
const MAKES_ROOM: Duration = Duration::from_secs(10);

/// A way for devices to prove who they are.
pub trait Credentials: Send + Sync {
    /// The DTLS server that asks them to, mutually.
    ///
    /// # Errors
    /// The provider computes wrong results.
    fn server(self: Arc<Self>) -> Result<ServerConfig, ConfigError>;

    /// Which device has proved itself in a handshake, if it may still come.
    fn device(&self, negotiated: &Negotiated) -> Option<Proven>;
}

/// A device, and what it has proved itself with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The device's name.
    pub device: String,
    /// Whether it had no more than its token: then all it can ask for is a key of its own.
    pub by_token: bool,
}

/// What the link between devices and their controller speaks: DTLS 1.3 with an ephemeral key
/// exchange, so that who learns a key later reads nothing that was recorded.
pub(crate) fn harden(settings: &mut Settings) {
    settings.versions = vec![ProtocolVersion::Dtls13];
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_DHE_KE];
}

/// What stands between a device's name and the ID of its own key in a PSK identity. No name has it.
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

/// Devices with pre-shared keys, their names as identities.
#[derive(Default)]
pub struct Devices(RwLock<BTreeMap<String, Device>>);

impl Devices {
    /// These devices.
    pub fn new(devices: impl IntoIterator<Item = (String, Device)>) -> Self {
        Self(RwLock::new(devices.into_iter().collect()))
    }

    /// What a device may be in a group; `None`: nothing.
    pub(super) fn may(&self, device: &str, group: &GroupName) -> Option<WantedRoles> {
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

    /// Whether a device has had a key of its own: then its program speaks version 2.
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
        let mut config = ServerConfig::new(self)?;
        harden(&mut config.settings);
        config.slots = SessionSlots::at_most(MOST_ASSOCIATIONS, WhenFull::EvictIdle(MAKES_ROOM));
        Ok(config)
    }

    fn device(&self, negotiated: &Negotiated) -> Option<Proven> {
        let (name, id) = parse(&negotiated.psk_identity)?;
        let devices = self.read();
        let device = devices.get(name)?;
        let is_known = id.is_none_or(|id| device.own.iter().any(|own| own.id == id));
        is_known.then(|| Proven { device: name.to_owned(), by_token: id.is_none() })
    }
}
