//! Devices in the store of a controller: their keys, their identities, and what they may do.

use super::{StoreError, copy_table};
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Reader, Writer};
use lightseal_dtls::Identity;
use lightseal_group::control::{GroupName, RoleSet};
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use std::collections::{BTreeMap, BTreeSet};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// The devices, by name.
const DEVICES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("devices");
/// The names of devices, by the text of an identity. An identity belongs to one device.
const IDENTITIES: TableDefinition<'_, &str, &str> = TableDefinition::new("identities");

/// In place of the key of a device that has no token. No key is so.
const NO_KEY: [u8; 32] = [0; 32];

/// The flag of a device whose token can be used a limited number of times.
const IS_LIMITED: u8 = 1;
/// The flag of a device with [`Device::is_updated`].
const IS_UPDATED: u8 = 2;

/// An enrolled device.
#[derive(Clone)]
pub struct Device {
    /// The key in its token, which authenticates it; `None` if the device has no token.
    pub key: Option<Zeroizing<[u8; 32]>>,
    /// The roles that it may have in groups.
    pub may: RoleSet,
    /// The groups that it may join; if empty, all groups.
    pub groups: Vec<GroupName>,
    /// The groups that it was evicted from, and may not join again until it is readmitted.
    pub barred: Vec<GroupName>,
    /// How many times its token can still be used to get a key; `None`: any number of times.
    pub uses: Option<u32>,
    /// When its token expires, in seconds since 1970; `None`: never.
    pub expires_at: Option<u64>,
    /// The device's own keys, which it got for its token, the newest last.
    pub own: Vec<OwnKey>,
    /// Identities that authenticate it besides its token: hashes of public keys, names of
    /// certificates, and identities of PSKs that its controller has in a file.
    pub identities: BTreeSet<Identity>,
    /// Whether its program has authenticated in a way that version 1 of the control protocol does not
    /// have: with a key of its own, or with an identity. This stays true when its credentials change,
    /// so that no credential brings version 1 back, in which copies are not detected.
    pub is_updated: bool,
}

/// The maximum number of own keys of a device. Keys of earlier instances are kept so that these can
/// still connect and be told that they were replaced. A further key drops the oldest.
pub const MOST_OWN: usize = 8;

/// A device's own key, which it got for its token.
#[derive(Clone)]
pub struct OwnKey {
    /// The key's identifier.
    pub id: [u8; 8],
    /// The nonce of the request for it. A request with the same nonce gets the same key again.
    pub nonce: [u8; 16],
    /// The secret key.
    pub key: Zeroizing<[u8; 32]>,
}

/// A device with its name.
pub type Enrolled = (String, Device);

impl Device {
    /// A device without any credential, which may have these roles in these groups; if there are
    /// none, in all groups.
    pub const fn new(may: RoleSet, groups: Vec<GroupName>) -> Self {
        Self {
            key: None,
            may,
            groups,
            barred: Vec::new(),
            uses: None,
            expires_at: None,
            own: Vec::new(),
            identities: BTreeSet::new(),
            is_updated: false,
        }
    }

    /// Gives the device a key of its own. The oldest of [`MOST_OWN`] keys is dropped for it.
    pub fn add_own_key(&mut self, own: OwnKey) {
        if self.own.len() >= MOST_OWN {
            self.own.remove(0);
        }
        self.own.push(own);
        self.is_updated = true;
    }

    /// Lets a credential that proves this identity authenticate the device.
    pub fn add_identity(&mut self, identity: Identity) {
        self.identities.insert(identity);
        self.is_updated = true;
    }

    /// Whether the device's token has limits. Version 1 of the control protocol does not have them.
    pub const fn has_limited_token(&self) -> bool {
        self.key.is_some() && (self.uses.is_some() || self.expires_at.is_some())
    }

    /// Makes the token and the keys that the device got for it void.
    pub fn remove_token(&mut self) {
        self.key = None;
        self.own.clear();
        (self.uses, self.expires_at) = (None, None);
    }
}

pub(super) fn prepare(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(DEVICES)?;
    transaction.open_table(IDENTITIES)?;
    Ok(())
}

pub(super) fn read_all(transaction: &ReadTransaction) -> Result<Vec<Enrolled>, StoreError> {
    let mut identities = BTreeMap::<String, BTreeSet<Identity>>::new();
    for entry in transaction.open_table(IDENTITIES)?.iter()? {
        let (identity, name) = entry?;
        let identity = identity.value().parse();
        let identity = identity.map_err(|_| StoreError::Damaged("an identity"))?;
        identities.entry(name.value().to_owned()).or_default().insert(identity);
    }
    let mut devices = Vec::new();
    for entry in transaction.open_table(DEVICES)?.iter()? {
        let (name, device) = entry?;
        let device = Device::decode(device.value());
        let mut device = device.map_err(|_| StoreError::Damaged("a device"))?;
        device.identities = identities.remove(name.value()).unwrap_or_default();
        // Version 3 of the store does not say it.
        device.is_updated |= !device.identities.is_empty();
        devices.push((name.value().to_owned(), device));
    }
    if !identities.is_empty() {
        return Err(StoreError::Damaged("an identity of no device"));
    }
    Ok(devices)
}

/// Writes a device. `before` is the device as it is in the store, if it is there.
pub(super) fn put(
    transaction: &WriteTransaction,
    name: &str,
    before: Option<&Device>,
    device: &Device,
) -> Result<(), StoreError> {
    let names = device.groups.len() + device.barred.len();
    let mut buf = Zeroizing::new(vec![0; 80 + 65 * names + 56 * device.own.len()]);
    let bytes = encoded(device, &mut buf)?;
    transaction.open_table(DEVICES)?.insert(name, bytes)?;
    let mut identities = transaction.open_table(IDENTITIES)?;
    let none = BTreeSet::new();
    let before = before.map_or(&none, |before| &before.identities);
    for identity in before.difference(&device.identities) {
        identities.remove(&*identity.to_string())?;
    }
    for identity in device.identities.difference(before) {
        identities.insert(&*identity.to_string(), name)?;
    }
    Ok(())
}

/// Removes a device, which is in the store as `device`.
pub(super) fn remove(
    transaction: &WriteTransaction,
    name: &str,
    device: &Device,
) -> Result<(), StoreError> {
    transaction.open_table(DEVICES)?.remove(name)?;
    let mut identities = transaction.open_table(IDENTITIES)?;
    for identity in &device.identities {
        identities.remove(&*identity.to_string())?;
    }
    Ok(())
}

pub(super) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), StoreError> {
    copy_table(from, to, DEVICES)?;
    copy_table(from, to, IDENTITIES)
}

pub(super) fn encoded<'b>(value: &impl Encode, buf: &'b mut [u8]) -> Result<&'b [u8], StoreError> {
    let mut w = Writer::new(buf);
    w.put(value).map_err(|_| StoreError::Damaged("a value is too long"))?;
    Ok(w.finish())
}

pub(super) fn write_wanted(w: &mut Writer<'_>, roles: RoleSet) -> Result<(), BufferFull> {
    w.u8(u8::from(roles.sender) | u8::from(roles.listener) << 1)
}

pub(super) fn read_wanted(r: &mut Reader<'_>) -> Result<RoleSet, DecodeError> {
    let roles = r.u8()?;
    Ok(RoleSet { sender: roles & 1 != 0, listener: roles & 2 != 0 })
}

impl Encode for Device {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.bytes(self.key.as_ref().map_or(&NO_KEY, |key| &**key))?;
        write_wanted(w, self.may)?;
        for names in [&self.groups, &self.barred] {
            w.vec16(|w| {
                let mut names = names.iter().map(|name| name.as_str().as_bytes());
                names.try_for_each(|name| w.vec8(|w| w.bytes(name)))
            })?;
        }
        let [limited, updated] = [(self.uses.is_some(), IS_LIMITED), (self.is_updated, IS_UPDATED)]
            .map(|(holds, flag)| if holds { flag } else { 0 });
        w.u8(limited | updated)?;
        w.u32(self.uses.unwrap_or(0))?;
        w.u64(self.expires_at.unwrap_or(0))?;
        for OwnKey { id, nonce, key } in &self.own {
            w.bytes(id)?;
            w.bytes(nonce)?;
            w.bytes(&**key)?;
        }
        Ok(())
    }
}

impl Decode<'_> for Device {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (key, may) = (Zeroizing::new(r.array()?), read_wanted(r)?);
        let names = |r: &mut Reader<'_>| {
            let r = &mut Reader::new(r.vec16()?);
            let mut names = Vec::new();
            while !r.is_empty() {
                let name = std::str::from_utf8(r.vec8()?).ok().and_then(GroupName::new);
                names.push(name.ok_or(DecodeError::invalid("name of a group"))?);
            }
            Ok(names)
        };
        let mut device = Self::new(may, names(r)?);
        device.barred = names(r)?;
        device.key = bool::from(key.ct_ne(&NO_KEY)).then_some(key);
        if r.is_empty() {
            // A device of version 1 has a token without limits.
            return Ok(device);
        }
        let (flags, uses) = (r.u8()?, r.u32()?);
        device.uses = (flags & IS_LIMITED != 0).then_some(uses);
        device.expires_at = Some(r.u64()?).filter(|at| *at > 0);
        while !r.is_empty() {
            let (id, nonce) = (r.array()?, r.array()?);
            device.own.push(OwnKey { id, nonce, key: Zeroizing::new(r.array()?) });
        }
        // Before version 4 of the store only the keys say it.
        device.is_updated = flags & IS_UPDATED != 0 || !device.own.is_empty();
        Ok(device)
    }
}
