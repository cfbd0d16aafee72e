//! Clients that wait until the server's store knows whether it has their PSK.

use super::hello::{WholeHello, network};
use super::{Admission, Endpoint, Handle};
use crate::connection::Connection;
use crate::handshake::hello_decision::Fingerprint;
use crate::tuning::MAX_WAITING_HELLOS;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::net::{IpAddr, SocketAddr};
use lightseal_core::Instant;

/// A ClientHello of DTLS 1.3 whose PSK is looked up. Its client has proved its address, where
/// cookies are used.
#[derive(Debug)]
struct Waiting {
    from: SocketAddr,
    /// The local address at which the hello arrived.
    local: Option<IpAddr>,
    hello: WholeHello<'static>,
    fingerprint: Fingerprint,
}

/// Clients that wait.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// ClientHellos, oldest first.
    hellos: VecDeque<Waiting>,
    /// Associations: a client of DTLS 1.2 names its identity later.
    associations: BTreeSet<Handle>,
}

impl Lookups {
    /// Keeps a hello. A client has one place: its newest hello takes it. Beyond
    /// [`MAX_WAITING_HELLOS`] clients the oldest hello of the network that has the most is dropped; its
    /// client sends it again. A flood from one network thus displaces no client of another one.
    pub(super) fn wait(
        &mut self,
        from: SocketAddr,
        local: Option<IpAddr>,
        hello: &WholeHello<'_>,
        fingerprint: Fingerprint,
    ) {
        self.hellos.retain(|waiting| waiting.from != from);
        if self.hellos.len() == MAX_WAITING_HELLOS {
            self.displace(from);
        }
        self.hellos.push_back(Waiting { from, local, hello: hello.to_kept(), fingerprint });
    }

    /// Makes a place for a hello from `newest`, which counts among those of its network.
    fn displace(&mut self, newest: SocketAddr) {
        let mut counts = BTreeMap::from([(network(newest), 1)]);
        for waiting in &self.hellos {
            *counts.entry(network(waiting.from)).or_insert(0) += 1;
        }
        let count = |waiting: &Waiting| counts.get(&network(waiting.from));
        let most = self.hellos.iter().filter_map(count).max();
        if let Some(at) = self.hellos.iter().position(|waiting| count(waiting) == most) {
            self.hellos.remove(at);
        }
    }

    /// Notes that an association waits.
    pub(super) fn association_waits(&mut self, handle: Handle) {
        self.associations.insert(handle);
    }
}

impl Endpoint {
    /// Asks the [`PskStore`](crate::PskStore) again for every client for which it answered
    /// [`Lookup::Later`](crate::Lookup::Later), and every [`SigningKey`](crate::crypto::SigningKey)
    /// that answered [`Signing::Later`](crate::crypto::Signing::Later). Handshakes whose answer is
    /// still not known wait on.
    pub fn lookups_answered(&mut self, now: Instant) {
        self.lookups_answered_for(now, |_| {});
    }

    /// As [`lookups_answered`](Self::lookups_answered). `asks_for` is called with the address of each
    /// client before the stores are asked for it, which learn nothing of addresses themselves.
    pub fn lookups_answered_for(&mut self, now: Instant, asks_for: impl Fn(SocketAddr)) {
        self.now = self.now.max(now);
        let Some(lookups) = self.lookups.get_mut() else { return };
        let Lookups { hellos, associations } = core::mem::take(lookups);
        for Waiting { from, local, hello, fingerprint } in hellos {
            let there = self.at(from.into());
            let known = there.and_then(|handle| self.entries.get(&handle));
            // The store may have answered the client's retransmission of the hello already.
            if known.is_some_and(|entry| entry.hello == fingerprint)
                || self.is_of_older(known, &fingerprint)
                || self.past.contains(&fingerprint)
            {
                continue;
            }
            self.local = local;
            asks_for(from);
            self.greet(from, there, &hello, fingerprint, Admission::Open);
        }
        for handle in associations {
            let Some(entry) = self.entries.get_mut(&handle) else { continue };
            if entry.connection.awake().is_some_and(Connection::awaits_answer) {
                let connection = entry.connection.wake();
                asks_for(connection.peer());
                connection.lookups_answered(now);
                // The client's Finished may have arrived before.
                if connection.is_established() {
                    self.handshake_complete(handle);
                }
                self.touch(handle);
                self.begin_after(handle);
            }
        }
    }

    /// The number of clients of DTLS 1.3 that wait for the answer to a lookup.
    pub fn waiting_for_lookups(&self) -> usize {
        self.lookups.get().map_or(0, |lookups| lookups.hellos.len())
    }
}
