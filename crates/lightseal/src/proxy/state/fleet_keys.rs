//! What all nodes of a fleet know, and nobody else.

use crate::proxy::routing::ids::IdForm;
use hkdf::Hkdf;
use lightseal_dtls::TicketSecrets;
use sha2::Sha256;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use zeroize::Zeroizing;

/// How long a generation of tickets lasts: as long as a ticket may live, so that a ticket of the
/// generation before is valid until it expires.
const TICKET_GENERATION: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a generation of cookies lasts that all nodes of a fleet make.
pub(crate) const COOKIE_GENERATION: Duration = Duration::from_secs(60);

/// What a ticket is marked with: two bits of the week, two of the secret's number, and the worker of the
/// node that made it. Only few weeks and secrets are known at a time.
const KNOWN_BITS: u32 = 2;

/// The most workers of a node: there are as many marks for them.
pub(crate) const MOST_WORKERS: u8 = 1 << (u8::BITS - 2 * KNOWN_BITS);

/// A secret of the fleet, from which keys are derived.
pub(super) struct FleetSecret {
    /// How many secrets there were before it.
    pub(super) number: i32,
    /// When nodes begin to use it, in seconds since 1970. Until then they use the one before.
    pub(super) begins: u64,
    pub(super) secret: Zeroizing<[u8; 32]>,
}

impl FleetSecret {
    fn derive(&self, info: &[&[u8]], out: &mut [u8]) {
        let hkdf = Hkdf::<Sha256>::new(None, &*self.secret);
        hkdf.expand_multi_info(info, out).expect("as long as a hash value at most");
    }

    fn envelopes(&self) -> Zeroizing<[u8; 32]> {
        let mut secret = Zeroizing::new([0; 32]);
        self.derive(&[b"lightseal fleet: datagrams between nodes"], &mut *secret);
        secret
    }

    /// What tickets made under this secret in a week are marked with, beside the worker.
    const fn ticket_mark(&self, week: u64) -> u8 {
        let mask = (1 << KNOWN_BITS) - 1;
        (self.number as u8 & mask) << KNOWN_BITS | week as u8 & mask
    }
}

/// The secrets of tickets that all nodes accept.
#[derive(Debug)]
pub(crate) struct FleetTickets {
    keys: Arc<FleetKeys>,
}

impl FleetTickets {
    pub(crate) const fn new(keys: Arc<FleetKeys>) -> Self {
        Self { keys }
    }

    /// The generation at this time since 1970, and the worker that makes tickets in it.
    pub(crate) fn generation(&self, time: Duration, worker: usize) -> u8 {
        let mark = self.keys.with_current(time, |current| current.ticket_mark(week(time)));
        (worker as u8) << (2 * KNOWN_BITS) | mark
    }

    fn secret_at(&self, time: Duration, generation: u8, secret: &mut [u8; 32]) -> bool {
        let now = week(time);
        let mark = generation & ((1 << (2 * KNOWN_BITS)) - 1);
        // The clock of another node may be ahead.
        let weeks = [now, now.saturating_sub(1), now + 1];
        let secrets = self.keys.secrets.read().unwrap_or_else(PoisonError::into_inner);
        for of in secrets.iter().rev() {
            if let Some(week) = weeks.into_iter().find(|week| of.ticket_mark(*week) == mark) {
                of.derive(&[b"lightseal fleet: tickets", &week.to_be_bytes()], secret);
                return true;
            }
        }
        false
    }
}

const fn week(time: Duration) -> u64 {
    time.as_secs() / TICKET_GENERATION.as_secs()
}

impl TicketSecrets for FleetTickets {
    fn secret(&self, generation: u8, secret: &mut [u8; 32]) -> bool {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.secret_at(time, generation, secret)
    }
}

/// Which secrets are in use at a time: the number of the current one, and of the first and the last
/// one that are known.
pub(crate) type InUse = (i32, i32, i32);

/// The fleet's secrets, from which keys are derived. They are in the store, sealed. One is used, those
/// before it are accepted while something made under them may be in use, and those after it as soon as
/// they are known.
pub(crate) struct FleetKeys {
    /// In the order of their numbers; never empty.
    secrets: RwLock<Vec<FleetSecret>>,
    form: Arc<IdForm>,
}

impl FleetKeys {
    /// The keys of a fleet. Its connection IDs show their slots to everybody, unless they are
    /// scrambled. As associations keep their IDs, the first secret scrambles them all.
    pub(super) fn new(secrets: Vec<FleetSecret>, scrambles_ids: bool) -> Self {
        let mut form = IdForm::Clear;
        if let Some(first) = secrets.first().filter(|_| scrambles_ids) {
            let mut key = Zeroizing::new([0; 16]);
            first.derive(&[b"lightseal fleet: connection IDs"], &mut *key);
            form = IdForm::scrambled(&key);
        }
        Self { secrets: RwLock::new(secrets), form: Arc::new(form) }
    }

    /// These are the secrets from now on, in the order of their numbers.
    pub(super) fn learn(&self, secrets: Vec<FleetSecret>) {
        if !secrets.is_empty() {
            *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        }
    }

    /// The numbers of the secrets that are known.
    pub(super) fn numbers(&self) -> Vec<i32> {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        secrets.iter().map(|of| of.number).collect()
    }

    /// Calls `act` with the secret that is used at this time since 1970.
    fn with_current<T>(&self, time: Duration, act: impl FnOnce(&FleetSecret) -> T) -> T {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let begun = secrets.iter().rev().find(|of| of.begins <= time.as_secs());
        act(begun.or(secrets.first()).expect("there is always one"))
    }

    /// Which secrets are in use at this time since 1970.
    pub(crate) fn in_use(&self, time: Duration) -> InUse {
        let current = self.with_current(time, |current| current.number);
        let numbers = self.numbers();
        let ends = [numbers.first(), numbers.last()].map(|end| end.copied().unwrap_or(current));
        (current, ends[0], ends[1])
    }

    /// What connection IDs look like.
    pub(crate) const fn form(&self) -> &Arc<IdForm> {
        &self.form
    }

    /// The secrets of datagrams between nodes at this time since 1970: first the one that is used, then
    /// those that are accepted.
    pub(crate) fn envelopes(&self, time: Duration) -> Vec<Zeroizing<[u8; 32]>> {
        let current = self.with_current(time, |current| current.number);
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let (used, others): (Vec<_>, Vec<_>) = secrets.iter().partition(|of| of.number == current);
        used.into_iter().chain(others).map(FleetSecret::envelopes).collect()
    }

    /// Fills in the secret of a generation of cookies.
    pub(crate) fn cookies(&self, generation: u64, secret: &mut [u8; 32]) {
        let began = COOKIE_GENERATION.saturating_mul(generation.try_into().unwrap_or(u32::MAX));
        let info = [&b"lightseal fleet: cookies"[..], &generation.to_be_bytes()];
        self.with_current(began, |current| current.derive(&info, secret));
    }
}

/// Never the secrets.
impl std::fmt::Debug for FleetKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(begins: &[u64]) -> FleetKeys {
        let secret = |(number, begins): (i32, &u64)| FleetSecret {
            number,
            begins: *begins,
            secret: Zeroizing::new([7 + number as u8; 32]),
        };
        FleetKeys::new((0..).zip(begins).map(secret).collect(), false)
    }

    fn cookies(keys: &FleetKeys, generation: u64) -> [u8; 32] {
        let mut secret = [0; 32];
        keys.cookies(generation, &mut secret);
        secret
    }

    #[test]
    fn each_purpose_and_generation_has_a_secret_of_its_own() {
        let keys = Arc::new(keys(&[0]));
        assert_eq!(cookies(&keys, 1), cookies(&keys, 1));
        assert_ne!(cookies(&keys, 1), cookies(&keys, 2));
        assert_ne!(cookies(&keys, 1), *keys.envelopes(Duration::ZERO)[0]);
        let (tickets, mut secret) = (FleetTickets::new(Arc::clone(&keys)), [0; 32]);
        assert!(tickets.secret_at(TICKET_GENERATION, 1, &mut secret));
        assert_ne!(cookies(&keys, 1), secret);
    }

    #[test]
    fn tickets_of_the_generation_before_are_accepted_and_no_older_ones() {
        let tickets = FleetTickets::new(Arc::new(keys(&[0])));
        let at = |generation: u32| TICKET_GENERATION * generation;
        let secret = |time, generation: u32| {
            let (mark, mut secret) = (tickets.generation(at(generation), 0), [0; 32]);
            tickets.secret_at(time, mark, &mut secret).then_some(secret)
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
        // Each worker makes tickets under a mark of its own, and all of them open all.
        let (first, last) = (0, usize::from(MOST_WORKERS) - 1);
        let marks = [first, last].map(|worker| tickets.generation(at(3000), worker));
        assert_ne!(marks[0], marks[1]);
        let mut of_last = [0; 32];
        assert!(tickets.secret_at(at(3001), marks[1], &mut of_last) && Some(of_last) == then);
    }

    #[test]
    fn a_new_secret_is_used_from_its_time_on_and_both_are_accepted() {
        let week = TICKET_GENERATION * 3000;
        // In the middle of a week, and at the beginning of a minute.
        let begins = week.as_secs() + 600;
        let (before, after) = (week + Duration::from_secs(599), week + Duration::from_secs(600));
        let former = Arc::new(keys(&[0]));
        let both = Arc::new(keys(&[0, begins]));
        assert_eq!((both.in_use(before), both.in_use(after)), ((0, 0, 1), (1, 0, 1)));
        assert_eq!(both.envelopes(before)[0], former.envelopes(after)[0]);
        let reversed: Vec<_> = both.envelopes(before).into_iter().rev().collect();
        assert_eq!(both.envelopes(after), reversed);
        let minute = begins / 60;
        assert_eq!(cookies(&both, minute - 1), cookies(&former, minute - 1));
        assert_ne!(cookies(&both, minute), cookies(&former, minute));
        // Tickets of one week under two secrets have different names, and both are opened.
        let (old, new) = (FleetTickets::new(former), FleetTickets::new(both));
        let [issued, next] = [old.generation(before, 0), new.generation(after, 0)];
        assert_ne!(issued, next);
        let open = |tickets: &FleetTickets, generation| {
            let mut secret = [0; 32];
            tickets.secret_at(after, generation, &mut secret).then_some(secret)
        };
        assert_eq!(open(&new, issued), open(&old, issued));
        assert!(open(&new, next).is_some() && open(&new, next) != open(&new, issued));
        assert_eq!(open(&old, next), None);
        // A node that hears of it late switches then.
        old.keys.learn(vec![FleetSecret { number: 1, begins, secret: Zeroizing::new([8; 32]) }]);
        assert_eq!(old.keys.in_use(after), (1, 1, 1));
        assert_eq!(open(&old, issued), None);
    }
}
