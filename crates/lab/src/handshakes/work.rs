//! The computation that a handshake requires, derived from its records.

use crate::energy::Computation;
use crate::world::NodeId;
use std::collections::BTreeSet;

/// Blocks of SHA-256 to derive the keys of DTLS 1.2: 12 HMACs (master secret, key block, two
/// verify_data) of four or five blocks each.
const KEYS_12: u32 = 54;

/// Blocks of SHA-256 to derive the keys of DTLS 1.3: about 30 HMACs (binder, secrets of two epochs,
/// keys, IVs and record number keys of four directions, two Finished).
const KEYS_13: u32 = 130;

/// Length of a block of the cipher and of the hash function, in bytes.
const CIPHER_BLOCK: usize = 16;
const HASH_BLOCK: usize = 64;

/// Length of a record's header in DTLS 1.2 (RFC 6347, section 4.1), in bytes.
const HEADER_12: usize = 13;

/// Computation since [`WorkCounter::take`] was called last.
#[derive(Debug, Default)]
pub(crate) struct WorkCounter {
    work: Computation,
    /// The peers with which there are keys.
    keyed: BTreeSet<NodeId>,
}

impl WorkCounter {
    /// Accounts for a datagram that was sent or received. The first protected record of a peer also
    /// costs the key derivation and this many multiplications on a curve.
    pub(crate) fn datagram(
        &mut self,
        peer: NodeId,
        mut datagram: &[u8],
        curve_multiplications: u32,
    ) {
        self.work.datagrams += 1;
        while let Some(first) = datagram.first() {
            let is_13 = first >> 5 == 1;
            let len = if is_13 { datagram.len() } else { len_12(datagram) };
            let (record, rest) = datagram.split_at(len);
            datagram = rest;
            self.work.hash_blocks += record.len().div_ceil(HASH_BLOCK) as u32;
            let is_protected = is_13 || record.get(3..5).is_some_and(|epoch| epoch != [0, 0]);
            if !is_protected {
                continue;
            }
            // CCM runs the cipher twice on each block, to encrypt and to authenticate it, and once
            // each for the first block and for the tag.
            self.work.cipher_blocks += 2 * record.len().div_ceil(CIPHER_BLOCK) as u32 + 2;
            if self.keyed.insert(peer) {
                self.work.hash_blocks += if is_13 { KEYS_13 } else { KEYS_12 };
                self.work.curve_multiplications += curve_multiplications;
            }
        }
    }

    /// Takes the computation since this function was called last.
    pub(crate) fn take(&mut self) -> Computation {
        core::mem::take(&mut self.work)
    }
}

/// Length of the first record of DTLS 1.2 in a datagram, header included.
fn len_12(datagram: &[u8]) -> usize {
    let len = datagram
        .get(11..HEADER_12)
        .map_or(0, |len| usize::from(u16::from_be_bytes([len[0], len[1]])));
    (HEADER_12 + len).min(datagram.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_a_peer() {
        let mut work_counter = WorkCounter::default();
        let clear = [&[22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 51][..], &[0; 51]].concat();
        work_counter.datagram(NodeId(1), &clear, 2);
        assert_eq!(
            work_counter.take(),
            Computation { datagrams: 1, hash_blocks: 1, ..Computation::default() }
        );
        let protected = [0x2e; 40];
        work_counter.datagram(NodeId(1), &protected, 2);
        let work = work_counter.take();
        assert_eq!((work.hash_blocks, work.cipher_blocks, work.curve_multiplications), (131, 8, 2));
        work_counter.datagram(NodeId(1), &protected, 2);
        assert_eq!(work_counter.take().hash_blocks, 1);
    }
}
