//! Key wrapping, and the derivation of keys from a node's key.
//!
//! ```text
//! secret    = HKDF-Extract(salt = "lightseal lkh" ‖ group, node key)
//! KEK       = HKDF-Expand-Label(secret, "ls lkh kek", node (4) ‖ new epoch (8), 16)
//! wrap      = AES-KW(KEK, new key)                                 24 bytes (RFC 3394)
//! epoch key = HKDF-Expand-Label(secret of the root, "ls lkh root", epoch (8), 16)
//! ```
//!
//! Expand-Label is the one of [`lightseal_dtls::crypto::TrafficSecret`], with the prefix `dtls13`. It needs a
//! secret of 32 bytes, therefore Extract comes first. The node in the label is the node whose key
//! wraps. Each key wraps at most one other key in an epoch.

use aes::Aes128;
use aes::cipher::KeyInit;
use aes_kw::AesKw;
use lightseal_dtls::crypto::{Sha256, TrafficSecret};
use zeroize::Zeroizing;

use super::node::{EpochKey, KEY, Node, NodeKey};
use crate::GroupId;

/// The length of a wrapped key in bytes.
pub const WRAPPED: usize = KEY + 8;

const SALT: &[u8] = b"lightseal lkh";

/// A wrapped key could not be unwrapped: it was altered, or the wrapping key is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongKey;

fn secret(group: &GroupId, key: &NodeKey) -> TrafficSecret {
    let mut salt = [0; SALT.len() + 16];
    salt[..SALT.len()].copy_from_slice(SALT);
    salt[SALT.len()..].copy_from_slice(&group.0);
    TrafficSecret::extract(&Sha256, &salt, key.as_bytes())
}

fn cipher(group: &GroupId, epoch: u64, node: Node, key: &NodeKey) -> AesKw<Aes128> {
    let mut context = [0; 12];
    context[..4].copy_from_slice(&node.to_bytes());
    context[4..].copy_from_slice(&epoch.to_be_bytes());
    let mut kek = Zeroizing::new([0; KEY]);
    secret(group, key).expand("ls lkh kek", &context, &mut *kek);
    AesKw::new(&(*kek).into())
}

/// Wraps `new` under `key`, the key of `node`, for the rekey to `epoch`.
pub fn wrap(
    group: &GroupId,
    epoch: u64,
    node: Node,
    key: &NodeKey,
    new: &NodeKey,
) -> [u8; WRAPPED] {
    let mut out = [0; WRAPPED];
    cipher(group, epoch, node, key)
        .wrap_key(new.as_bytes(), &mut out)
        .expect("two blocks and room for three");
    out
}

/// Unwraps a key that was wrapped by [`wrap`].
///
/// # Errors
/// The integrity check failed.
pub fn unwrap(
    group: &GroupId,
    epoch: u64,
    node: Node,
    key: &NodeKey,
    wrapped: &[u8; WRAPPED],
) -> Result<NodeKey, WrongKey> {
    let mut out = Zeroizing::new([0; KEY]);
    cipher(group, epoch, node, key).unwrap_key(wrapped, &mut *out).map_err(|_| WrongKey)?;
    Ok(NodeKey::new(*out))
}

/// Derives the root key of `epoch` from the key at the root of the tree.
pub fn epoch_key(group: &GroupId, epoch: u64, root: &NodeKey) -> EpochKey {
    let mut key = EpochKey([0; KEY]);
    secret(group, root).expand("ls lkh root", &epoch.to_be_bytes(), &mut key.0);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrap_is_bound_to_all_it_is_made_of() {
        let group = GroupId([7; 16]);
        let [node, other] = [Node::new(2, 1).unwrap(), Node::new(1, 2).unwrap()];
        let [key, new] = [NodeKey::new([1; 16]), NodeKey::new([2; 16])];
        let wrapped = wrap(&group, 5, node, &key, &new);
        assert_eq!(unwrap(&group, 5, node, &key, &wrapped).unwrap().as_bytes(), new.as_bytes());
        let open = |group, epoch, node, key: &_, wrapped: &_| {
            unwrap(group, epoch, node, key, wrapped).map(|_| ())
        };
        assert_eq!(open(&GroupId([8; 16]), 5, node, &key, &wrapped), Err(WrongKey));
        assert_eq!(open(&group, 6, node, &key, &wrapped), Err(WrongKey));
        assert_eq!(open(&group, 5, other, &key, &wrapped), Err(WrongKey));
        assert_eq!(open(&group, 5, node, &new, &wrapped), Err(WrongKey));
        for bit in 0..8 * WRAPPED {
            let mut bad = wrapped;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&group, 5, node, &key, &bad), Err(WrongKey), "bit {bit}");
        }
    }

    /// RFC 3394, section 4.1: a test vector for AES key wrap.
    #[test]
    fn vector_of_rfc_3394() {
        let kek: [u8; 16] = core::array::from_fn(|i| i as u8);
        let data = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        let mut out = [0; WRAPPED];
        AesKw::<Aes128>::new(&kek.into()).wrap_key(&data, &mut out).unwrap();
        let expected = [
            0x1f, 0xa6, 0x8b, 0x0a, 0x81, 0x12, 0xb4, 0x47, 0xae, 0xf3, 0x4b, 0xd8, 0xfb, 0x5a,
            0x7b, 0x82, 0x9d, 0x3e, 0x86, 0x23, 0x71, 0xd2, 0xcf, 0xe5,
        ];
        assert_eq!(out, expected);
    }
}
