//! The secrets under which all workers of a process make tickets, so that a client that comes again is
//! resumed by whichever of them it meets. They end with the process, as a lone worker's do, and each of
//! them after two days: who reads the memory later opens no older ticket.

use lightseal_core::Random;
use lightseal_dtls::TicketSecrets;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long a generation of the secret makes tickets, which live as long at most (24 hours unless a
/// setting says less).
const GENERATION: Duration = Duration::from_secs(24 * 3600);

pub(super) struct WorkerTickets(Mutex<Secrets>);

struct Secrets {
    /// The number of the newest generation, and when it began.
    generation: u64,
    began: Instant,
    rng: Random,
    newest: Zeroizing<[u8; 32]>,
    /// The secret of the generation before.
    former: Option<Zeroizing<[u8; 32]>>,
}

impl WorkerTickets {
    pub(super) fn new(mut rng: Random) -> Self {
        let newest = Zeroizing::new(rng.array());
        let began = Instant::now();
        Self(Mutex::new(Secrets { generation: 0, began, rng, newest, former: None }))
    }

    fn lock(&self) -> MutexGuard<'_, Secrets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The generation in which tickets are made now. A new one begins when the time of the last has
    /// passed.
    pub(super) fn generation(&self) -> u64 {
        let mut secrets = self.lock();
        if secrets.began.elapsed() >= GENERATION {
            secrets.advance();
        }
        secrets.generation
    }
}

impl Secrets {
    fn advance(&mut self) {
        let newest = Zeroizing::new(self.rng.array());
        self.former = Some(std::mem::replace(&mut self.newest, newest));
        self.generation += 1;
        self.began = Instant::now();
    }
}

impl TicketSecrets for WorkerTickets {
    fn secret(&self, generation: u8, secret: &mut [u8; 32]) -> bool {
        let secrets = self.lock();
        let known = match secrets.generation as u8 {
            newest if newest == generation => Some(&secrets.newest),
            newest if newest.wrapping_sub(1) == generation => secrets.former.as_ref(),
            _ => None,
        };
        if let Some(known) = known {
            *secret = **known;
        }
        known.is_some()
    }
}

/// Never the secret.
impl fmt::Debug for WorkerTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerTickets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_for_two_generations_and_no_longer() {
        let tickets = WorkerTickets::new(Random::insecure(1));
        let secret = |generation| {
            let mut secret = [0; 32];
            tickets.secret(generation, &mut secret).then_some(secret)
        };
        let mut former = None;
        for generation in 0..600_u32 {
            let [now, before, older] = [0, 1, 2].map(|ago| generation.wrapping_sub(ago) as u8);
            assert!(secret(now).is_some() && secret(now) != former);
            assert_eq!(secret(before), former);
            assert_eq!(secret(older), None);
            assert_eq!(tickets.generation(), u64::from(generation));
            former = secret(now);
            tickets.lock().advance();
        }
    }
}
