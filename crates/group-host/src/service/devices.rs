//! The devices of a controller in memory, by name and by identity.

use crate::store::Device;
use lightseal_dtls::{Identity, Psk};
use lightseal_group::control::{GroupName, RoleSet};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

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

/// The identity of a device that was authenticated by its token or by the key that it got for it.
pub(super) fn token_identity(device: &str) -> Identity {
    Identity::Psk(device.as_bytes().to_vec())
}

/// The hash by which a token's key is recognized.
fn hash_of(key: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(&key[..]).into()
}

/// The credential by which a device was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// The key of its token, by the key's SHA-256 hash.
    Token([u8; 32]),
    /// The key of its own with this ID.
    Own([u8; 8]),
    /// These identities, one of which the device has: the name and the key of a certificate, a raw
    /// public key, or a PSK from a file.
    Identities(Vec<Identity>),
}

/// The identities of one peer belong to several devices: it is none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeveralDevices;

/// Why a device is not served in version 1 of the control protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version1Objection {
    /// Its program has spoken version 2, so a request in version 1 comes from a copy.
    Updated,
    /// Its token has limits, which requests in version 1 do not use up or observe.
    LimitedToken,
}

/// The devices of a controller.
#[derive(Default)]
pub struct Devices(RwLock<Table>);

/// The devices by name, and their names by identity.
#[derive(Default)]
pub(super) struct Table {
    devices: BTreeMap<String, Device>,
    names: BTreeMap<Identity, String>,
}

impl Table {
    pub(super) fn get(&self, name: &str) -> Option<&Device> {
        self.devices.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Device)> {
        self.devices.iter()
    }

    /// The name of the device with this identity, which is not that of a token.
    pub(super) fn name_of(&self, identity: &Identity) -> Option<&str> {
        self.names.get(identity).map(String::as_str)
    }

    /// The device that these identities of one peer belong to.
    fn owner(&self, identities: &[Identity]) -> Result<Option<&str>, SeveralDevices> {
        let mut owners = identities.iter().filter_map(|identity| self.name_of(identity));
        let Some(owner) = owners.next() else { return Ok(None) };
        if owners.all(|other| other == owner) { Ok(Some(owner)) } else { Err(SeveralDevices) }
    }

    pub(super) fn put(&mut self, name: &str, device: Device) {
        self.remove(name);
        for identity in &device.identities {
            self.names.insert(identity.clone(), name.to_owned());
        }
        self.devices.insert(name.to_owned(), device);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Device> {
        let device = self.devices.remove(name)?;
        for identity in &device.identities {
            self.names.remove(identity);
        }
        Some(device)
    }

    /// The name of the device whose token, or a key that it got for it, has this PSK identity.
    pub(super) fn owner_of_token<'i>(&self, identity: &'i [u8]) -> Option<&'i str> {
        let (name, _) = parse(identity)?;
        let device = self.get(name)?;
        (device.key.is_some() || !device.own.is_empty()).then_some(name)
    }
}

impl Devices {
    /// A set of these devices, by name.
    pub fn new(devices: impl IntoIterator<Item = (String, Device)>) -> Self {
        let mut table = Table::default();
        for (name, device) in devices {
            table.put(&name, device);
        }
        Self(RwLock::new(table))
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

    /// Why a device is not served in version 1 of the control protocol, even where the operator
    /// permits that version.
    pub(super) fn objection_to_version_1(&self, device: &str) -> Option<Version1Objection> {
        let devices = self.read();
        let device = devices.get(device)?;
        if device.is_updated {
            return Some(Version1Objection::Updated);
        }
        device.has_limited_token().then_some(Version1Objection::LimitedToken)
    }

    /// The key of a token, or of a device's own, with this PSK identity.
    pub(super) fn psk(&self, identity: &[u8]) -> Option<Psk> {
        let (name, id) = parse(identity)?;
        let devices = self.read();
        let device = devices.get(name)?;
        let key = match id {
            Some(id) => &device.own.iter().find(|own| own.id == id)?.key,
            None => device.key.as_ref()?,
        };
        Psk::external(identity, &**key).ok()
    }

    /// The device with this PSK identity of a token or an own key, and its credential.
    pub(super) fn by_token(&self, identity: &[u8]) -> Option<(String, Credential)> {
        let (name, id) = parse(identity)?;
        let credential = match id {
            Some(id) => Credential::Own(id),
            None => Credential::Token(hash_of(self.read().get(name)?.key.as_ref()?)),
        };
        self.is_valid(name, &credential).then(|| (name.to_owned(), credential))
    }

    /// The name of the device that these identities of one peer belong to.
    pub(super) fn owner(&self, identities: &[Identity]) -> Result<Option<String>, SeveralDevices> {
        Ok(self.read().owner(identities)?.map(str::to_owned))
    }

    /// The device that these identities of one peer belong to, and its credential.
    pub(super) fn by_identities(&self, identities: Vec<Identity>) -> Option<(String, Credential)> {
        let name = self.owner(&identities).ok().flatten()?;
        Some((name, Credential::Identities(identities)))
    }

    /// Whether a credential still authenticates this device.
    pub(super) fn is_valid(&self, name: &str, credential: &Credential) -> bool {
        let table = self.read();
        let Some(device) = table.get(name) else { return false };
        match credential {
            Credential::Token(hash) => {
                let key = device.key.as_ref();
                key.is_some_and(|key| hash_of(key) == *hash)
            }
            Credential::Own(id) => device.own.iter().any(|own| own.id == *id),
            Credential::Identities(identities) => table.owner(identities) == Ok(Some(name)),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
