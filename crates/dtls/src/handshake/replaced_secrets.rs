//! The secrets of receiving epochs that were replaced.

use crate::crypto::TrafficSecret;
use alloc::vec::Vec;
use core::fmt;

/// The receiving secrets of DTLS 1.3 whose epochs were replaced and are still read, oldest first. The
/// newest secret is not among them.
#[derive(Default)]
pub(crate) struct ReplacedSecrets(Vec<(u64, TrafficSecret)>);

impl ReplacedSecrets {
    /// Adds the secret of an epoch, which is newer than all others.
    pub(super) fn keep(&mut self, epoch: u64, secret: &TrafficSecret) {
        self.0.reserve_exact(1);
        self.0.push((epoch, secret.copy()));
    }

    /// Erases the secrets of all epochs before `epoch`. Returns whether none is left.
    pub(super) fn forget_before(&mut self, epoch: u64) -> bool {
        self.0.retain(|(old, _)| *old >= epoch);
        self.0.is_empty()
    }

    /// The secret of this epoch.
    pub(crate) fn secret(&self, epoch: u64) -> Option<&TrafficSecret> {
        self.0.iter().find(|(kept, _)| *kept == epoch).map(|(_, secret)| secret)
    }
}

impl fmt::Debug for ReplacedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(epoch, _)| epoch)).finish()
    }
}
