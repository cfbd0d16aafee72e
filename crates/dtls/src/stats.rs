//! Counters, so that silence can be diagnosed.

use core::ops::AddAssign;

/// Declares counters that can be summed.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: u64,)*
        }

        impl AddAssign<&Self> for $name {
            fn add_assign(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counters! {
    /// What happened to what arrived.
    ReceiveStats {
        /// Datagrams.
        datagrams,
        /// Bytes of datagrams.
        bytes,
        /// Bytes of datagrams with handshake messages or their ACKs, KeyUpdates included.
        handshake_bytes,
        /// Authenticated records.
        records,
        /// Payloads given to the application.
        delivered,
        /// Bytes of such payloads.
        delivered_bytes,
        /// Records that did not parse.
        malformed,
        /// Records whose number was used already, or is too old to tell.
        replayed,
        /// Records whose own tag did not verify.
        unauthentic,
        /// Records whose check byte is wrong.
        check_failed,
        /// Payloads given to the application before they were verified.
        provisional,
        /// Such payloads that failed afterwards.
        refuted,
        /// Records held for shared tags that never verified.
        unverified,
        /// Those of them that shared tags spoke against; the others were late.
        forged,
        /// Records that an aggregate had no place for: too many rivals for a number, or expired.
        refused,
        /// Tags that closed a set of shared tags before it was full.
        closing_tags,
        /// Evaluations of shared tags: each check over r unverified records counts r.
        evaluations,
        /// Records of an epoch without keys.
        unknown_epoch,
        /// Payloads for which there was no room.
        buffer_full,
        /// Records that came after the key's limit.
        exhausted,
        /// Changes of the peer's address.
        moves,
        /// Times that a watched peer was taken for dead.
        silences,
        /// Hints that the peer does not know the association, which prove nothing.
        hints,
    }
}

counters! {
    /// What was sent.
    SendStats {
        /// Datagrams.
        datagrams,
        /// Bytes of datagrams.
        bytes,
        /// Bytes of datagrams with handshake messages or their ACKs, KeyUpdates included.
        handshake_bytes,
        /// Payloads of the application.
        messages,
        /// Bytes of such payloads.
        message_bytes,
        /// Payloads that were queued for longer records than the peer, or longer datagrams than the
        /// path, turned out to take, and dropped.
        too_long,
        /// Payloads that waited for too long ([`Settings::max_age`](crate::Settings::max_age)), and were
        /// dropped.
        stale,
        /// Payloads that were still queued when the association ended.
        unsent,
        /// Closing tags sent because others did not come in time, or at the end.
        closing_tags,
        /// Flights sent again.
        retransmissions,
        /// Challenges to a peer that seems to have moved.
        path_challenges,
        /// Probes of a watched peer ([`Connection::watch`](crate::Connection::watch)). Each is a
        /// message without content, too.
        probes,
        /// Bytes of datagrams with probes.
        probe_bytes,
        /// Probes of how long a datagram the path takes.
        mtu_probes,
        /// Times that the path was found to take less than before.
        black_holes,
    }
}

/// Counters of one association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What arrived.
    pub received: ReceiveStats,
    /// What was sent.
    pub sent: SendStats,
}

impl AddAssign<&Self> for Stats {
    fn add_assign(&mut self, other: &Self) {
        self.received += &other.received;
        self.sent += &other.sent;
    }
}
