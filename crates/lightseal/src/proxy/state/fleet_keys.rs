//! What all nodes of a fleet know, and nobody else.

use crate::proxy::routing::ids::IdForm;
use hkdf::Hkdf;
use lightseal_dtls::TicketSecrets;
use sha2::Sha256;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use zeroize::Zeroizing;

/// How long a generation of tickets lasts: as long as a ticket may live, so that a ticket of the
/// generation before is valid until it expires.
const TICKET_GENERATION: Duration = Duration::from_secs(7 * 24 * 3600);

/// The secrets of tickets that all nodes accept.
#[derive(Debug)]
pub(crate) struct FleetTickets {
    keys: Arc<FleetKeys>,
}

impl FleetTickets {
    pub(crate) const fn new(keys: Arc<FleetKeys>) -> Self {
        Self { keys }
    }

    /// The generation at this time since 1970.
    pub(crate) const fn generation(time: Duration) -> u64 {
        time.as_secs() / TICKET_GENERATION.as_secs()
    }

    fn secret_at(&self, time: Duration, generation: u8, secret: &mut [u8; 32]) -> bool {
        let now = Self::generation(time);
        // The clock of another node may be ahead.
        let known = [now, now.saturating_sub(1), now + 1];
        let Some(of) = known.into_iter().find(|known| *known as u8 == generation) else {
            return false;
        };
        self.keys.tickets(of, secret);
        true
    }
}

impl TicketSecrets for FleetTickets {
    fn secret(&self, generation: u8, secret: &mut [u8; 32]) -> bool {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.secret_at(time, generation, secret)
    }
}

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

    /// Fills in the secret of a generation of tickets.
    fn tickets(&self, generation: u64, secret: &mut [u8; 32]) {
        self.derive(&[b"lightseal fleet: tickets", &generation.to_be_bytes()], secret);
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
        let mut tickets = [0; 32];
        keys.tickets(1, &mut tickets);
        assert_ne!(cookies(1), tickets);
    }

    #[test]
    fn tickets_of_the_generation_before_are_accepted_and_no_older_ones() {
        let keys = Arc::new(FleetKeys::new(Zeroizing::new([7; 32]), false));
        let tickets = FleetTickets::new(keys);
        let at = |generation: u32| TICKET_GENERATION * generation;
        let secret = |time, generation: u32| {
            let mut secret = [0; 32];
            tickets.secret_at(time, generation as u8, &mut secret).then_some(secret)
        };
        let then = secret(at(3000), 3000);
        assert!(then.is_some());
        for now in [2999, 3000, 3001] {
            assert_eq!(secret(at(now), 3000), then, "{now}");
        }
        for now in [2998, 3002] {
            assert_eq!(secret(at(now), 3000), None, "{now}");
        }
        assert_ne!(secret(at(3000), 3001), then);
    }
}
