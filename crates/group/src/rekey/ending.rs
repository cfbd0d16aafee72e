//! The signed ChangeCipherSpec by which a controller ends an epoch at once.
//!
//! ```text
//! content of a ChangeCipherSpec: 1 (1) ‖ signature (64)
//! signature: Ed25519 over "lightseal group change" ‖ 0 ‖ group (16) ‖ epoch (8): the ending one
//! ```
//!
//! Every member can seal a record under the controller's SenderID. Therefore the content itself is
//! signed, as in rekey messages, even if the policy does not require signatures on other records.

use super::message::{ControllerKey, ControllerSecret};
use crate::GroupId;
use alloc::vec::Vec;
use ed25519_dalek::Signer;

const DOMAIN: &[u8] = b"lightseal group change\0";
/// The first byte of every ChangeCipherSpec (RFC 5246, section 7.1).
const CHANGE: u8 = 1;

impl ControllerSecret {
    /// The content that ends `epoch`, to be sent in a record of that epoch.
    pub fn end_of_epoch(&self, group: &GroupId, epoch: u64) -> Vec<u8> {
        let signature = self.0.sign(&[DOMAIN, &group.0, &epoch.to_be_bytes()].concat());
        [&[CHANGE][..], &signature.to_bytes()].concat()
    }
}

impl ControllerKey {
    /// Whether `content` is the controller's signed end of `epoch`.
    pub fn ends(&self, group: &GroupId, epoch: u64, content: &[u8]) -> bool {
        let Some((&CHANGE, signature)) = content.split_first() else { return false };
        let Ok(signature) = signature.try_into() else { return false };
        self.has_signed(&[DOMAIN, &group.0, &epoch.to_be_bytes()], signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_epoch_of_one_group_is_ended_by_its_controller() {
        let secret = ControllerSecret::from_seed(&[4; 32]);
        let (group, other) = (GroupId([1; 16]), GroupId([2; 16]));
        let content = secret.end_of_epoch(&group, 7);
        assert!(secret.public().ends(&group, 7, &content));
        assert!(!secret.public().ends(&group, 8, &content));
        assert!(!secret.public().ends(&other, 7, &content));
        assert!(!ControllerSecret::from_seed(&[5; 32]).public().ends(&group, 7, &content));
        for wrong in [&content[..64], &content[1..], &[CHANGE], &[]] {
            assert!(!secret.public().ends(&group, 7, wrong));
        }
    }
}
