//! The secrets of cookies and tickets that a worker shares with others: the nodes of a fleet share both,
//! the workers of a process tickets.

use super::host::ServerHost;
use crate::proxy::state::{COOKIE_GENERATION, FleetKeys, FleetTickets};
use lightseal_core::Instant;
use lightseal_dtls::{Endpoint, TicketSecrets};
use std::sync::Arc;
use std::time::SystemTime;

impl ServerHost {
    /// Has the endpoint make cookies and tickets of the current generations.
    pub(super) fn share_secrets(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let of_fleet = self
            .common
            .state()
            .as_ref()
            .and_then(|state| Some((Arc::clone(state.keys()?), state.incarnation())));
        match of_fleet {
            Some((keys, incarnation)) => self.share_with_fleet(endpoint, now, keys, incarnation),
            None => {
                if let Some((tickets, generation)) = self.workers.tickets() {
                    let name = (generation as u8, self.number as u32);
                    self.share_tickets(endpoint, tickets, generation, name);
                }
            }
        }
    }

    fn share_with_fleet(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        keys: Arc<FleetKeys>,
        incarnation: u32,
    ) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let in_use = keys.in_use(time);
        if self.generations.secrets.replace(in_use) != Some(in_use) {
            (self.generations.cookies, self.generations.tickets) = (None, None);
            if let Some(router) = &self.options.router {
                router.set_secrets(&keys.envelopes(time));
            }
        }
        let generation = time.as_secs() / COOKIE_GENERATION.as_secs();
        if self.generations.cookies.replace(generation) != Some(generation) {
            endpoint.share_cookies(now, generation, |of, secret| keys.cookies(of, secret));
        }
        let secrets = FleetTickets::new(keys);
        let generation = secrets.generation(time, self.number);
        let name = (generation, incarnation);
        self.share_tickets(endpoint, Arc::new(secrets), generation.into(), name);
    }

    /// Has the endpoint make tickets of a generation, under a name that no other endpoint has.
    fn share_tickets(
        &mut self,
        endpoint: &mut Endpoint,
        secrets: Arc<dyn TicketSecrets>,
        generation: u64,
        (name, process): (u8, u32),
    ) {
        if self.generations.tickets.replace(generation) == Some(generation) {
            return;
        }
        if let Err(error) = endpoint.share_tickets(secrets, name, process) {
            tracing::warn!("tickets are this node's alone: {error}");
        }
    }
}
