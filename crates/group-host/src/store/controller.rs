//! The store of a controller: devices with their keys, and groups with their keys and members.

use super::audit::{self, Entry};
use super::device::{self, Device, Enrolled, encoded, read_wanted, write_wanted};
use super::{Numbers, StoreError, begun, copy_table, open};
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Random, Reader, Writer};
use lightseal_group::control::{GroupName, RoleSet};
use lightseal_group::controller::{Member, Roster, Settings, Store, StoreFailed, StoreUpdate};
use lightseal_group::identity::PublicKeys;
use lightseal_group::member::Roles;
use lightseal_group::rekey::{
    Chain, ControllerSecret, KeyServer, KeyTree, Leaf, Node, NodeKey, Timing,
    epoch_after_restoration,
};
use lightseal_group::{GroupId, Policy, SenderId, Start};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

const FILE: &str = "controller.redb";
/// The version of the format of the tables.
const VERSION: u64 = 4;
/// Earlier versions are read, and converted to the current version: version 1 is without starts of
/// members, own keys of devices and a log, version 2 without identities of devices, and version 3
/// without [`Device::is_updated`], which follows from a device's credentials there.
const EARLIER: std::ops::RangeInclusive<u64> = 1..=3;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// The parts of a group that never change, by name.
const GROUPS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("groups");
/// The epoch, hash chain and tree depth, which each rekey changes, by group identifier.
const EPOCHS: TableDefinition<'_, [u8; 16], &[u8]> = TableDefinition::new("epochs");
/// The keys of the tree, by group identifier and node.
const KEYS: TableDefinition<'_, ([u8; 16], [u8; 4]), [u8; 16]> = TableDefinition::new("keys");
/// The members, by group identifier and device name.
const MEMBERS: TableDefinition<'_, ([u8; 16], &str), &[u8]> = TableDefinition::new("members");

/// A group from the store.
pub struct StoredGroup {
    /// The group.
    pub group: lightseal_group::controller::Group,
    /// The settings of its controller.
    pub settings: Settings,
}

/// A controller's store.
#[derive(Clone)]
pub struct ControllerStore {
    database: Arc<Database>,
    numbers: Numbers,
}

impl ControllerStore {
    /// Opens the store in a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::with(open(directory, FILE)?)
    }

    fn with(database: Arc<Database>) -> Result<Self, StoreError> {
        let numbers = begun(&database, || Self::prepare(&database))?;
        Ok(Self { numbers, database })
    }

    /// Creates the tables that do not exist.
    fn prepare(database: &Arc<Database>) -> Result<Numbers, StoreError> {
        let transaction = database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            let version = meta.get("version")?.map(|version| version.value());
            match version {
                None => drop(meta.insert("version", VERSION)?),
                Some(VERSION) => {}
                Some(version) if EARLIER.contains(&version) => {
                    drop(meta.insert("version", VERSION)?);
                }
                Some(_) => return Err(StoreError::Damaged("it has another version")),
            }
            device::prepare(&transaction)?;
            transaction.open_table(GROUPS)?;
            transaction.open_table(EPOCHS)?;
            transaction.open_table(KEYS)?;
            transaction.open_table(MEMBERS)?;
            audit::prepare(&transaction)?;
        }
        transaction.commit()?;
        Numbers::new(Arc::clone(database))
    }

    /// The ledger of record numbers.
    pub fn numbers(&self) -> Numbers {
        self.numbers.clone()
    }

    /// All devices, ordered by name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn devices(&self) -> Result<Vec<Enrolled>, StoreError> {
        device::read_all(&self.database.begin_read()?)
    }

    /// Writes a device. `before` is the device as it is in the store, if it is there.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_device(
        &self,
        name: &str,
        before: Option<&Device>,
        device: &Device,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            device::put(transaction, name, before, device)?;
            audit::write(transaction, entry)
        })
    }

    /// Writes an entry of the log without another change.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn log(&self, entry: &Entry) -> Result<(), StoreError> {
        self.write(|transaction| audit::write(transaction, entry))
    }

    /// The last `most` entries of the log for which `is_wanted` holds, the oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read_log(
        &self,
        most: usize,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>, StoreError> {
        audit::read(&self.database.begin_read()?, most, is_wanted)
    }

    /// Removes a device. Its memberships are not changed.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn remove_device(&self, name: &str, device: &Device) -> Result<(), StoreError> {
        self.write(|transaction| {
            device::remove(transaction, name, device)?;
            audit::write(transaction, &Entry::new("revoked").of(name))
        })
    }

    /// Writes a new group.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn create(
        &self,
        name: &GroupName,
        policy: &Policy,
        secret: &ControllerSecret,
        settings: &Settings,
        rng: &mut Random,
    ) -> Result<KeyServer, StoreError> {
        let keys = KeyServer::new(policy.group, secret.clone(), rng);
        let mut buf = Zeroizing::new([0; 512]);
        let bytes = encoded(&Kept { policy, secret, settings }, &mut *buf)?;
        let mut epoch = Zeroizing::new([0; EPOCH_BYTES]);
        write_epoch(&mut Writer::new(&mut *epoch), 0, keys.chain(), keys.tree().depth())
            .map_err(|_| StoreError::Damaged("an epoch"))?;
        self.write(|transaction| {
            transaction.open_table(GROUPS)?.insert(name.as_str(), bytes)?;
            transaction.open_table(EPOCHS)?.insert(policy.group.0, &epoch[..])?;
            audit::write(transaction, &Entry::new("group made").within(name))
        })?;
        Ok(keys)
    }

    /// Removes a group and its members.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn remove_group(&self, name: &GroupName, group: &GroupId) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.open_table(GROUPS)?.remove(name.as_str())?;
            transaction.open_table(EPOCHS)?.remove(group.0)?;
            let nodes = (group.0, [0; 4])..=(group.0, [0xff; 4]);
            transaction.open_table(KEYS)?.retain_in(nodes, |_, _| false)?;
            transaction.open_table(MEMBERS)?.retain(|(of, _), _| of != group.0)?;
            audit::write(transaction, &Entry::new("group removed").within(name))?;
            Numbers::forget(transaction, group)
        })
    }

    /// All groups in the store.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn groups(&self) -> Result<Vec<StoredGroup>, StoreError> {
        let table = self.database.begin_read()?.open_table(GROUPS)?;
        let mut groups = Vec::new();
        for entry in table.iter()? {
            let (name, kept) = entry?;
            let name = GroupName::new(name.value()).ok_or(StoreError::Damaged("a group's name"))?;
            let kept = read_kept(kept.value()).map_err(|_| StoreError::Damaged("a group"))?;
            groups.push(self.group(name, kept)?);
        }
        Ok(groups)
    }

    fn group(
        &self,
        name: GroupName,
        (policy, secret, settings): (Policy, ControllerSecret, Settings),
    ) -> Result<StoredGroup, StoreError> {
        let read = self.database.begin_read()?;
        let id = policy.group;
        let epochs = read.open_table(EPOCHS)?;
        let stored = epochs.get(id.0)?.ok_or(StoreError::Damaged("a group without an epoch"))?;
        let (epoch, chain, depth) =
            read_epoch(stored.value()).map_err(|_| StoreError::Damaged("an epoch"))?;
        let mut nodes = Vec::new();
        for entry in read.open_table(KEYS)?.range((id.0, [0; 4])..=(id.0, [0xff; 4]))? {
            let (key, value) = entry?;
            let [level, a, b, c] = key.value().1;
            let node = Node::new(level, u32::from_be_bytes([0, a, b, c]));
            let node = node.ok_or(StoreError::Damaged("a node of the key tree"))?;
            nodes.push((node, NodeKey::new(value.value())));
        }
        let tree = KeyTree::restore(depth, nodes);
        let tree = tree.ok_or(StoreError::Damaged("the key tree"))?;
        let mut members = Vec::new();
        for entry in read.open_table(MEMBERS)?.range((id.0, "")..)? {
            let (key, value) = entry?;
            let (of, device) = key.value();
            if of != id.0 {
                break;
            }
            let member = read_member(value.value()).map_err(|_| StoreError::Damaged("a member"))?;
            members.push((device.to_owned(), member));
        }
        let keys = KeyServer::restore(id, secret, epoch, chain, tree);
        let roster = Roster::restore(members);
        Ok(StoredGroup {
            group: lightseal_group::controller::Group { name, policy, keys, roster },
            settings,
        })
    }

    /// Copies the current state of the store into another directory, which must not have a store
    /// yet.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn back_up(&self, directory: &Path) -> Result<(), StoreError> {
        self.copy(directory, |_| Ok(()))
    }

    /// Copies the store and applies `change` to the copy in one transaction: after a crash the copy
    /// either is complete with the change or does not exist.
    fn copy(
        &self,
        directory: &Path,
        change: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let path = directory.join(FILE);
        if path.exists() {
            let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(StoreError::File(path, error));
        }
        let copy = open(directory, FILE)?;
        let (from, to) = (self.database.begin_read()?, copy.begin_write()?);
        copy_table(&from, &to, META)?;
        device::copy(&from, &to)?;
        copy_table(&from, &to, GROUPS)?;
        copy_table(&from, &to, EPOCHS)?;
        copy_table(&from, &to, KEYS)?;
        copy_table(&from, &to, MEMBERS)?;
        audit::copy(&from, &to)?;
        Numbers::copy(&from, &to)?;
        change(&to)?;
        to.commit()?;
        Ok(())
    }

    /// Restores the copy in `from` as the store in `directory`, which must not have a store yet.
    ///
    /// Events after the copy was made are not in it. So that no epoch gets two different sets of
    /// keys, even if the copy is restored several times, the groups of each restoration continue in
    /// epochs of their own ([`epoch_after_restoration`]), and are rekeyed when their controller
    /// starts.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn restore(from: &Path, directory: &Path, rng: &mut Random) -> Result<Self, StoreError> {
        Self::open_old(from)?.copy(directory, |transaction| {
            let mut epochs = transaction.open_table(EPOCHS)?;
            let all: Vec<([u8; 16], Zeroizing<Vec<u8>>)> = epochs
                .iter()?
                .map(|entry| {
                    entry.map(|(id, epoch)| (id.value(), Zeroizing::new(epoch.value().to_vec())))
                })
                .collect::<Result<_, _>>()?;
            for (id, mut stored) in all {
                let damaged = |_| StoreError::Damaged("an epoch");
                let (epoch, chain, depth) = read_epoch(&stored).map_err(damaged)?;
                let mut w = Writer::new(&mut stored);
                let epoch = epoch_after_restoration(epoch, audit::since_1970(), rng);
                write_epoch(&mut w, epoch, &chain, depth)
                    .map_err(|_| StoreError::Damaged("an epoch"))?;
                epochs.insert(id, &stored[..])?;
            }
            transaction.open_table(META)?.insert("restored", 1)?;
            drop(epochs);
            audit::write(transaction, &Entry::new("restored from a backup"))
        })?;
        Self::open(directory)
    }

    fn open_old(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(FILE);
        if path.exists() {
            return Self::open(directory);
        }
        Err(StoreError::File(path, std::io::Error::from(std::io::ErrorKind::NotFound)))
    }

    /// Whether this is a restored copy whose groups were not rekeyed yet.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn is_restored(&self) -> Result<bool, StoreError> {
        let table = self.database.begin_read()?.open_table(META)?;
        Ok(table.get("restored")?.is_some())
    }

    /// Records that the groups of a restored copy were rekeyed.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn mark_rekeyed(&self) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.open_table(META)?.remove("restored")?;
            Ok(())
        })
    }

    fn write(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        change(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    /// The [`Store`] of one group's controller.
    pub fn of(&self, group: GroupId, name: &GroupName) -> Box<dyn Store + Send> {
        Box::new(GroupStore { store: self.clone(), group: group.0, name: name.clone() })
    }
}

struct GroupStore {
    store: ControllerStore,
    group: [u8; 16],
    name: GroupName,
}

impl GroupStore {
    fn write(&self, changes: &StoreUpdate<'_>) -> Result<(), StoreError> {
        let StoreUpdate { epoch, chain, tree, nodes, joined, left } = changes;
        let mut buf = Zeroizing::new([0; EPOCH_BYTES]);
        write_epoch(&mut Writer::new(&mut *buf), *epoch, chain, tree.depth())
            .map_err(|_| StoreError::Damaged("an epoch"))?;
        self.store.write(|transaction| {
            transaction.open_table(EPOCHS)?.insert(self.group, &buf[..])?;
            let mut keys = transaction.open_table(KEYS)?;
            for node in *nodes {
                let at = (self.group, node.to_bytes());
                match tree.key(*node) {
                    Some(key) => drop(keys.insert(at, key.as_bytes())?),
                    None => drop(keys.remove(at)?),
                }
            }
            let mut members = transaction.open_table(MEMBERS)?;
            for name in *left {
                members.remove((self.group, name.as_str()))?;
            }
            for (name, member) in joined {
                let mut buf = [0; 256];
                let mut w = Writer::new(&mut buf);
                let written = write_member(&mut w, member);
                written.map_err(|_| StoreError::Damaged("a member"))?;
                members.insert((self.group, *name), w.written())?;
            }
            // Without new keys only the entry of a restarted member has changed, which is not
            // logged.
            if nodes.is_empty() {
                return Ok(());
            }
            for name in *left {
                audit::write(transaction, &self.entry("left", name))?;
            }
            for (name, member) in joined {
                let joins = member.start.counter == 0;
                let what = if joins { "joined" } else { "started anew" };
                let entry = self.entry(what, name).with_detail(&format!(
                    "listener {}, {}address {}",
                    member.leaf.get(),
                    member.roles.sender.map_or_else(String::new, |s| format!("sender {}, ", s.0)),
                    member.address
                ));
                audit::write(transaction, &entry)?;
            }
            let entry =
                Entry::new("rekey").within(&self.name).with_detail(&format!("epoch {epoch}"));
            audit::write(transaction, &entry)
        })
    }

    fn entry(&self, what: &str, device: &str) -> Entry {
        Entry::new(what).within(&self.name).of(device)
    }
}

impl Store for GroupStore {
    fn commit(&mut self, changes: &StoreUpdate<'_>) -> Result<(), StoreFailed> {
        self.write(changes).map_err(|error| {
            tracing::error!("group {}: {error}", GroupId(self.group));
            StoreFailed
        })
    }
}

/// The parts of a group that never change.
struct Kept<'a> {
    policy: &'a Policy,
    secret: &'a ControllerSecret,
    settings: &'a Settings,
}

impl Encode for Kept<'_> {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.put(self.policy)?;
        w.bytes(self.secret.seed())?;
        let Settings { timing, eviction, batch, message_bytes, most_members, renewal } =
            *self.settings;
        for timing in [timing, eviction] {
            w.u32(timing.activation().as_millis() as u32)?;
            w.u32(timing.retention().as_millis() as u32)?;
        }
        w.u64(lightseal_core::time::micros(batch))?;
        w.u32(message_bytes as u32)?;
        w.u32(most_members)?;
        w.u64(renewal.map_or(0, lightseal_core::time::micros))
    }
}

fn read_kept(bytes: &[u8]) -> Result<(Policy, ControllerSecret, Settings), DecodeError> {
    let r = &mut Reader::new(bytes);
    let policy = Policy::read(r)?;
    let seed = Zeroizing::new(r.array()?);
    let timing = |r: &mut Reader<'_>| {
        let [activation, retention] =
            [r.u32()?, r.u32()?].map(|ms| Duration::from_millis(ms.into()));
        Timing::new(activation, retention).ok_or(DecodeError::invalid("timing"))
    };
    let settings = Settings {
        timing: timing(r)?,
        eviction: timing(r)?,
        batch: Duration::from_micros(r.u64()?),
        message_bytes: r.u32()? as usize,
        most_members: r.u32()?,
        renewal: Some(r.u64()?).filter(|us| *us > 0).map(Duration::from_micros),
    };
    r.finish()?;
    Ok((policy, ControllerSecret::from_seed(&seed), settings))
}

const EPOCH_BYTES: usize = 8 + 16 + 4 + 1;

fn write_epoch(w: &mut Writer<'_>, epoch: u64, chain: &Chain, depth: u8) -> Result<(), BufferFull> {
    w.u64(epoch)?;
    w.bytes(chain.seed())?;
    w.u32(chain.left())?;
    w.u8(depth)
}

fn read_epoch(bytes: &[u8]) -> Result<(u64, Chain, u8), DecodeError> {
    let r = &mut Reader::new(bytes);
    let (epoch, seed, left, depth) = (r.u64()?, r.array()?, r.u32()?, r.u8()?);
    r.finish()?;
    let chain = Chain::restore(seed, left).ok_or(DecodeError::invalid("chain"))?;
    Ok((epoch, chain, depth))
}

fn write_member(w: &mut Writer<'_>, member: &Member) -> Result<(), BufferFull> {
    let Member { leaf, start, clones, roles, address, keys } = member;
    w.u32(leaf.get())?;
    w.bytes(&start.nonce)?;
    w.bytes(&keys.to_bytes())?;
    let Roles { sender, listener } = *roles;
    write_wanted(w, RoleSet { sender: sender.is_some(), listener })?;
    w.u8(sender.map_or(0, |sender| sender.0))?;
    match address {
        IpAddr::V4(v4) => w.bytes(&v4.to_ipv6_mapped().octets())?,
        IpAddr::V6(v6) => w.bytes(&v6.octets())?,
    }
    w.u64(start.instance)?;
    w.u32(start.counter)?;
    w.u32(*clones)
}

fn read_member(bytes: &[u8]) -> Result<Member, DecodeError> {
    let r = &mut Reader::new(bytes);
    let leaf = Leaf::new(r.u32()?).ok_or(DecodeError::invalid("leaf"))?;
    let nonce = r.array()?;
    let keys = PublicKeys::from_storage(&r.array()?);
    let keys = keys.map_err(|_| DecodeError::invalid("keys of a member"))?;
    let (wanted, sender) = (read_wanted(r)?, SenderId(r.u8()?));
    let roles = Roles { sender: wanted.sender.then_some(sender), listener: wanted.listener };
    let address = IpAddr::V6(Ipv6Addr::from(r.array::<16>()?)).to_canonical();
    // A member of version 1 has no instance: its starts are refused, and it must join again.
    let (instance, counter, clones) =
        if r.is_empty() { (0, 0, 0) } else { (r.u64()?, r.u32()?, r.u32()?) };
    r.finish()?;
    let start = Start { instance, counter, nonce };
    Ok(Member { leaf, start, clones, roles, address, keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a crash between the two steps would leave a copy whose groups continue in epochs
    /// that were already used.
    #[test]
    fn a_copy_is_there_with_its_change_or_not_at_all() {
        let place = std::env::temp_dir().join(format!("store-copy-{}", std::process::id()));
        let [from, failed, done] = ["from", "failed", "done"].map(|name| place.join(name));
        let store = ControllerStore::open(&from).unwrap();
        let mut device = Device::new(RoleSet { sender: true, listener: false }, Vec::new());
        device.key = Some(Zeroizing::new([1; 32]));
        store.put_device("lamp", None, &device, &Entry::new("enrolled")).unwrap();
        assert!(store.copy(&failed, |_| Err(StoreError::Damaged("an epoch"))).is_err());
        assert!(ControllerStore::open(&failed).unwrap().devices().unwrap().is_empty());
        drop(store);
        let restored = ControllerStore::restore(&from, &done, &mut Random::insecure(1)).unwrap();
        assert!(restored.is_restored().unwrap());
        assert_eq!(restored.devices().unwrap().len(), 1);
        drop(restored);
        std::fs::remove_dir_all(&place).unwrap();
    }
}
