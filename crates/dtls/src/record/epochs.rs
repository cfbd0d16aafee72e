//! The epochs that have keys.
//!
//! Epoch 0 is plaintext, epoch 2 protects the handshake, and epochs from 3 on protect data (RFC
//! 9147, section 6.1). A header carries two bits of the epoch, so that at most four consecutive
//! epochs can be distinguished; fewer are kept.

use super::{ConnectionId, ReceiveEpoch, SendEpoch};
use crate::parts::{Dtls12, Part};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_aggregation::choice::RecordFate;
use lightseal_aggregation::tuning::LATENESS;

/// The only protected epoch of DTLS 1.2, because renegotiation is refused.
pub const EPOCH_12: u64 = 1;
/// The epoch of early data in DTLS 1.3. Its number is that of [`EPOCH_12`].
pub const EARLY_EPOCH: u64 = 1;
/// The epoch of the handshake in DTLS 1.3.
pub const HANDSHAKE_EPOCH: u64 = 2;
/// The first epoch of application data.
pub const APPLICATION_EPOCH: u64 = 3;

/// The number of an epoch with keys. Each begins with a handshake message, of which an association has
/// 65,536, so it fits half of the word that the numbers of epochs have elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochNumber(u32);

impl EpochNumber {
    pub(super) const fn new(epoch: u64) -> Self {
        debug_assert!(epoch <= u32::MAX as u64);
        Self(epoch as u32)
    }

    pub(super) const fn get(self) -> u64 {
        self.0 as u64
    }
}

/// Whether this is the protected epoch of DTLS 1.2, if it is not the one of early data.
pub const fn is_of_12(epoch: u64) -> bool {
    Dtls12::IS_INCLUDED && epoch == EPOCH_12
}

/// Whether records of an epoch may carry application data.
pub const fn carries_data(epoch: u64) -> bool {
    is_of_12(epoch) || epoch >= APPLICATION_EPOCH
}

/// Sending epochs, oldest first. The list has no spare room: an association keeps one epoch for
/// most of its life.
#[derive(Debug, Default)]
pub struct SendEpochs(Box<[SendEpoch]>);

impl SendEpochs {
    /// Adds the next epoch.
    pub fn install(&mut self, epoch: SendEpoch) {
        insert(&mut self.0, usize::MAX, epoch);
    }

    /// All epochs, oldest first.
    pub(crate) fn all(&self) -> &[SendEpoch] {
        &self.0
    }

    /// The epoch with this number.
    pub fn get(&mut self, epoch: u64) -> Option<&mut SendEpoch> {
        self.0.iter_mut().find(|e| e.epoch() == epoch)
    }

    /// The newest epoch.
    pub fn newest(&mut self) -> Option<&mut SendEpoch> {
        self.0.last_mut()
    }

    /// Sets the connection ID of DTLS 1.3 records.
    pub fn set_cid(&mut self, cid: ConnectionId) {
        self.0.iter_mut().for_each(|epoch| epoch.set_cid(cid));
    }

    /// The newest epoch, by shared reference.
    pub fn peek(&self) -> Option<&SendEpoch> {
        self.0.last()
    }

    /// Erases all epochs before `epoch`.
    pub fn forget_before(&mut self, epoch: u64) {
        drop(take_before(&mut self.0, |e| e.epoch() >= epoch));
    }
}

/// Receiving epochs, oldest first, without spare room.
#[derive(Debug, Default)]
pub struct ReceiveEpochs(Box<[ReceiveEpoch]>);

impl ReceiveEpochs {
    /// Adds the next epoch.
    pub fn install(&mut self, epoch: ReceiveEpoch) -> &mut ReceiveEpoch {
        insert(&mut self.0, usize::MAX, epoch)
    }

    /// Adds the epoch of early data, which comes before all others.
    pub fn install_early(&mut self, epoch: ReceiveEpoch) {
        insert(&mut self.0, 0, epoch);
    }

    /// The newest epoch whose low bits are `bits`.
    pub fn by_bits(&mut self, bits: u8) -> Option<&mut ReceiveEpoch> {
        self.0.iter_mut().rev().find(|e| (e.epoch() & 3) as u8 == bits)
    }

    /// The epoch with this number.
    pub fn get(&mut self, epoch: u64) -> Option<&mut ReceiveEpoch> {
        self.0.iter_mut().find(|e| e.epoch() == epoch)
    }

    /// Whether records of a later epoch have already been authenticated.
    pub fn is_outdated(&self, epoch: u64) -> bool {
        self.0.iter().any(|e| e.epoch() > epoch && e.is_used())
    }

    /// Whether there are epochs besides the newest one.
    pub fn has_old(&self) -> bool {
        self.0.len() > 1
    }

    /// All epochs, oldest first.
    pub(crate) fn all(&self) -> &[ReceiveEpoch] {
        &self.0
    }

    /// All epochs, oldest first, to be changed.
    pub(crate) fn all_mut(&mut self) -> &mut [ReceiveEpoch] {
        &mut self.0
    }

    /// The newest epoch.
    pub fn newest(&self) -> Option<&ReceiveEpoch> {
        self.0.last()
    }

    /// Whether the next record of a watched epoch arrived, in the order of epochs and numbers;
    /// `None` if that is not known yet. Records at the end of an epoch count as lost once the
    /// numbers of a later epoch have reached [`LATENESS`].
    pub fn next_seen(&mut self) -> Option<RecordFate> {
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

    /// Removes and returns all epochs before `epoch`.
    pub fn take_before(&mut self, epoch: u64) -> Vec<ReceiveEpoch> {
        take_before(&mut self.0, |e| e.epoch() >= epoch)
    }
}

/// Inserts an epoch at a place of a list, or at its end.
fn insert<T>(list: &mut Box<[T]>, at: usize, epoch: T) -> &mut T {
    let mut epochs = core::mem::take(list).into_vec();
    let at = at.min(epochs.len());
    epochs.reserve_exact(1);
    epochs.insert(at, epoch);
    *list = epochs.into_boxed_slice();
    &mut list[at]
}

/// Removes and returns all epochs before the first one that is kept.
fn take_before<T>(list: &mut Box<[T]>, is_kept: impl Fn(&T) -> bool) -> Vec<T> {
    let mut epochs = core::mem::take(list).into_vec();
    let keep = epochs.iter().position(is_kept).unwrap_or(epochs.len());
    let kept = epochs.split_off(keep);
    *list = kept.into_boxed_slice();
    epochs
}
