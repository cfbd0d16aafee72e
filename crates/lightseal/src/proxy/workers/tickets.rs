//! The secret under which all workers of a process make tickets, so that a client that comes again is
//! resumed by whichever of them it meets. It ends with the process, as a lone worker's does.

use lightseal_core::Random;
use lightseal_dtls::TicketSecrets;
use std::fmt;
use std::io;
use zeroize::Zeroizing;

pub(super) struct WorkerTickets(Zeroizing<[u8; 32]>);

/// The only generation of the secret.
pub(super) const GENERATION: u8 = 0;

impl WorkerTickets {
    pub(super) fn new() -> io::Result<Self> {
        let mut secret = Zeroizing::new([0; 32]);
        Random::from_os().map_err(io::Error::other)?.fill(&mut *secret);
        Ok(Self(secret))
    }
}

impl TicketSecrets for WorkerTickets {
    fn secret(&self, generation: u8, secret: &mut [u8; 32]) -> bool {
        *secret = *self.0;
        generation == GENERATION
    }
}

/// Never the secret.
impl fmt::Debug for WorkerTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerTickets").finish_non_exhaustive()
    }
}
