//! What happened to frames and datagrams, by reason.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// Why a frame or a datagram went no further.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in metrics and logs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// From the LAN: neither MACsec nor MKA nor of an allowed EtherType.
    NotAllowed => "not_allowed",
    /// From the LAN: a MACsec frame whose tag or length cannot be right.
    MalformedFrame => "malformed_frame",
    /// From the LAN: for a station of the same LAN.
    Local => "local",
    /// From the LAN: it came from a peer before; and frames other than MACsec's whose source was
    /// just heard behind a peer.
    Loop => "loop",
    /// From the LAN: no peer is there that it could go to.
    NoPeer => "no_peer",
    /// From the LAN: for an unknown station, and too many of those came.
    FloodLimit => "flood_limit",
    /// From the LAN: held until the peer knows its flow, and later forgotten.
    HeldTooLong => "held_too_long",
    /// From the LAN: its flow is not known to the peer and no more is held.
    HoldFull => "hold_full",
    /// From the LAN: the table of flows, or the share of its source, is full.
    FlowLimit => "flow_limit",
    /// From the LAN: longer than what can be split.
    TooLong => "too_long",
    /// From the LAN: the key has sealed all it may.
    KeyExhausted => "key_exhausted",
    /// From the LAN: MKA, and the administrator has it dropped.
    Mka => "mka",
    /// Another gateway has this LAN.
    Yielding => "yielding",
    /// No buffer, or none with enough room.
    NoBuffer => "no_buffer",
    /// The socket or interface took no more.
    Full => "full",
    /// From a peer: of no type there is, or of a scheme that is not this gateway's.
    UnknownType => "unknown_type",
    /// From a peer: the receiver index is not, or no longer, known.
    UnknownReceiver => "unknown_receiver",
    /// From a peer: from an address that no peer has.
    UnknownPeer => "unknown_peer",
    /// From a peer: too short, or its parts contradict each other.
    Malformed => "malformed",
    /// From a peer: accepted before.
    Replayed => "replayed",
    /// From a peer: older than the window.
    Old => "old",
    /// From a peer: not authentic.
    Forged => "forged",
    /// From a peer: too many were forged under this key.
    ForgedTooOften => "forged_too_often",
    /// From a peer: authentic, but no MACsec frame.
    NotMacsec => "not_macsec",
    /// From a peer: an identifier that no flow has now.
    UnknownIdentifier => "unknown_identifier",
    /// From a peer: a header that belongs to no flow.
    UnknownFlow => "unknown_flow",
    /// From a peer: a piece of a frame that does not fit its other pieces.
    BadPiece => "bad_piece",
    /// From a peer: pieces of a frame whose rest did not come in time or had no room.
    Incomplete => "incomplete",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A counter that several threads add to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// What was added so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often each reason came up.
#[derive(Debug)]
pub struct Drops([Counter; Reason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Self([const { Counter(AtomicU64::new(0)) }; Reason::ALL.len()])
    }
}

impl Drops {
    /// Counts one.
    pub fn count(&self, reason: Reason) {
        self.0[reason as usize].add(1);
    }

    /// How often `reason` came up.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize].get()
    }

    /// How many were dropped in all.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }
}

/// Frames and their bytes.
#[derive(Debug, Default)]
pub struct Traffic {
    /// How many.
    pub packets: Counter,
    /// Their bytes.
    pub bytes: Counter,
}

impl Traffic {
    /// Counts one of `len` bytes.
    pub fn count(&self, len: usize) {
        self.packets.add(1);
        self.bytes.add(len as u64);
    }
}

/// What one peer sent and was sent.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Frames that went to the peer, as they were on the LAN.
    pub frames_out: Traffic,
    /// Frames that came from the peer, as they go to the LAN.
    pub frames_in: Traffic,
    /// Frames that were split for the peer.
    pub split: Counter,
    /// Frames that were put together again.
    pub reassembled: Counter,
    /// What of the peer was dropped, or meant for it.
    pub drops: Drops,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_reason_has_a_name_and_a_counter_of_its_own() {
        let names: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        let drops = Drops::default();
        for (at, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason as usize, at);
            drops.count(reason);
            assert_eq!(drops.of(reason), 1);
        }
        assert_eq!(drops.total(), Reason::ALL.len() as u64);
    }
}
