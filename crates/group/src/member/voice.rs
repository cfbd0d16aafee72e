//! Records that a controller sends to its group. The controller is a sender without a leaf in the
//! key tree.

use super::SendError;
use super::epoch::Epoch;
use super::keys::Suite;
use crate::SenderId;
use crate::compact::HeaderForm;
use crate::epoch::EpochUse;
use crate::numbers::Ledger;
use crate::policy::Policy;
use crate::rekey::EpochKey;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::Provider;

/// Seals records under [`SenderId::CONTROLLER`] in the newest epoch.
pub(crate) struct ControllerSealer {
    policy: Policy,
    suite: Suite,
    /// `None` while the group has no members.
    epoch: Option<Epoch>,
}

impl ControllerSealer {
    /// A voice that has not entered an epoch; `None` if `provider` lacks the group's cipher suite.
    pub(crate) fn new(policy: &Policy, provider: &Provider) -> Option<Self> {
        let suite = Suite::of(policy, provider)?;
        Some(Self { policy: policy.clone(), suite, epoch: None })
    }

    /// Seals records in this epoch from now on.
    pub(crate) fn enter(&mut self, epoch: u64, key: Option<&EpochKey>, ledger: &mut dyn Ledger) {
        let policy = (&self.policy, self.suite);
        let enter = |key| {
            Epoch::new(policy, Some(SenderId::CONTROLLER), (epoch, key), EpochUse::New, ledger)
        };
        self.epoch = key.map(enter);
    }

    /// Seals a record into the front of `buf` and returns its length.
    pub(crate) fn seal(
        &mut self,
        kind: ContentType,
        content: &[u8],
        ledger: &mut dyn Ledger,
        buf: &mut [u8],
    ) -> Result<usize, SendError> {
        let epoch = self.epoch.as_mut().ok_or(SendError::Role)?;
        // The content carries the controller's signature, so the record needs none. Number and
        // epoch are written in full: members keep no replay window for the controller, and see from
        // the epoch at once that they have missed a rekey.
        epoch.seal(self.suite, ledger, (kind, content, HeaderForm::Full), None, buf)
    }
}
