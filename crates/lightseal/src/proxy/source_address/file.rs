//! Addresses of identities in the directory of `--state`.

use super::store::AddressStore;
use super::{KEPT_DAYS, SourcePrefix};
use lightseal_owner_only::database::{StoreError, open_with_cache};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// The name of the file.
const FILE: &str = "addresses.redb";

/// The memory that its pages take, in bytes.
const CACHE_BYTES: usize = 16 << 20;

/// The address of each identity, and the day on which it was seen last, counted from 1970.
const NAMES: TableDefinition<'_, &str, (&[u8], u32)> = TableDefinition::new("names");
/// The identity that has an address.
const OWNERS: TableDefinition<'_, &[u8], &str> = TableDefinition::new("owners");

/// The file.
pub(super) struct AddressFile(Arc<Database>);

impl AddressFile {
    /// # Errors
    ///
    /// If it cannot be opened or made.
    pub(super) fn open(directory: &Path) -> Result<Self, StoreError> {
        let database = open_with_cache(directory, FILE, CACHE_BYTES)?;
        let transaction = database.begin_write()?;
        transaction.open_table(NAMES)?;
        transaction.open_table(OWNERS)?;
        transaction.commit()?;
        Ok(Self(database))
    }

    fn known(
        &self,
        prefix: SourcePrefix,
        today: u32,
        identities: &[Arc<str>],
    ) -> Result<Option<Vec<IpAddr>>, StoreError> {
        let names = self.0.begin_read()?.open_table(NAMES)?;
        let mut known = Vec::with_capacity(identities.len());
        for identity in identities {
            let Some(found) = names.get(&**identity)? else { return Ok(None) };
            let (address, day) = found.value();
            match read(address).filter(|address| prefix.contains(*address) && day == today) {
                Some(address) => known.push(address),
                None => return Ok(None),
            }
        }
        Ok(Some(known))
    }

    fn assign_on(
        &self,
        prefix: SourcePrefix,
        today: u32,
        identities: &[Arc<str>],
    ) -> Result<Vec<Option<IpAddr>>, StoreError> {
        if let Some(known) = self.known(prefix, today, identities)? {
            return Ok(known.into_iter().map(Some).collect());
        }
        let transaction = self.0.begin_write()?;
        let assigned: Result<Vec<_>, _> = identities
            .iter()
            .map(|identity| assign(&transaction, prefix, today, identity))
            .collect();
        let assigned = assigned?;
        transaction.commit()?;
        Ok(assigned)
    }

    fn note_on(&self, today: u32, identities: &[Arc<str>]) -> Result<(), StoreError> {
        let transaction = self.0.begin_write()?;
        {
            let mut names = transaction.open_table(NAMES)?;
            for identity in identities {
                let found = names.get(&**identity)?.map(|found| found.value().0.to_vec());
                if let Some(address) = found {
                    names.insert(&**identity, (&address[..], today))?;
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Assigns an address to one identity.
fn assign(
    transaction: &WriteTransaction,
    prefix: SourcePrefix,
    today: u32,
    identity: &str,
) -> Result<Option<IpAddr>, StoreError> {
    let (mut names, mut owners) = (transaction.open_table(NAMES)?, transaction.open_table(OWNERS)?);
    let former = names.get(identity)?.and_then(|found| read(found.value().0));
    let address = match former.filter(|address| prefix.contains(*address)) {
        Some(address) => Some(address),
        None => {
            let mut free = None;
            for address in prefix.sequence(identity) {
                let owner = owners.get(&bytes(address)[..])?.map(|owner| owner.value().to_owned());
                let Some(owner) = owner else {
                    free = Some(address);
                    break;
                };
                let seen = names.get(&*owner)?.map(|found| found.value().1);
                if seen.is_none_or(|seen| seen.saturating_add(KEPT_DAYS) < today) {
                    names.remove(&*owner)?;
                    free = Some(address);
                    break;
                }
            }
            free
        }
    };
    if let Some(former) = former.filter(|former| Some(*former) != address) {
        owners.remove(&bytes(former)[..])?;
        names.remove(identity)?;
    }
    if let Some(address) = address {
        names.insert(identity, (&bytes(address)[..], today))?;
        owners.insert(&bytes(address)[..], identity)?;
    }
    Ok(address)
}

impl AddressStore for AddressFile {
    fn assign(
        &mut self,
        prefix: SourcePrefix,
        identities: &[Arc<str>],
    ) -> Result<Vec<Option<IpAddr>>, String> {
        self.assign_on(prefix, today(), identities).map_err(|error| error.to_string())
    }

    fn note(&mut self, identities: &[Arc<str>]) -> Result<(), String> {
        self.note_on(today(), identities).map_err(|error| error.to_string())
    }
}

/// The day, counted from 1970.
fn today() -> u32 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (time.as_secs() / 86_400) as u32
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn read(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("lightseal-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            lightseal_owner_only::file::private_directory(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn names(range: std::ops::Range<u32>) -> Vec<Arc<str>> {
        range.map(|n| format!("psk:{n}").into()).collect()
    }

    #[test]
    fn no_two_identities_have_one_address_and_a_restart_changes_none() {
        let folder = Folder::new("addresses");
        let prefix: SourcePrefix = "127.64.0.0/16".parse().unwrap();
        let identities = names(0..2000);
        let first = {
            let file = AddressFile::open(&folder.0).unwrap();
            let meeting: BTreeSet<_> =
                identities.iter().map(|of| prefix.sequence(of).next().unwrap()).collect();
            assert!(meeting.len() < identities.len(), "some identities have the same hash");
            file.assign_on(prefix, 20_000, &identities).unwrap()
        };
        let different: BTreeSet<_> = first.iter().flatten().collect();
        assert_eq!(different.len(), identities.len());
        // They come in another order.
        let file = AddressFile::open(&folder.0).unwrap();
        for (identity, address) in identities.iter().zip(&first).rev().step_by(7) {
            let again = file.assign_on(prefix, 20_000, &[Arc::clone(identity)]).unwrap();
            assert_eq!(again, [*address]);
        }
        // In another prefix they get other addresses, and leave the old ones.
        let other: SourcePrefix = "10.0.0.0/8".parse().unwrap();
        let moved = file.assign_on(other, 20_000, &identities[..1]).unwrap();
        assert!(other.contains(moved[0].unwrap()));
        let back = file.assign_on(prefix, 20_000, &names(5000..5001)).unwrap();
        assert!(back[0].is_some());
    }

    #[test]
    fn an_address_is_given_away_thirty_days_after_its_identity_was_seen() {
        let folder = Folder::new("addresses-old");
        let prefix: SourcePrefix = "192.0.2.0/24".parse().unwrap();
        let file = AddressFile::open(&folder.0).unwrap();
        let given = file.assign_on(prefix, 100, &names(0..254)).unwrap();
        assert!(given.iter().filter(|address| address.is_some()).count() > 200);
        let present: Vec<_> = names(0..100);
        file.note_on(120, &present).unwrap();
        // Until day 130 all rows stay; then those go that were not seen on day 120.
        let late = names(1000..1200);
        let none = file.assign_on(prefix, 130, &late).unwrap();
        let count = |given: &[Option<IpAddr>]| given.iter().flatten().count();
        assert!(count(&none) < 55, "{}", count(&none));
        let given_again = file.assign_on(prefix, 131, &late).unwrap();
        assert!(count(&given_again) > 100, "{}", count(&given_again));
        let kept = file.assign_on(prefix, 131, &present).unwrap();
        assert_eq!(kept, given[..100]);
    }
}
