//! The connection IDs that the endpoint gives to its associations, the numbers of their handles, and
//! what several endpoints share.

use super::{Endpoint, Handle, id_len};
use crate::config::ConnectionIds;
pub use crate::handshake::ticket_keys::{ProcessOutOfRange, TicketSecrets};
use crate::record::ConnectionId;
use crate::tuning::MAX_ID_DRAWS;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZero;
use lightseal_core::{Instant, Random};

/// Draws the connection IDs of an endpoint, so that whoever sees a datagram can tell which of several
/// endpoints it is for (RFC 9146, section 3; RFC 9147, section 9).
pub trait ConnectionIdGenerator: fmt::Debug + Send + Sync {
    /// Fills `id`, which has the length that the settings name, with random bytes from `rng` where
    /// they say nothing. `former` is an ID that the association already has; `None` if the
    /// association begins. The endpoint asks again if an association has this ID already.
    fn generate(&self, rng: &mut Random, former: Option<&[u8]>, id: &mut [u8]);
}

/// In which word associations are counted. A small device compares numbers of 32 bits in much less code.
#[cfg(feature = "aggregation")]
pub(super) type HandleNumber = u64;
#[cfg(not(feature = "aggregation"))]
pub(super) type HandleNumber = u32;

impl Handle {
    /// The number of the association, which counts up from the one that the endpoint was given
    /// ([`Endpoint::count_from`]).
    #[allow(clippy::unnecessary_cast, reason = "the word is shorter on small devices")]
    pub const fn number(self) -> u64 {
        self.0.get() as u64 - 1
    }

    /// The handle with this number. It is not valid if no association has it.
    #[allow(clippy::unnecessary_cast, reason = "the word is shorter on small devices")]
    pub const fn from_number(number: u64) -> Self {
        // No association has the last number.
        let number = if number < LAST as u64 { number as HandleNumber } else { LAST };
        Self(NonZero::<HandleNumber>::MIN.saturating_add(number))
    }
}

/// The number at which the numbers of an endpoint's associations end.
const LAST: HandleNumber = HandleNumber::MAX - 1;

impl Endpoint {
    /// Has the handles of future associations count up from `number`, so that several endpoints of one
    /// program never use the same one. Numbers that were used are not used again.
    pub fn count_from(&mut self, number: u64) {
        self.next_handle = self.next_handle.max(HandleNumber::try_from(number).unwrap_or(LAST));
    }

    /// Whether there is a number for another association. An endpoint on a small device, which counts with
    /// 32 bits, accepts and begins no more associations when it has had 4 thousand million.
    pub(super) const fn has_handles(&self) -> bool {
        self.next_handle < LAST
    }

    /// The handle of an association that begins now.
    pub(super) const fn next_handle(&mut self) -> Handle {
        let number = self.next_handle;
        self.next_handle = number.saturating_add(1);
        Handle(NonZero::<HandleNumber>::MIN.saturating_add(number))
    }

    /// Draws the connection IDs that peers are given with `generator` from now on. Without one they are
    /// random, as is the first ID of an association that this endpoint begins itself.
    pub fn set_connection_id_generator(&mut self, generator: Arc<dyn ConnectionIdGenerator>) {
        self.id_generator = Some(generator);
    }

    /// Has this endpoint make and check cookies with secrets that several endpoints share, so that a
    /// client that one of them has asked for a cookie can be answered by another one
    /// (RFC 9147, section 5.1). `secret_of` fills in the secret of a generation, which nobody else
    /// may know. Generations follow each other, one a minute or so, in all these endpoints: call this
    /// whenever one begins. Cookies of the generation before and of the next one are accepted as
    /// well, because clocks differ.
    ///
    /// After the first call the endpoint draws no secrets of its own any more.
    pub fn share_cookies(
        &mut self,
        now: Instant,
        generation: u64,
        secret_of: impl Fn(u64, &mut [u8; 32]),
    ) {
        self.now = self.now.max(now);
        self.jar.share(self.now, generation, secret_of);
    }

    /// Has this endpoint seal its tickets under keys that follow from secrets that several endpoints
    /// share, so that each of them resumes the sessions of all (RFC 8446, section 4.6.1; RFC 5077). No
    /// two of these processes may have the same `process`, below 2^24, with one generation of the
    /// secrets, also not one after the other. All of them must be given time from one clock, such as
    /// that of the wall: tickets name times. Tickets of other processes can be used more than once,
    /// so such endpoints must accept no early data ([`Settings::early_data`](crate::Settings)).
    ///
    /// Call it again when a generation begins. Tickets of earlier ones stay valid while `secrets` has
    /// their secrets.
    ///
    /// # Errors
    ///
    /// If `process` is 2^24 or more: another process would have the same key.
    pub fn share_tickets(
        &mut self,
        secrets: Arc<dyn TicketSecrets>,
        generation: u8,
        process: u32,
    ) -> Result<(), ProcessOutOfRange> {
        self.sessions.share_tickets(secrets, generation, process)
    }

    /// A connection ID that no association has, for an association that has `former` already; `None`
    /// if the configuration wants none or none was found.
    pub(super) fn fresh_cid(&mut self, former: Option<&ConnectionId>) -> Option<ConnectionId> {
        let ids = self.config.settings.connection_ids;
        let len = match ids {
            _ if !ids.are_negotiated() => return None,
            ConnectionIds::Bytes(len) => len,
            _ => return Some(ConnectionId::EMPTY),
        };
        (0..MAX_ID_DRAWS)
            .map(|_| match &self.id_generator {
                None => ConnectionId::random(&mut self.rng, len),
                Some(generator) => ConnectionId::filled(len, |id| {
                    generator.generate(&mut self.rng, former.map(|former| &**former), id);
                }),
            })
            .find(|cid| !self.by_id.contains(cid))
    }

    /// The length in bytes of this endpoint's connection IDs.
    pub(super) fn id_len(&self) -> usize {
        id_len(&self.config)
    }

    /// Gives an association `count` connection IDs that it is to give to its peer.
    pub(super) fn supply_ids(&mut self, handle: Handle, count: usize) {
        let mut fresh = Vec::with_capacity(count);
        let entry = self.entries.get_mut(&handle);
        let former = entry.and_then(|entry| entry.connection.wake().own_ids().last());
        while fresh.len() < count
            && let Some(cid) = self.fresh_cid(former.as_ref())
        {
            // Each ID is reserved immediately, so that no two are equal.
            self.by_id.insert(cid, handle);
            fresh.push(cid);
        }
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        let connection = entry.connection.wake();
        let before: Vec<_> = connection.own_ids().collect();
        connection.give_ids(&fresh);
        // IDs that the association has retired, and IDs that it did not take, are free again.
        for cid in before.iter().chain(&fresh) {
            if !connection.own_ids().any(|own| own == *cid) {
                self.by_id.remove(cid);
            }
        }
    }
}
