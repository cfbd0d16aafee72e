//! Counters of one association, by which dropped records can be diagnosed.

use core::ops::AddAssign;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// Declares counters that can be summed.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$fmeta])* pub $field: u64,)*
        }

        impl $name {
            const ZERO: Self = Self { $($field: 0,)* };

            /// Writes which counters are not zero, in a bit each, and then those.
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
        datagrams,
        /// Bytes of these datagrams.
        bytes,
        /// Bytes of received datagrams with handshake messages or their ACKs, KeyUpdates included.
        handshake_bytes,
        /// Authenticated records.
        records,
        /// Verified payloads delivered to the application, including those delivered before they
        /// were verified.
        delivered,
        /// Bytes of delivered payloads.
        delivered_bytes,
        /// Records that did not parse.
        malformed,
        /// Records whose number was received before, or is too old for the replay window.
        replayed,
        /// Records whose own tag did not verify.
        unauthentic,
        /// Records dropped because their check byte is wrong.
        check_failed,
        /// Payloads delivered to the application before they were verified.
        provisional,
        /// Payloads delivered before verification that were refuted later.
        refuted,
        /// Records held for shared tags that were dropped unverified: forged ones, ones whose tags
        /// were lost, and ones evicted for lack of room.
        unverified,
        /// Records among [`unverified`](Self::unverified) that the shared tags proved forged.
        forged,
        /// Authenticated or unverified records that were not kept: under shared tags too many
        /// candidates for one record number, or an expired number; handshake messages for which there
        /// was no place; and, in a restored association, records that may have been received before.
        refused,
        /// Closing tags received: tags that closed a set before it was full.
        closing_tags,
        /// Tag evaluations under shared tags: a check over r unverified records counts r.
        evaluations,
        /// Records of an epoch without keys.
        unknown_epoch,
        /// Payloads dropped because the receive buffer was full.
        buffer_full,
        /// Payloads among [`delivered`](Self::delivered) that the application was not given: what must
        /// be saved before their delivery was not saved for too long, or too many waited for that.
        unsaved,
        /// Records dropped because their key had reached its limit of failed authentications.
        exhausted,
        /// Changes of the peer's address.
        moves,
        /// How often a watched peer was considered dead.
        silences,
        /// Hints that the peer does not know the association. They are not authenticated.
        hints,
    }
}

counters! {
    /// Counters of what was sent.
    SendStats {
        /// Datagrams sent.
        datagrams,
        /// Bytes of these datagrams.
        bytes,
        /// Bytes of sent datagrams with handshake messages or their ACKs, KeyUpdates included.
        handshake_bytes,
        /// Payloads of the application, and probes.
        messages,
        /// Bytes of these payloads.
        message_bytes,
        /// Payloads dropped from the queue because they were too long for the records that the peer
        /// accepts, or for the datagrams that the path carries, once these limits were known.
        too_long,
        /// Payloads dropped from the queue because they waited longer than
        /// [`Settings::max_age`](crate::Settings::max_age).
        stale,
        /// Payloads that were still queued when the association ended.
        unsent,
        /// Closing tags sent because no further message came in time, or because the epoch ended.
        closing_tags,
        /// Retransmitted flights.
        retransmissions,
        /// Path challenges to new addresses of the peer.
        path_challenges,
        /// Probes of a watched peer ([`Connection::watch`](crate::Connection::watch)). Each also
        /// counts as a message of zero bytes.
        probes,
        /// Bytes of datagrams with probes.
        probe_bytes,
        /// Probes of the path MTU.
        mtu_probes,
        /// How often the path MTU was found to have shrunk.
        black_holes,
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

impl Stats {
    /// Writes the counters.
    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        self.received.write(w)?;
        self.sent.write(w)
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { received: ReceiveStats::read(r)?, sent: SendStats::read(r)? })
    }
}

/// The counters that an association keeps: none in a build without the feature `statistics`.
#[derive(Debug)]
pub(crate) struct Counters(#[cfg(feature = "statistics")] Stats);

impl Counters {
    const ZERO: Stats = Stats { received: ReceiveStats::ZERO, sent: SendStats::ZERO };

    pub(crate) const fn new() -> Self {
        Self(
            #[cfg(feature = "statistics")]
            Self::ZERO,
        )
    }

    /// Goes on with these counts.
    pub(crate) const fn restore(&mut self, stats: Stats) {
        #[cfg(feature = "statistics")]
        {
            self.0 = stats;
        }
        #[cfg(not(feature = "statistics"))]
        let _ = stats;
    }

    pub(crate) const fn get(&self) -> &Stats {
        #[cfg(feature = "statistics")]
        let stats = &self.0;
        #[cfg(not(feature = "statistics"))]
        let stats = &Self::ZERO;
        stats
    }

    /// Counts something that was received.
    #[inline]
    pub(crate) fn received(&mut self, count: impl FnOnce(&mut ReceiveStats)) {
        #[cfg(feature = "statistics")]
        count(&mut self.0.received);
        #[cfg(not(feature = "statistics"))]
        let _ = count;
    }

    /// Counts something that was sent.
    #[inline]
    pub(crate) fn sent(&mut self, count: impl FnOnce(&mut SendStats)) {
        #[cfg(feature = "statistics")]
        count(&mut self.0.sent);
        #[cfg(not(feature = "statistics"))]
        let _ = count;
    }
}
