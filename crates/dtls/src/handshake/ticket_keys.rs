//! The keys that seal the tickets of both versions, and which tickets were used.
//!
//! ```text
//! | key name (4) | number (8) | sealed: format (1), content | tag |
//! ```
//!
//! Each endpoint draws its own keys at random, so that its tickets end with it: after a restart
//! clients fall back to full handshakes. No number occurs twice under a key: the endpoint counts
//! tickets, beginning at a random number so that tickets do not reveal how many there are. The
//! first byte of the content tells the formats apart, of which each version has one.

use crate::crypto::{Aead, Provider, Record, TrafficSecret};
use crate::tuning::MAX_USED_TICKETS;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::{Random, Reader};
use zeroize::Zeroizing;

const HEAD: usize = 4 + 8;
const TAG: usize = 16;

/// Identifies a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TicketId {
    key: u32,
    number: u64,
}

/// A key that seals tickets.
struct TicketKey {
    name: u32,
    aead: Box<dyn Aead>,
}

impl TicketKey {
    /// A random key; `None` if the provider has no suite to seal tickets with. Only suites with full
    /// tags are suitable, because an attacker has any number of attempts to forge a ticket.
    fn random(rng: &mut Random, provider: &Provider) -> Option<Self> {
        let mut newer =
            provider.suites.iter().filter(|suite| suite.encrypts && suite.tag_len == TAG);
        let mut older = provider.suites_12.iter().filter(|suite| suite.tag_len == TAG);
        let name = u32::from_be_bytes(rng.array());
        let secret = Zeroizing::new(rng.array::<32>());
        if let Some(suite) = newer.next() {
            let secret = TrafficSecret::extract(suite.hash, &[], &*secret);
            return Some(Self { name, aead: suite.keying.plain(&secret.derivation()) });
        }
        let suite = older.next()?;
        let mut key = Zeroizing::new(alloc::vec![0; suite.key_len + suite.fixed_iv_len]);
        rng.fill(&mut key);
        let (key, iv) = key.split_at(suite.key_len);
        Some(Self { name, aead: (suite.aead)(key, iv) })
    }
}

/// The current ticket key and the one before it.
pub(crate) struct TicketKeys {
    current: Arc<TicketKey>,
    previous: Option<Arc<TicketKey>>,
}

impl TicketKeys {
    /// A fresh key, after those of `before`; `None` if the provider has no suite to seal with.
    pub(super) fn rotated(
        before: Option<&Self>,
        rng: &mut Random,
        provider: &Provider,
    ) -> Option<Self> {
        let current = Arc::new(TicketKey::random(rng, provider)?);
        Some(Self { current, previous: before.map(|keys| Arc::clone(&keys.current)) })
    }

    fn find(&self, name: u32) -> Option<&TicketKey> {
        let mut keys = core::iter::once(&self.current).chain(&self.previous);
        keys.find(|key| key.name == name).map(|key| &**key)
    }

    /// Opens a ticket; `None` if it is not ours.
    pub(crate) fn open(&self, ticket: &[u8]) -> Option<(TicketId, Zeroizing<Vec<u8>>)> {
        let (head, body) = ticket.split_at_checked(HEAD)?;
        let mut r = Reader::new(head);
        let (key, number) = (r.u32().ok()?, r.u64().ok()?);
        let (content, tag) = body.split_at_checked(body.len().checked_sub(TAG)?)?;
        let mut content = Zeroizing::new(content.to_vec());
        self.find(key)?.aead.open(Record { number, header: head }, &mut content, tag).ok()?;
        Some((TicketId { key, number }, content))
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys(..)")
    }
}

/// Seals one ticket, for which a number is reserved.
pub(crate) struct TicketSealer {
    key: Arc<TicketKey>,
    number: u64,
}

impl TicketSealer {
    pub(super) fn new(keys: &TicketKeys, number: u64) -> Self {
        Self { key: Arc::clone(&keys.current), number }
    }

    /// Seals the content of a ticket.
    pub(crate) fn seal(self, content: &[u8]) -> Vec<u8> {
        let mut ticket = Vec::with_capacity(HEAD + content.len() + TAG);
        ticket.extend(self.key.name.to_be_bytes());
        ticket.extend(self.number.to_be_bytes());
        ticket.extend_from_slice(content);
        ticket.resize(HEAD + content.len() + TAG, 0);
        let (head, body) = ticket.split_at_mut(HEAD);
        let (content, tag) = body.split_at_mut(content.len());
        self.key.aead.seal(Record { number: self.number, header: head }, content, tag);
        ticket
    }
}

impl fmt::Debug for TicketSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketSealer({})", self.number)
    }
}

/// The first number of a key's tickets: at random, and so low that numbers stay below 2^48.
pub(super) fn first_number(rng: &mut Random) -> u64 {
    u64::from_be_bytes(rng.array()) >> 17
}

/// The tickets that were used, of the current key and the one before it.
///
/// It is bounded: beyond [`MAX_USED_TICKETS`] of a key, the oldest tickets of that key all count as
/// used. A client with such a ticket falls back to a full handshake.
#[derive(Debug, Default)]
pub(super) struct UsedTickets([UsedOfKey; 2]);

#[derive(Debug, Default)]
struct UsedOfKey {
    key: u32,
    /// All tickets with lower numbers count as used.
    below: u64,
    numbers: BTreeSet<u64>,
}

impl UsedTickets {
    /// A new key begins; its first ticket has this number.
    pub(super) fn rotate(&mut self, keys: &TicketKeys, first: u64) {
        self.0.swap(0, 1);
        self.0[0] = UsedOfKey { key: keys.current.name, below: first, numbers: BTreeSet::new() };
    }

    pub(super) fn contains(&self, id: TicketId) -> bool {
        let of_key = self.0.iter().find(|used| used.key == id.key);
        of_key.is_none_or(|used| id.number < used.below || used.numbers.contains(&id.number))
    }

    /// Notes that a ticket was used.
    pub(super) fn insert(&mut self, id: TicketId) {
        let Some(used) = self.0.iter_mut().find(|used| used.key == id.key) else { return };
        if id.number >= used.below {
            used.numbers.insert(id.number);
        }
        while used.numbers.len() > MAX_USED_TICKETS
            || used.numbers.first().is_some_and(|first| *first == used.below)
        {
            let Some(lowest) = used.numbers.pop_first() else { return };
            used.below = lowest + 1;
        }
    }
}

#[cfg(all(test, feature = "rustcrypto"))]
mod tests {
    use super::*;
    use crate::crypto::rustcrypto::PROVIDER;

    #[test]
    fn a_sealed_ticket_opens_once_whole_and_unchanged() {
        let rng = &mut Random::insecure(1);
        let keys = TicketKeys::rotated(None, rng, &PROVIDER).unwrap();
        let ticket = TicketSealer::new(&keys, 7).seal(b"content");
        let (id, content) = keys.open(&ticket).unwrap();
        assert_eq!((id.number, &content[..]), (7, &b"content"[..]));
        for at in 0..ticket.len() {
            assert!(keys.open(&ticket[..at]).is_none(), "cut at {at}");
            let mut altered = ticket.clone();
            altered[at] ^= 0x10;
            assert!(keys.open(&altered).is_none(), "byte {at}");
        }
        assert!(keys.open(&[&ticket[..], &[0]].concat()).is_none());
        let next = TicketKeys::rotated(Some(&keys), rng, &PROVIDER).unwrap();
        assert!(next.open(&ticket).is_some(), "the key before");
        let after = TicketKeys::rotated(Some(&next), rng, &PROVIDER).unwrap();
        assert!(after.open(&ticket).is_none());
    }

    #[test]
    fn a_provider_of_one_version_seals_tickets_too() {
        let rng = &mut Random::insecure(2);
        for provider in [
            Provider::new("1.2").with_suites_12(PROVIDER.suites_12),
            Provider::new("1.3").with_suites(PROVIDER.suites),
        ] {
            let keys = TicketKeys::rotated(None, rng, &provider).unwrap();
            let ticket = TicketSealer::new(&keys, 1).seal(b"content");
            assert!(keys.open(&ticket).is_some());
        }
        assert!(TicketKeys::rotated(None, rng, &Provider::new("none")).is_none());
    }

    #[test]
    fn used_tickets_are_remembered_within_bounds() {
        let rng = &mut Random::insecure(3);
        let mut used = UsedTickets::default();
        let keys = TicketKeys::rotated(None, rng, &PROVIDER).unwrap();
        let first = first_number(rng);
        assert!(first < 1 << 47);
        used.rotate(&keys, first);
        let id = |n: u64| TicketId { key: keys.current.name, number: first + n };
        assert!(!used.contains(id(0)) && !used.contains(id(9)));
        // Tickets that are used in the order of their numbers take no memory.
        for n in 0..100 {
            used.insert(id(n));
        }
        assert!(used.0[0].numbers.is_empty() && used.contains(id(99)) && !used.contains(id(100)));
        // Every other ticket is used.
        let most = MAX_USED_TICKETS as u64;
        for n in 0..most {
            used.insert(id(101 + 2 * n));
        }
        assert!(!used.contains(id(100)) && used.contains(id(101)) && !used.contains(id(102)));
        assert_eq!(used.0[0].numbers.len(), MAX_USED_TICKETS);
        used.insert(id(101 + 2 * most));
        assert!(used.contains(id(100)), "too old to tell");
        assert!(!used.contains(id(102)));
        assert_eq!(used.0[0].numbers.len(), MAX_USED_TICKETS);
        // The key before is remembered too, the one before that is not.
        let next = TicketKeys::rotated(Some(&keys), rng, &PROVIDER).unwrap();
        used.rotate(&next, 5);
        assert!(used.contains(id(101)) && !used.contains(id(102)));
        let after = TicketKeys::rotated(Some(&next), rng, &PROVIDER).unwrap();
        used.rotate(&after, 5);
        assert!(used.contains(id(102)), "its key is gone");
    }
}
