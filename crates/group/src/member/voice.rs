//! What a controller says to its group: it is a sender, and has no place in the tree of keys.

use super::SendError;
use super::epoch::Epoch;
use super::keys::Suite;
use crate::SenderId;
use crate::compact::Form;
use crate::numbers::Ledger;
use crate::policy::Policy;
use crate::rekey::EpochKey;
use dtls::codepoints::ContentType;
use dtls::crypto::Provider;

/// Seals records under [`SenderId::CONTROLLER`] in the newest epoch.
pub(crate) struct Voice {
    policy: Policy,
    suite: Suite,
    /// `None` while nobody would hear it.
    epoch: Option<Epoch>,
}

impl Voice {
    /// One that says nothing yet; `None` if `provider` lacks the group's suite.
    pub(crate) fn new(policy: &Policy, provider: &Provider) -> Option<Self> {
        let suite = Suite::of(policy, provider)?;
        Some(Self { policy: policy.clone(), suite, epoch: None })
    }

    /// Speaks in this epoch from now on.
    pub(crate) fn enter(&mut self, epoch: u64, key: Option<&EpochKey>, ledger: &mut dyn Ledger) {
        let policy = (&self.policy, self.suite);
        let enter =
            |key| Epoch::new(policy, Some(SenderId::CONTROLLER), (epoch, key), false, ledger);
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
        // What a controller says proves by itself that it is the controller's. Its number and epoch stand
        // in full: members keep no place in its stream, and see at once that they have missed one.
        epoch.seal(self.suite, ledger, (kind, content, Form::Full), None, buf)
    }
}
