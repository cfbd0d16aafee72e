//! Which epochs exist.
//!
//! Epoch 0 is in clear, 2 protects the handshake, 3 and later ones data
//! (RFC 9147, section 6.1). A header carries two bits of the epoch, so at
//! most four neighbours may live at once; we keep fewer.

use super::{ConnectionId, ReceiveEpoch, SendEpoch};
use aggregation::choice::Seen;
use aggregation::tuning::LATENESS;
use alloc::vec::Vec;

/// The one epoch under keys of DTLS 1.2, whose renegotiation is refused.
pub const EPOCH_12: u64 = 1;
/// The handshake's epoch.
pub const HANDSHAKE_EPOCH: u64 = 2;
/// The first epoch of application data.
pub const APPLICATION_EPOCH: u64 = 3;

/// Whether an epoch's keys protect application data.
pub const fn carries_data(epoch: u64) -> bool {
    epoch == EPOCH_12 || epoch >= APPLICATION_EPOCH
}

/// Sending epochs, oldest first.
#[derive(Debug, Default)]
pub struct SendEpochs(Vec<SendEpoch>);

impl SendEpochs {
    /// Adds the next epoch.
    pub fn install(&mut self, epoch: SendEpoch) {
        self.0.push(epoch);
    }

    /// The epoch with this number.
    pub fn get(&mut self, epoch: u64) -> Option<&mut SendEpoch> {
        self.0.iter_mut().find(|e| e.epoch() == epoch)
    }

    /// The newest epoch.
    pub fn newest(&mut self) -> Option<&mut SendEpoch> {
        self.0.last_mut()
    }

    /// The ID in records of DTLS 1.3 from now on.
    pub fn set_cid(&mut self, cid: ConnectionId) {
        self.0.iter_mut().for_each(|epoch| epoch.set_cid(cid));
    }

    /// The newest epoch, to look at.
    pub fn peek(&self) -> Option<&SendEpoch> {
        self.0.last()
    }

    /// Forgets all epochs before `epoch`.
    pub fn forget_before(&mut self, epoch: u64) {
        self.0.retain(|e| e.epoch() >= epoch);
    }
}

/// Receiving epochs, oldest first.
#[derive(Debug, Default)]
pub struct ReceiveEpochs(Vec<ReceiveEpoch>);

impl ReceiveEpochs {
    /// Adds the next epoch.
    pub fn install(&mut self, epoch: ReceiveEpoch) {
        self.0.push(epoch);
    }

    /// The newest epoch whose low bits are `bits`.
    pub fn by_bits(&mut self, bits: u8) -> Option<&mut ReceiveEpoch> {
        self.0.iter_mut().rev().find(|e| (e.epoch() & 3) as u8 == bits)
    }

    /// The epoch with this number.
    pub fn get(&mut self, epoch: u64) -> Option<&mut ReceiveEpoch> {
        self.0.iter_mut().find(|e| e.epoch() == epoch)
    }

    /// Whether records of a later epoch than this came already.
    pub fn is_outdated(&self, epoch: u64) -> bool {
        self.0.iter().any(|e| e.epoch() > epoch && e.is_used())
    }

    /// Whether there is more than the newest epoch.
    pub fn has_old(&self) -> bool {
        self.0.len() > 1
    }

    /// The newest epoch.
    pub fn newest(&self) -> Option<&ReceiveEpoch> {
        self.0.last()
    }

    /// What became of the next record of a watched epoch, in their order; `None` if that is not
    /// known yet. An epoch's end is late when so many records of a later one are authenticated as
    /// a record may be.
    pub fn next_seen(&mut self) -> Option<Seen> {
        for at in 0..self.0.len() {
            let later = self.0[at + 1..].iter().any(|e| e.is_used() && e.expected() >= LATENESS);
            let epoch = &mut self.0[at];
            let ended = later || epoch.is_settled();
            let seen = epoch.next_seen(ended);
            if seen.is_some() || epoch.is_watched() && !ended {
                return seen;
            }
        }
        None
    }

    /// Takes all epochs before `epoch` out.
    pub fn take_before(&mut self, epoch: u64) -> Vec<ReceiveEpoch> {
        let keep = self.0.iter().position(|e| e.epoch() >= epoch).unwrap_or(self.0.len());
        self.0.drain(..keep).collect()
    }
}
