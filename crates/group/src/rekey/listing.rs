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
use crate::{GroupId, SenderId};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use ed25519_dalek::{Signature, Signer};
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

const DOMAIN: &[u8] = b"lightseal group senders\0";
const LIST: usize = 32;

pub(crate) fn write_senders(
    w: &mut Writer<'_>,
    senders: &BTreeSet<SenderId>,
) -> Result<(), BufferFull> {
    let mut bits = [0_u8; 32];
    for SenderId(id) in senders {
        bits[usize::from(*id) / 8] |= 0x80 >> (id % 8);
    }
    w.bytes(&bits)
}

pub(crate) fn read_senders(r: &mut Reader<'_>) -> Result<BTreeSet<SenderId>, DecodeError> {
    let bits: [u8; 32] = r.array()?;
    let is_set = |id: &u8| bits[usize::from(*id) / 8] & 0x80 >> (id % 8) != 0;
    Ok((0..=u8::MAX).filter(is_set).map(SenderId).collect())
}

fn signed(group: &GroupId, epoch: u64, list: &[u8]) -> Vec<u8> {
    [DOMAIN, &group.0, &epoch.to_be_bytes(), list].concat()
}

impl ControllerSecret {
    /// The record content that lists the active senders of `epoch`.
    pub fn list_of_senders(
        &self,
        group: &GroupId,
        epoch: u64,
        senders: &BTreeSet<SenderId>,
    ) -> Vec<u8> {
        let mut list = [0; LIST];
        write_senders(&mut Writer::new(&mut list), senders).expect("the list has this length");
        let signature = self.0.sign(&signed(group, epoch, &list));
        [&list[..], &signature.to_bytes()].concat()
    }
}

/// The senders in a list whose signature was not checked; `None` if the content is too short.
pub(crate) fn read_unverified(content: &[u8]) -> Option<BTreeSet<SenderId>> {
    let (list, _) = content.split_at_checked(LIST)?;
    read_senders(&mut Reader::new(list)).ok()
}

impl ControllerKey {
    /// The active senders of `epoch`; `None` if the list is not signed by the controller for this
    /// group and epoch.
    pub fn senders(
        &self,
        group: &GroupId,
        epoch: u64,
        content: &[u8],
    ) -> Option<BTreeSet<SenderId>> {
        let (list, signature) = content.split_at_checked(LIST)?;
        let signature = Signature::from_slice(signature).ok()?;
        self.0.verify_strict(&signed(group, epoch, list), &signature).ok()?;
        read_senders(&mut Reader::new(list)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_its_controllers_for_one_epoch_of_one_group() {
        let secret = ControllerSecret::from_seed(&[4; 32]);
        let (group, other) = (GroupId([1; 16]), GroupId([2; 16]));
        let senders: BTreeSet<_> = [0, 7, 254].map(SenderId).into();
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
