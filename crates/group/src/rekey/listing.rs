//! The controller's signed list of active senders (Axiom, section 5.3).
//!
//! ```text
//! content:   senders (32): a bit for each SenderID, 0 the highest ‖ signature (64)
//! signature: Ed25519 over "lightseal group senders" ‖ 0 ‖ group ‖ epoch (8) ‖ senders
//! ```
//!
//! The list changes only when an epoch begins, and is announced in that epoch, so a replayed list
//! is never outdated.

use super::message::{ControllerKey, ControllerSecret};
use crate::{GroupId, SenderSet};
use alloc::vec::Vec;
use ed25519_dalek::Signer;

const DOMAIN: &[u8] = b"lightseal group senders\0";

impl ControllerSecret {
    /// The record content that lists the active senders of `epoch`.
    pub fn list_of_senders(&self, group: &GroupId, epoch: u64, senders: &SenderSet) -> Vec<u8> {
        let list = senders.as_bytes();
        let signed = [DOMAIN, &group.0, &epoch.to_be_bytes(), list].concat();
        let signature = self.0.sign(&signed);
        [&list[..], &signature.to_bytes()].concat()
    }
}

/// The senders in a list whose signature was not checked; `None` if the content is too short.
pub(crate) fn read_unverified(content: &[u8]) -> Option<SenderSet> {
    content.first_chunk().map(|list| SenderSet::from_bytes(*list))
}

impl ControllerKey {
    /// The active senders of `epoch`; `None` if the list is not signed by the controller for this
    /// group and epoch.
    pub fn senders(&self, group: &GroupId, epoch: u64, content: &[u8]) -> Option<SenderSet> {
        let (list, signature) = content.split_first_chunk()?;
        let signed = [DOMAIN, &group.0, &epoch.to_be_bytes(), list];
        let is_signed = self.has_signed(&signed, signature.try_into().ok()?);
        is_signed.then(|| SenderSet::from_bytes(*list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SenderId;

    #[test]
    fn a_list_is_its_controllers_for_one_epoch_of_one_group() {
        let secret = ControllerSecret::from_seed(&[4; 32]);
        let (group, other) = (GroupId([1; 16]), GroupId([2; 16]));
        let senders: SenderSet = [0, 7, 254].map(SenderId).into();
        let content = secret.list_of_senders(&group, 7, &senders);
        assert_eq!(content.len(), 96);
        let key = secret.public();
        assert_eq!(key.senders(&group, 7, &content), Some(senders));
        assert_eq!(key.senders(&group, 8, &content), None);
        assert_eq!(key.senders(&other, 7, &content), None);
        assert_eq!(
            ControllerSecret::from_seed(&[5; 32]).public().senders(&group, 7, &content),
            None
        );
        for at in 0..content.len() {
            let mut wrong = content.clone();
            wrong[at] ^= 1;
            assert_eq!(key.senders(&group, 7, &wrong), None, "{at}");
            assert_eq!(key.senders(&group, 7, &content[..at]), None, "{at}");
        }
    }
}
