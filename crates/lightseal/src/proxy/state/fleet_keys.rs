//! What all nodes of a fleet know, and nobody else.

use crate::proxy::routing::ids::IdForm;
use hkdf::Hkdf;
use sha2::Sha256;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The fleet's secret, from which keys are derived. It is in the store, sealed.
pub(crate) struct FleetKeys {
    secret: Zeroizing<[u8; 32]>,
    form: Arc<IdForm>,
}

impl FleetKeys {
    /// The keys of a fleet. Its connection IDs show their slots to everybody, unless they are
    /// scrambled.
    pub(super) fn new(secret: Zeroizing<[u8; 32]>, scrambles_ids: bool) -> Self {
        let mut keys = Self { secret, form: Arc::new(IdForm::Clear) };
        if scrambles_ids {
            let mut key = Zeroizing::new([0; 16]);
            keys.derive(&[b"lightseal fleet: connection IDs"], &mut *key);
            keys.form = Arc::new(IdForm::scrambled(&key));
        }
        keys
    }

    fn derive(&self, info: &[&[u8]], out: &mut [u8]) {
        let hkdf = Hkdf::<Sha256>::new(None, &*self.secret);
        hkdf.expand_multi_info(info, out).expect("as long as a hash value at most");
    }

    /// What connection IDs look like.
    pub(crate) const fn form(&self) -> &Arc<IdForm> {
        &self.form
    }

    /// The secret of datagrams between nodes.
    pub(crate) fn envelopes(&self) -> Zeroizing<[u8; 32]> {
        let mut secret = Zeroizing::new([0; 32]);
        self.derive(&[b"lightseal fleet: datagrams between nodes"], &mut *secret);
        secret
    }

    /// Fills in the secret of a generation of cookies.
    pub(crate) fn cookies(&self, generation: u64, secret: &mut [u8; 32]) {
        self.derive(&[b"lightseal fleet: cookies", &generation.to_be_bytes()], secret);
    }
}

/// Never the secret.
impl std::fmt::Debug for FleetKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_and_generation_has_a_secret_of_its_own() {
        let keys = FleetKeys::new(Zeroizing::new([7; 32]), false);
        let cookies = |generation| {
            let mut secret = [0; 32];
            keys.cookies(generation, &mut secret);
            secret
        };
        assert_eq!(cookies(1), cookies(1));
        assert_ne!(cookies(1), cookies(2));
        assert_ne!(cookies(1), *keys.envelopes());
    }
}
