//! How devices prove who they are to a controller.

use crate::store::Device;
use dtls::{ConfigError, Negotiated, Psk, PskStore, ServerConfig, SessionSlots, WhenFull};
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
    fn device(&self, negotiated: &Negotiated) -> Option<String>;
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

    pub(super) fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Device>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Device>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PskStore for Devices {
    fn psk(&self, identity: &[u8]) -> Option<Psk> {
        let name = std::str::from_utf8(identity).ok()?;
        Psk::external(identity, &*self.read().get(name)?.key).ok()
    }
}

impl Credentials for Devices {
    fn server(self: Arc<Self>) -> Result<ServerConfig, ConfigError> {
        let mut config = ServerConfig::new(self)?;
        config.slots = SessionSlots::at_most(MOST_ASSOCIATIONS, WhenFull::EvictIdle(MAKES_ROOM));
        Ok(config)
    }

    fn device(&self, negotiated: &Negotiated) -> Option<String> {
        let name = std::str::from_utf8(&negotiated.psk_identity).ok()?;
        self.read().contains_key(name).then(|| name.to_owned())
    }
}
