//! Hints to peers whose associations the endpoint does not know: it may have been restarted.
//!
//! A hint is a plaintext record without content (docs/spec/hints.md). It is not authenticated: a
//! peer that understands it only probes at once whether the endpoint is there. A hint is never
//! longer than the datagram that it answers, and is sent only in answer to something that looks
//! like a protected record. So nobody gains by sending datagrams with a forged source address, and
//! two endpoints never answer each other's hints.

use super::Endpoint;
use super::hello::network;
use crate::codepoints::{ContentType, DTLS_1_2};
use crate::connection::HINT_EPOCH;
use crate::record::{Header12, PlaintextHeader, UnifiedHeader};
use crate::tuning::{MAX_HINTS, MAX_HINTS_OF_NETWORK};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::{Instant, Reader, Writer};

/// The number of hints sent in the current second.
#[derive(Debug, Default)]
pub(super) struct Hints {
    since: Instant,
    count: u32,
    /// The number of hints sent to each network. There are at most as many entries as hints.
    of_networks: BTreeMap<u128, u32>,
}

impl Hints {
    /// Whether a hint may be sent to `to`; counts it if so.
    fn admit(&mut self, now: Instant, to: SocketAddr) -> bool {
        if now >= self.since + Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
            self.of_networks.clear();
        }
        if self.count >= MAX_HINTS {
            return false;
        }
        let of_network = self.of_networks.entry(network(to)).or_default();
        if *of_network >= MAX_HINTS_OF_NETWORK {
            return false;
        }
        *of_network += 1;
        self.count += 1;
        true
    }
}

/// Whether a datagram begins with a protected record, as far as that is visible without its keys.
fn begins_protected(datagram: &[u8], cid_len: usize) -> bool {
    if datagram.first().is_some_and(|first| UnifiedHeader::begins_with(*first)) {
        let header = UnifiedHeader::read(&mut Reader::new(datagram), cid_len);
        return header.is_ok_and(|header| {
            let len = header.header_len() + usize::from(header.length.unwrap_or(1));
            len <= datagram.len()
        });
    }
    let known = [
        ContentType::CHANGE_CIPHER_SPEC,
        ContentType::ALERT,
        ContentType::HANDSHAKE,
        ContentType::APPLICATION_DATA,
        ContentType::TLS12_CID,
    ];
    Header12::read(datagram, cid_len).is_ok_and(|header| {
        known.contains(&header.kind)
            && (1..HINT_EPOCH).contains(&header.epoch)
            && header.body > 0
            && header.len + usize::from(header.body) <= datagram.len()
    })
}

/// The bytes of a hint.
fn hint() -> Vec<u8> {
    let mut hint = alloc::vec![0; PlaintextHeader::LEN];
    let mut w = Writer::new(&mut hint);
    w.u8(ContentType::UNKNOWN_ASSOCIATION.0)
        .and_then(|()| w.u16(DTLS_1_2))
        .and_then(|()| w.u16(HINT_EPOCH))
        .expect("a plaintext header has room for these fields");
    hint
}

impl Endpoint {
    /// Answers a datagram that belongs to no association with a hint, if one is due.
    pub(super) fn hint_at(&mut self, from: SocketAddr, datagram: &[u8]) {
        if self.config.hints
            && let len = self.id_len()
            && let Some(hints) = self.hints.get_mut()
            && datagram.len() >= PlaintextHeader::LEN
            && begins_protected(datagram, len)
            && hints.admit(self.now, from)
        {
            self.stats.note(|stats| stats.hints += 1);
            self.answer_with(from, hint());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_as_the_specification_has_it() {
        assert_eq!(hint(), [0xe3, 0xfe, 0xfd, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(!begins_protected(&hint(), 0), "no hint answers a hint");
    }

    #[test]
    fn hints_are_few_a_network_and_few_in_all() {
        let mut hints = Hints::default();
        let (now, second) = (Instant::from_micros(5_000_000), Duration::from_secs(1));
        let from = |n: u16| SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 1));
        let one = (0..1000).filter(|_| hints.admit(now, from(1))).count();
        assert_eq!(one, MAX_HINTS_OF_NETWORK as usize);
        let all = (2..2000).filter(|n| hints.admit(now, from(*n))).count();
        assert_eq!(one + all, MAX_HINTS as usize);
        assert!(hints.of_networks.len() <= MAX_HINTS as usize);
        assert!(!hints.admit(now + Duration::from_micros(999_999), from(3000)));
        assert!(hints.admit(now + second, from(1)));
    }

    #[test]
    fn only_what_looks_like_a_protected_record_is_worth_a_hint() {
        let record = |kind: u8, epoch: u8| {
            [&[kind, 0xfe, 0xfd, 0, epoch][..], &[0; 6], &[0, 20], &[7; 20]].concat()
        };
        assert!(begins_protected(&record(23, 1), 0));
        assert!(begins_protected(&record(22, 1), 0));
        for (kind, epoch) in [(23, 0), (22, 0), (21, 0), (24, 1), (0xe3, 1), (1, 1)] {
            assert!(!begins_protected(&record(kind, epoch), 0), "{kind} {epoch}");
        }
        let cut = record(23, 1);
        assert!((0..cut.len()).all(|len| !begins_protected(&cut[..len], 0)));
        let newer = [&[0x2f, 1, 2, 0, 17][..], &[7; 17]].concat();
        assert!(begins_protected(&newer, 0));
        assert!((0..newer.len()).all(|len| !begins_protected(&newer[..len], 0)));
    }
}
