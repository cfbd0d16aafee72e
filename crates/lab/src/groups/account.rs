//! Accounts of what a node sends and computes.

use crate::energy::Computation;
use crate::handshakes::{Sent, WorkCounter};
use crate::world::{NextAction, NodeId};
use std::collections::VecDeque;

/// Blocks of SHA-256 to derive an individual key of `axiom-1.2`: two HMACs over 31 and 63 bytes.
pub(super) const INDIVIDUAL_KEY_HASH_BLOCKS: u32 = 9;
/// Blocks of SHA-256 to derive the keys of one writer in `compact`: a secret, and from it a key, an
/// IV and a record number key.
pub(super) const WRITER_KEYS_HASH_BLOCKS: u32 = 16;

const CIPHER_BLOCK: usize = 16;

/// The phases of a node's activity: handshakes first, then requests and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionPhase {
    Handshakes,
    Messages,
}

/// A node's account.
#[derive(Debug, Default)]
pub(super) struct NodeAccount {
    work_counter: WorkCounter,
    work: Computation,
    /// Computation that derived keys without a handshake.
    pub(super) keys: Computation,
    /// The last computation of the node.
    pub(super) last: Computation,
    sent: [Sent; 2],
}

impl NodeAccount {
    /// Accounts for a datagram that the node processes, protected or not.
    pub(super) fn datagram(
        &mut self,
        phase: TransactionPhase,
        peer: NodeId,
        datagram: &[u8],
        is_protected: bool,
    ) {
        if phase == TransactionPhase::Handshakes {
            return self.work_counter.datagram(peer, datagram, 0);
        }
        self.work.datagrams += 1;
        if is_protected {
            // CCM runs the cipher twice on each block, to encrypt and to authenticate it, and once
            // each for the first block and for the tag.
            self.work.cipher_blocks += 2 * datagram.len().div_ceil(CIPHER_BLOCK) as u32 + 2;
        }
    }

    /// Accounts for a datagram that the node sends.
    pub(super) fn send(
        &mut self,
        phase: TransactionPhase,
        to: NodeId,
        datagram: &[u8],
        is_protected: bool,
    ) -> NextAction {
        self.datagram(phase, to, datagram, is_protected);
        let sent = &mut self.sent[phase as usize];
        sent.datagrams += 1;
        sent.bytes += datagram.len() as u32;
        NextAction::Send { to, len: datagram.len() }
    }

    /// Sends the next message of an outbox through `buf`, and accounts for it.
    pub(super) fn send_next(
        &mut self,
        outbox: &mut VecDeque<(NodeId, Vec<u8>)>,
        is_protected: bool,
        buf: &mut [u8],
    ) -> Option<NextAction> {
        let (to, datagram) = outbox.pop_front()?;
        buf[..datagram.len()].copy_from_slice(&datagram);
        Some(self.send(TransactionPhase::Messages, to, &datagram, is_protected))
    }

    /// Accounts for a key derivation that took this many blocks of a hash function.
    pub(super) fn derive(&mut self, hash_blocks: u32) {
        let work = Computation { hash_blocks, ..Computation::default() };
        self.work += work;
        self.keys += work;
    }

    /// The datagrams and bytes sent in a phase.
    pub(super) const fn sent(&self, phase: TransactionPhase) -> Sent {
        self.sent[phase as usize]
    }

    /// Takes the computation since this function was called last.
    pub(super) fn take(&mut self) -> Computation {
        let mut work = core::mem::take(&mut self.work);
        work += self.work_counter.take();
        if work != Computation::default() {
            self.last = work;
        }
        work
    }
}
