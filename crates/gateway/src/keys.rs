//! The key schedule of a tunnel between two gateways.
//!
//! ```text
//! R, exported from the management channel (EXPORTER-lightseal-tunnel)
//!   └ Extract(nonce of the proposer ‖ nonce of the answerer, R) ─► EpochSecret
//!        ├ "ls tun key" (sender ‖ receiver ‖ epoch ‖ lane)   an AES-256-GCM key
//!        ├ "ls tun iv"  (sender ‖ receiver ‖ epoch ‖ lane)   its 12-byte IV
//!        └ a label of the scheme (sender ‖ receiver ‖ epoch)  keys of a scheme's own cipher
//! ```
//!
//! No two lanes, directions, peers or epochs share a key. A lane's own packet counter therefore
//! suffices to make its nonces unique.

use core::fmt;
use hkdf::Hkdf;
use lightseal_macsec::crypto::{Gcm, GcmProvider};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The prefix of every label: that of DTLS 1.3 (RFC 9147, section 5.9), without a space at the end.
const LABEL_PREFIX: &[u8] = b"dtls13";

/// The identity of a gateway: its public key, or the hash of a public key that is longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayId(pub [u8; 32]);

/// The secret from which all keys between two gateways in one epoch are derived.
#[derive(Clone, ZeroizeOnDrop)]
pub struct EpochSecret([u8; 32]);

/// The key and IV of one lane in one direction.
pub struct LaneKey {
    key: Zeroizing<[u8; 32]>,
    iv: [u8; 12],
}

impl EpochSecret {
    /// The secret of an epoch, from the value that was exported from the management channel and a
    /// fresh nonce of each gateway: that of the proposer, and that of the answerer.
    pub fn new(exported: &[u8; 32], proposer: &[u8; 32], answerer: &[u8; 32]) -> Self {
        let mut nonces = [0; 64];
        nonces[..32].copy_from_slice(proposer);
        nonces[32..].copy_from_slice(answerer);
        let (secret, _) = Hkdf::<Sha256>::extract(Some(&nonces), exported);
        Self(secret.into())
    }

    /// The key with which `lane` of `sender` seals datagrams for `receiver` in `epoch`.
    pub fn lane_key(
        &self,
        sender: &GatewayId,
        receiver: &GatewayId,
        epoch: u32,
        lane: u8,
    ) -> LaneKey {
        let mut context = [0; 69];
        context[..32].copy_from_slice(&sender.0);
        context[32..64].copy_from_slice(&receiver.0);
        context[64..68].copy_from_slice(&epoch.to_be_bytes());
        context[68] = lane;
        let mut lane_key = LaneKey { key: Zeroizing::new([0; 32]), iv: [0; 12] };
        self.expand_label(b"ls tun key", &context, &mut *lane_key.key);
        self.expand_label(b"ls tun iv", &context, &mut lane_key.iv);
        lane_key
    }

    /// Fills `out` with HKDF-Expand-Label of this secret (RFC 8446, section 7.1).
    fn expand_label(&self, label: &[u8], context: &[u8], out: &mut [u8]) {
        // Labels with their prefix and contexts have at most 70 bytes, and keys have 64.
        let [label_len, context_len, out_len] =
            [LABEL_PREFIX.len() + label.len(), context.len(), out.len()].map(|len| len as u8);
        let info: [&[u8]; 5] =
            [&[0, out_len, label_len], LABEL_PREFIX, label, &[context_len], context];
        let hkdf = Hkdf::<Sha256>::from_prk(&self.0).expect("the secret is as long as the hash");
        hkdf.expand_multi_info(&info, out).expect("keys are short");
    }
}

/// The secret of one direction in one epoch, from which a scheme derives the keys of a cipher of its
/// own (see [`Scheme::cipher`](crate::schemes::Scheme::cipher)).
#[derive(Debug)]
pub struct DirectionSecret<'a> {
    secret: &'a EpochSecret,
    context: [u8; 68],
}

impl<'a> DirectionSecret<'a> {
    /// The secret for what `sender` sends to `receiver` in `epoch`.
    pub fn new(
        secret: &'a EpochSecret,
        sender: &GatewayId,
        receiver: &GatewayId,
        epoch: u32,
    ) -> Self {
        let mut context = [0; 68];
        context[..32].copy_from_slice(&sender.0);
        context[32..64].copy_from_slice(&receiver.0);
        context[64..].copy_from_slice(&epoch.to_be_bytes());
        Self { secret, context }
    }

    /// The key of `N` bytes under `label`.
    ///
    /// # Panics
    /// If the label or the key is longer than 64 bytes.
    pub fn derive<const N: usize>(&self, label: &[u8]) -> Zeroizing<[u8; N]> {
        assert!(label.len() <= 64 && N <= 64, "labels and keys have at most 64 bytes");
        let mut key = Zeroizing::new([0; N]);
        self.secret.expand_label(label, &self.context, &mut *key);
        key
    }
}

impl LaneKey {
    /// The cipher under this key, and the IV.
    pub fn cipher(&self, provider: &GcmProvider) -> (Box<dyn Gcm>, [u8; 12]) {
        ((provider.aes_256)(&self.key), self.iv)
    }

    /// The key and the IV, for test vectors.
    pub fn expose(&self) -> (&[u8; 32], &[u8; 12]) {
        (&self.key, &self.iv)
    }
}

impl Drop for LaneKey {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

impl fmt::Debug for EpochSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EpochSecret(..)")
    }
}

impl fmt::Debug for LaneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> [u8; 32] {
        core::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    /// The expected values are those of the tests of `lightseal-dtls`, from `known_answers.py` and
    /// from RFC 8448, section 3.
    #[test]
    fn extraction_and_labels_are_those_of_dtls_1_3() {
        let early = EpochSecret::new(&[0; 32], &[0; 32], &[0; 32]);
        let of_rfc_8448 = "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a";
        assert_eq!(early.0, bytes(of_rfc_8448));
        let client = "48dfd465c37c3bff7ad193284da29fa1f73cc24f3b700ff17661e6f3bb6089f7";
        let client_after_update =
            "0fa3d547b6933aee6e4d9164fa59053008d68fd1b05894c4be21d1f2d105770a";
        let mut next = [0; 32];
        EpochSecret(bytes(client)).expand_label(b"traffic upd", &[], &mut next);
        assert_eq!(next, bytes(client_after_update));
    }

    #[test]
    fn whatever_differs_gives_other_keys() {
        let secret = EpochSecret::new(&[1; 32], &[2; 32], &[3; 32]);
        let (a, b) = (GatewayId([4; 32]), GatewayId([5; 32]));
        let keys = [
            secret.lane_key(&a, &b, 1, 0),
            secret.lane_key(&b, &a, 1, 0),
            secret.lane_key(&a, &b, 2, 0),
            secret.lane_key(&a, &b, 1, 1),
            EpochSecret::new(&[1; 32], &[3; 32], &[2; 32]).lane_key(&a, &b, 1, 0),
            EpochSecret::new(&[9; 32], &[2; 32], &[3; 32]).lane_key(&a, &b, 1, 0),
        ];
        for (at, key) in keys.iter().enumerate() {
            for other in &keys[at + 1..] {
                assert_ne!(key.expose().0, other.expose().0);
                assert_ne!(key.expose().1, other.expose().1);
            }
        }
        assert_eq!(keys[0].expose(), secret.lane_key(&a, &b, 1, 0).expose());
    }
}
