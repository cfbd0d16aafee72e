//! The keys that seal the tickets of both versions, and which tickets were used.
//!
//! ```text
//! | key name (4) | number (8) | sealed: format (1), content | tag |
//! ```
//!
//! Each endpoint draws its own keys at random, so that its tickets end with it: after a restart
//! clients fall back to full handshakes. Endpoints that share a secret derive keys from it and from
//! their names, so that each has a key of its own and all open the tickets of all. No number occurs twice under a key: the endpoint counts
//! tickets, beginning at a random number so that tickets do not reveal how many there are. The
//! first byte of the content tells the formats apart, of which each version has one.

use crate::crypto::{Aead, Provider, Record, TrafficSecret};
use crate::tuning::MAX_USED_TICKETS;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use hmac::{Hmac, KeyInit, Mac};
use lightseal_core::{Random, Reader};
use sha2::Sha256;
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

/// The secrets of tickets that several endpoints share.
pub trait TicketSecrets: fmt::Debug + Send + Sync {
    /// Fills in the secret of a generation, which nobody else may know. Returns `false` if there is
    /// none: then tickets of that generation are not accepted.
    fn secret(&self, generation: u8, secret: &mut [u8; 32]) -> bool;
}

/// The number of a process that shares tickets with others is 2^24 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessOutOfRange;

impl fmt::Display for ProcessOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a process that shares tickets is 2^24 or more")
    }
}

impl core::error::Error for ProcessOutOfRange {}

/// How the keys of several endpoints follow from secrets that they share.
#[derive(Clone)]
pub(super) struct SharedKeys {
    pub(super) secrets: Arc<dyn TicketSecrets>,
    pub(super) provider: &'static Provider,
    /// The name of this endpoint's own key.
    pub(super) name: u32,
}

impl SharedKeys {
    /// The name of a key: the generation of its secret (8 bits), and the number of the process.
    pub(super) fn name(generation: u8, process: u32) -> Result<u32, ProcessOutOfRange> {
        match process >> 24 {
            0 => Ok(u32::from(generation) << 24 | process),
            _ => Err(ProcessOutOfRange),
        }
    }

    /// The key of this name; `None` if its generation has no secret.
    fn key(&self, name: u32) -> Option<TicketKey> {
        let mut secret = Zeroizing::new([0; 32]);
        if !self.secrets.secret((name >> 24) as u8, &mut secret) {
            return None;
        }
        let mut part = 0;
        let expand = |out: &mut [u8]| {
            let mut mac =
                Hmac::<Sha256>::new_from_slice(&*secret).expect("HMAC takes keys of any length");
            part += 1;
            mac.update(b"lightseal ticket key");
            mac.update(&name.to_be_bytes());
            mac.update(&[part]);
            let block = mac.finalize().into_bytes();
            out.iter_mut().zip(block).for_each(|(out, byte)| *out = byte);
        };
        TicketKey::new(name, expand, self.provider)
    }
}

/// The longest key of a suite with its fixed part of the nonce, in bytes.
const LONGEST_KEY: usize = 64;

impl TicketKey {
    /// A random key; `None` if the provider has no suite to seal tickets with. Only suites with full
    /// tags are suitable, because an attacker has any number of attempts to forge a ticket.
    fn random(rng: &mut Random, provider: &Provider) -> Option<Self> {
        let name = u32::from_be_bytes(rng.array());
        Self::new(name, |bytes| rng.fill(bytes), provider)
    }

    /// A key of bytes that `fill` draws, at most 32 at a time.
    fn new(name: u32, mut fill: impl FnMut(&mut [u8]), provider: &Provider) -> Option<Self> {
        let mut newer =
            provider.suites.iter().filter(|suite| suite.encrypts && suite.tag_len == TAG);
        let mut older = provider.suites_12.iter().filter(|suite| suite.tag_len == TAG);
        let mut secret = Zeroizing::new([0; 32]);
        fill(&mut *secret);
        if let Some(suite) = newer.next() {
            let secret = TrafficSecret::extract(suite.hash, &[], &*secret);
            return Some(Self { name, aead: suite.keying.plain(&secret.derivation()) });
        }
        let suite = older.next()?;
        let mut key = Zeroizing::new([0; LONGEST_KEY]);
        let key = key.get_mut(..suite.key_len + suite.fixed_iv_len)?;
        key.chunks_mut(32).for_each(fill);
        let (key, iv) = key.split_at(suite.key_len);
        Some(Self { name, aead: (suite.aead)(key, iv) })
    }
}

/// The current ticket key and the one before it.
pub(crate) struct TicketKeys {
    current: Arc<TicketKey>,
    previous: Option<Arc<TicketKey>>,
    shared: Option<SharedKeys>,
}

impl TicketKeys {
    /// The key that this endpoint has among those that share secrets; `None` if its generation has
    /// no secret or the provider has no suite to seal with.
    pub(super) fn shared(shared: &SharedKeys) -> Option<Self> {
        let current = Arc::new(shared.key(shared.name)?);
        Some(Self { current, previous: None, shared: Some(shared.clone()) })
    }

    /// A fresh key, after those of `before`; `None` if the provider has no suite to seal with.
    pub(super) fn rotated(
        before: Option<&Self>,
        rng: &mut Random,
        provider: &Provider,
    ) -> Option<Self> {
        let current = Arc::new(TicketKey::random(rng, provider)?);
        let previous = before.map(|keys| Arc::clone(&keys.current));
        Some(Self { current, previous, shared: None })
    }

    fn find(&self, name: u32) -> Option<Arc<TicketKey>> {
        let mut keys = core::iter::once(&self.current).chain(&self.previous);
        let own = keys.find(|key| key.name == name).cloned();
        own.or_else(|| self.shared.as_ref()?.key(name).map(Arc::new))
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
///
/// Tickets of endpoints that share their secrets count as not used: nobody knows.
#[derive(Debug, Default)]
pub(super) struct UsedTickets {
    of_keys: [UsedOfKey; 2],
    are_shared: bool,
}

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
        self.are_shared = keys.shared.is_some();
        self.of_keys.swap(0, 1);
        self.of_keys[0] =
            UsedOfKey { key: keys.current.name, below: first, numbers: BTreeSet::new() };
    }

    pub(super) fn contains(&self, id: TicketId) -> bool {
        match self.of_keys.iter().find(|used| used.key == id.key) {
            Some(used) => id.number < used.below || used.numbers.contains(&id.number),
            None => !self.are_shared,
        }
    }

    /// Notes that a ticket was used.
    pub(super) fn insert(&mut self, id: TicketId) {
        let Some(used) = self.of_keys.iter_mut().find(|used| used.key == id.key) else { return };
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

    #[derive(Debug)]
    struct OneSecret;

    impl TicketSecrets for OneSecret {
        fn secret(&self, generation: u8, secret: &mut [u8; 32]) -> bool {
            secret.fill(7);
            generation == 5
        }
    }

    #[test]
    fn processes_that_share_a_secret_have_keys_of_their_own_and_open_the_tickets_of_all() {
        let providers = [PROVIDER, Provider::new("1.2").with_suites_12(PROVIDER.suites_12)];
        for provider in &*Box::leak(Box::new(providers)) {
            let shared = |generation, process| SharedKeys {
                secrets: Arc::new(OneSecret),
                provider,
                name: SharedKeys::name(generation, process).unwrap(),
            };
            let [one, other] =
                [0x0000_0001, 0x0000_0002].map(|of| TicketKeys::shared(&shared(5, of)).unwrap());
            let tickets = [&one, &other].map(|keys| TicketSealer::new(keys, 9).seal(b"content"));
            // Under one key, equal numbers would mean equal nonces.
            assert_ne!(tickets[0][HEAD..], tickets[1][HEAD..]);
            for ticket in &tickets {
                assert_eq!(&*one.open(ticket).unwrap().1, b"content");
                assert_eq!(&*other.open(ticket).unwrap().1, b"content");
                let mut renamed = ticket.clone();
                renamed[3] ^= 4;
                assert!(one.open(&renamed).is_none(), "of another process");
                renamed.clone_from(ticket);
                renamed[0] ^= 1;
                assert!(one.open(&renamed).is_none(), "of another generation");
            }
            assert!(TicketKeys::shared(&shared(6, 1)).is_none());
        }
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
        assert!(
            used.of_keys[0].numbers.is_empty() && used.contains(id(99)) && !used.contains(id(100))
        );
        // Every other ticket is used.
        let most = MAX_USED_TICKETS as u64;
        for n in 0..most {
            used.insert(id(101 + 2 * n));
        }
        assert!(!used.contains(id(100)) && used.contains(id(101)) && !used.contains(id(102)));
        assert_eq!(used.of_keys[0].numbers.len(), MAX_USED_TICKETS);
        used.insert(id(101 + 2 * most));
        assert!(used.contains(id(100)), "too old to tell");
        assert!(!used.contains(id(102)));
        assert_eq!(used.of_keys[0].numbers.len(), MAX_USED_TICKETS);
        // The key before is remembered too, the one before that is not.
        let next = TicketKeys::rotated(Some(&keys), rng, &PROVIDER).unwrap();
        used.rotate(&next, 5);
        assert!(used.contains(id(101)) && !used.contains(id(102)));
        let after = TicketKeys::rotated(Some(&next), rng, &PROVIDER).unwrap();
        used.rotate(&after, 5);
        assert!(used.contains(id(102)), "its key is gone");
    }
}
