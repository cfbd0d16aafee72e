//! Counters of one association, by which dropped records can be diagnosed.

#[cfg(feature = "statistics")]
mod sparse;

use core::ops::AddAssign;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// Declares counters that can be summed.
///
/// What is counted `Seldom` is zero in most associations, which keep it in another way than what is
/// counted `Often`.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident: $use:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$fmeta])* pub $field: u64,)*
        }

        impl $name {
            #[cfg(feature = "statistics")]
            const ZERO: Self = Self { $($field: 0,)* };

            /// How each counter is used.
            #[cfg(feature = "statistics")]
            const USES: &[Use] = &[$(Use::$use),*];

            /// Calls `visit` with each counter.
            #[cfg(feature = "statistics")]
            #[inline(always)]
            fn each(&mut self, mut visit: impl FnMut(&mut u64)) {
                $(visit(&mut self.$field);)*
            }

            /// Writes which counters are not zero, in a bit each, and then those.
            #[cfg(feature = "statistics")]
            fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
                let mut present = 0_u64;
                $(present = present << 1 | u64::from(self.$field > 0);)*
                w.varint(present)?;
                $(if self.$field > 0 {
                    w.varint(self.$field)?;
                })*
                Ok(())
            }

            /// Reads what `write` has written.
            #[cfg(feature = "statistics")]
            fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let count = [$(stringify!($field)),*].len();
                let mut present = r.varint()? << (64 - count);
                let mut counters = Self::ZERO;
                $({
                    if present >> 63 == 1 {
                        counters.$field = r.varint()?;
                    }
                    present <<= 1;
                })*
                let _ = present;
                Ok(counters)
            }
        }

        impl AddAssign<&Self> for $name {
            fn add_assign(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counters! {
    /// Counters of what was received.
    ReceiveStats {
        /// Datagrams received.
        datagrams: Often,
        /// Bytes of these datagrams.
        bytes: Often,
        /// Bytes of received datagrams with handshake messages or their ACKs, KeyUpdates included.
        handshake_bytes: Seldom,
        /// Authenticated records.
        records: Often,
        /// Verified payloads delivered to the application, including those delivered before they
        /// were verified.
        delivered: Often,
        /// Bytes of delivered payloads.
        delivered_bytes: Often,
        /// Records that did not parse.
        malformed: Seldom,
        /// Records whose number was received before, or is too old for the replay window.
        replayed: Seldom,
        /// Records whose own tag did not verify.
        unauthentic: Seldom,
        /// Records dropped because their check byte is wrong.
        check_failed: Seldom,
        /// Payloads delivered to the application before they were verified.
        provisional: Seldom,
        /// Payloads delivered before verification that were refuted later.
        refuted: Seldom,
        /// Records held for shared tags that were dropped unverified: forged ones, ones whose tags
        /// were lost, and ones evicted for lack of room.
        unverified: Seldom,
        /// Records among [`unverified`](Self::unverified) that the shared tags proved forged.
        forged: Seldom,
        /// Authenticated or unverified records that were not kept: under shared tags too many
        /// candidates for one record number, or an expired number; handshake messages for which there
        /// was no place; and, in a restored association, records that may have been received before.
        refused: Seldom,
        /// Closing tags received: tags that closed a set before it was full.
        closing_tags: Seldom,
        /// Tag evaluations under shared tags: a check over r unverified records counts r.
        evaluations: Often,
        /// Records of an epoch without keys.
        unknown_epoch: Seldom,
        /// Payloads dropped because the receive buffer was full.
        buffer_full: Seldom,
        /// Payloads among [`delivered`](Self::delivered) that the application was not given: what must
        /// be saved before their delivery was not saved for too long, or too many waited for that.
        unsaved: Seldom,
        /// Records dropped because their key had reached its limit of failed authentications.
        exhausted: Seldom,
        /// Changes of the peer's address.
        moves: Seldom,
        /// How often a watched peer was considered dead.
        silences: Seldom,
        /// Hints that the peer does not know the association. They are not authenticated.
        hints: Seldom,
    }
}

counters! {
    /// Counters of what was sent.
    SendStats {
        /// Datagrams sent.
        datagrams: Often,
        /// Bytes of these datagrams.
        bytes: Often,
        /// Bytes of sent datagrams with handshake messages or their ACKs, KeyUpdates included.
        handshake_bytes: Seldom,
        /// Payloads of the application, and probes.
        messages: Often,
        /// Bytes of these payloads.
        message_bytes: Often,
        /// Payloads dropped from the queue because they were too long for the records that the peer
        /// accepts, or for the datagrams that the path carries, once these limits were known.
        too_long: Seldom,
        /// Payloads dropped from the queue because they waited longer than
        /// [`Settings::max_age`](crate::Settings::max_age).
        stale: Seldom,
        /// Payloads that were still queued when the association ended.
        unsent: Seldom,
        /// Closing tags sent because no further message came in time, or because the epoch ended.
        closing_tags: Seldom,
        /// Retransmitted flights.
        retransmissions: Seldom,
        /// Path challenges to new addresses of the peer.
        path_challenges: Seldom,
        /// Probes of a watched peer ([`Connection::watch`](crate::Connection::watch)). Each also
        /// counts as a message of zero bytes.
        probes: Seldom,
        /// Bytes of datagrams with probes.
        probe_bytes: Seldom,
        /// Probes of the path MTU.
        mtu_probes: Seldom,
        /// How often the path MTU was found to have shrunk.
        black_holes: Seldom,
    }
}

/// Counters of one association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Counters of what was received.
    pub received: ReceiveStats,
    /// Counters of what was sent.
    pub sent: SendStats,
}

impl AddAssign<&Self> for Stats {
    fn add_assign(&mut self, other: &Self) {
        self.received += &other.received;
        self.sent += &other.sent;
    }
}

#[cfg_attr(
    not(feature = "statistics"),
    allow(unused_variables, clippy::unused_self, clippy::unnecessary_wraps)
)]
impl Stats {
    /// Writes the counters: nothing in a build without the feature `statistics`.
    #[inline]
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        #[cfg(feature = "statistics")]
        {
            self.received.write(w)?;
            self.sent.write(w)?;
        }
        Ok(())
    }

    /// Reads what [`write`](Self::write) has written.
    #[inline]
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        #[cfg(feature = "statistics")]
        return Ok(Self { received: ReceiveStats::read(r)?, sent: SendStats::read(r)? });
        #[cfg(not(feature = "statistics"))]
        Ok(Self::default())
    }
}

/// The sum of the counters of associations that have ended: none in a build without the feature
/// `statistics`.
#[derive(Debug, Default)]
pub(crate) struct Totals(#[cfg(feature = "statistics")] Stats);

#[cfg_attr(not(feature = "statistics"), allow(unused_variables, clippy::unused_self))]
impl Totals {
    pub(crate) fn get(&self) -> Stats {
        #[cfg(feature = "statistics")]
        return self.0;
        #[cfg(not(feature = "statistics"))]
        Stats::default()
    }

    pub(crate) fn add(&mut self, ended: &Stats) {
        #[cfg(feature = "statistics")]
        {
            self.0 += ended;
        }
    }
}

/// The counters that an association keeps: none in a build without the feature `statistics`.
#[derive(Debug, Default)]
pub(crate) struct Counters(#[cfg(feature = "statistics")] sparse::Sparse);

#[cfg_attr(not(feature = "statistics"), allow(unused_variables, clippy::unused_self))]
impl Counters {
    /// Goes on with these counts.
    pub(crate) fn restore(&mut self, stats: Stats) {
        *self = Self::default();
        self.received(|received| *received = stats.received);
        self.sent(|sent| *sent = stats.sent);
    }

    pub(crate) fn get(&self) -> Stats {
        #[cfg(feature = "statistics")]
        return self.0.get();
        #[cfg(not(feature = "statistics"))]
        Stats::default()
    }

    /// Counts something that was received: `count` is given zeros, and its counts are added.
    #[inline]
    pub(crate) fn received(&mut self, count: impl FnOnce(&mut ReceiveStats)) {
        #[cfg(feature = "statistics")]
        self.0.add_received(count);
    }

    /// Counts something that was sent, as [`received`](Self::received).
    #[inline]
    pub(crate) fn sent(&mut self, count: impl FnOnce(&mut SendStats)) {
        #[cfg(feature = "statistics")]
        self.0.add_sent(count);
    }
}

/// How a counter is used.
#[cfg(feature = "statistics")]
#[derive(Clone, Copy)]
enum Use {
    /// By most datagrams.
    Often,
    /// By few associations or datagrams.
    Seldom,
}
