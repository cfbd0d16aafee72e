//! An address of its own for each identity, from which the service sees its messages.
//!
//! - [`prefix`]: the addresses, and which of them an identity may have;
//! - [`book`]: the thread that assigns addresses which are stored;
//! - [`store`], [`file`](mod@file), [`table`]: where they are stored;
//! - [`nft`]: rules that keep others from using them.
//!
//! In a large prefix the address follows from prefix and identity, and nothing is stored. In a smaller
//! one identities could meet, so that each has a row of its own, if there is a store: it is made before
//! the address is used, and stays for [`KEPT_DAYS`] after its identity was seen last. Without a store
//! the identity that comes second gets the next address of its own sequence, as long as the process
//! runs.

pub(crate) mod book;
#[cfg_attr(not(feature = "state"), path = "no_file.rs")]
mod file;
pub(crate) mod nft;
mod prefix;
mod store;
#[cfg_attr(not(feature = "fleet"), path = "no_table.rs")]
mod table;

pub(crate) use prefix::SourcePrefix;

use book::AddressBook;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// How many days an address stays with an identity that is not seen.
const KEPT_DAYS: u32 = 30;

/// The address of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceAddress {
    Known(IpAddr),
    /// It is being assigned, and [`SourceAddresses::learn`] is called with it.
    Waits,
    /// The prefix has no room for it.
    None,
}

/// The addresses that identities have.
#[derive(Debug)]
pub(crate) struct SourceAddresses {
    prefix: SourcePrefix,
    /// The identity that has an address. Empty in a large prefix, where no two identities meet.
    owners: HashMap<IpAddr, Arc<str>>,
    /// Where addresses are stored.
    book: Option<AddressBook>,
    /// The addresses that the book has assigned to identities; `None` if there was no room.
    assigned: HashMap<Arc<str>, Option<IpAddr>>,
    /// Identities whose address is being assigned.
    waiting: HashSet<Arc<str>>,
}

impl SourceAddresses {
    /// No identity has an address yet, but those in the book.
    pub(crate) fn new(prefix: SourcePrefix, book: Option<AddressBook>) -> Self {
        Self {
            prefix,
            owners: HashMap::new(),
            book: book.filter(|_| !prefix.is_sparse()),
            assigned: HashMap::new(),
            waiting: HashSet::new(),
        }
    }

    /// The address of an identity.
    pub(crate) fn of(&mut self, identity: &Arc<str>) -> SourceAddress {
        let of =
            |address: Option<IpAddr>| address.map_or(SourceAddress::None, SourceAddress::Known);
        let mut sequence = self.prefix.sequence(identity);
        if self.prefix.is_sparse() {
            return of(sequence.next());
        }
        if let Some(book) = &self.book {
            return match self.assigned.get(identity) {
                Some(address) => of(*address),
                None => {
                    if self.waiting.insert(Arc::clone(identity)) {
                        book.assign(identity);
                    }
                    SourceAddress::Waits
                }
            };
        }
        let owners = &mut self.owners;
        let own = |address: &IpAddr| owners.get(address).is_none_or(|owner| owner == identity);
        let address = sequence.find(own);
        if let Some(address) = address {
            owners.entry(address).or_insert_with(|| Arc::clone(identity));
        }
        of(address)
    }

    /// Takes what was assigned. An identity for which there was no room is asked about again the next
    /// day.
    pub(crate) fn learn(&mut self, assigned: &[(Arc<str>, Option<IpAddr>)]) {
        for (identity, address) in assigned {
            self.waiting.remove(identity);
            self.assigned.insert(Arc::clone(identity), *address);
        }
    }

    /// Whether the identities that are there are to be noted, which is so once a day.
    pub(crate) fn is_day_over(&self) -> bool {
        self.book.as_ref().is_some_and(AddressBook::is_day_over)
    }

    /// Notes which identities are there. Forgets the others.
    pub(crate) fn keep(&mut self, present: Vec<Arc<str>>) {
        let Some(book) = &mut self.book else { return };
        let mut assigned = std::mem::take(&mut self.assigned);
        let kept = present.iter().filter_map(|of| assigned.remove_entry(of));
        let kept = kept.filter(|(_, address)| address.is_some());
        self.assigned = kept.collect();
        book.note(present);
    }

    /// How many identities have an address of the book, and how many wait for one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.assigned.len(), self.waiting.len())
    }

    /// The prefix.
    pub(crate) const fn prefix(&self) -> SourcePrefix {
        self.prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of an identity, or that there is none.
    fn of(addresses: &mut SourceAddresses, identity: &Arc<str>) -> Option<IpAddr> {
        match addresses.of(identity) {
            SourceAddress::Known(address) => Some(address),
            SourceAddress::Waits => panic!("{identity} waits"),
            SourceAddress::None => None,
        }
    }

    fn within(text: &str) -> SourceAddresses {
        SourceAddresses::new(text.parse().unwrap(), None)
    }

    #[test]
    fn an_identity_has_one_address_that_a_restart_does_not_change() {
        for prefix in ["127.64.0.0/10", "fd12:3456:789a::/64"] {
            let mut addresses = within(prefix);
            let first = of(&mut addresses, &"psk:a".into()).unwrap();
            let second = of(&mut addresses, &"psk:b".into()).unwrap();
            assert_ne!(first, second);
            assert_eq!(of(&mut addresses, &"psk:a".into()), Some(first));
            assert_eq!(of(&mut within(prefix), &"psk:a".into()), Some(first), "after a restart");
            let bits: u8 = prefix.split_once('/').unwrap().1.parse().unwrap();
            let same = match first {
                IpAddr::V4(at) => u32::from(at) >> (32 - bits) == 0x7f40_0000 >> (32 - bits),
                IpAddr::V6(at) => at.octets()[..8] == [0xfd, 0x12, 0x34, 0x56, 0x78, 0x9a, 0, 0],
            };
            assert!(same, "{first} in {prefix}");
        }
    }

    #[test]
    fn in_a_small_prefix_no_two_identities_meet_and_a_full_one_says_so() {
        let mut addresses = within("10.1.2.0/24");
        let mut given: Vec<IpAddr> = Vec::new();
        let identities: Vec<Arc<str>> = (0..300).map(|n| format!("psk:{n}").into()).collect();
        for identity in &identities {
            given.extend(of(&mut addresses, identity));
        }
        let count = given.len();
        assert!((200..=254).contains(&count), "{count}");
        for (identity, address) in identities.iter().zip(&given).take(100) {
            assert_eq!(of(&mut addresses, identity), Some(*address));
        }
        given.sort();
        given.dedup();
        assert_eq!(given.len(), count);
        let reserved: [IpAddr; 2] = ["10.1.2.0", "10.1.2.255"].map(|text| text.parse().unwrap());
        assert!(!given.iter().any(|address| reserved.contains(address)));
    }
}
