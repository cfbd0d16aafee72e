//! What a node sends and computes.

use crate::energy::Work;
use crate::handshakes::{Sent, Tally};
use crate::world::{NodeId, Wish};

/// Blocks of SHA-256 for an individual key of `axiom-1.2`: two HMACs, of 31 and of 63 bytes.
pub(super) const INDIVIDUAL_KEY: u32 = 9;
/// Blocks for the keys of one writer in `compact`: a secret, from it a key, an IV and a number key.
pub(super) const WRITER_KEYS: u32 = 16;

const CIPHER_BLOCK: usize = 16;

/// What a node does: it shakes hands, and then it asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Handshakes,
    Messages,
}

/// A node's account.
#[derive(Debug, Default)]
pub(super) struct Account {
    tally: Tally,
    work: Work,
    /// Work that made keys without a handshake.
    pub(super) keys: Work,
    /// The last work that there was.
    pub(super) last: Work,
    sent: [Sent; 2],
}

impl Account {
    /// A datagram passed that is protected, or not.
    pub(super) fn datagram(
        &mut self,
        phase: Phase,
        peer: NodeId,
        datagram: &[u8],
        is_protected: bool,
    ) {
        if phase == Phase::Handshakes {
            return self.tally.datagram(peer, datagram, 0);
        }
        self.work.datagrams += 1;
        if is_protected {
            // CCM encrypts and authenticates each block, and its number and tag besides.
            self.work.cipher_blocks += 2 * datagram.len().div_ceil(CIPHER_BLOCK) as u32 + 2;
        }
    }

    /// The same of one that is sent.
    pub(super) fn send(
        &mut self,
        phase: Phase,
        to: NodeId,
        datagram: &[u8],
        is_protected: bool,
    ) -> Wish {
        self.datagram(phase, to, datagram, is_protected);
        let sent = &mut self.sent[phase as usize];
        sent.datagrams += 1;
        sent.bytes += datagram.len() as u32;
        Wish::Send { to, len: datagram.len() }
    }

    /// Keys were derived with so many blocks of a hash function.
    pub(super) fn derive(&mut self, hash_blocks: u32) {
        let work = Work { hash_blocks, ..Work::default() };
        self.work += work;
        self.keys += work;
    }

    /// What was sent in a phase.
    pub(super) const fn sent(&self, phase: Phase) -> Sent {
        self.sent[phase as usize]
    }

    /// What was computed since this was asked last.
    pub(super) fn take(&mut self) -> Work {
        let mut work = core::mem::take(&mut self.work);
        work += self.tally.take();
        if work != Work::default() {
            self.last = work;
        }
        work
    }
}
