//! Counters of frames and datagrams, and of drops by reason.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// Why a frame or a datagram was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
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
    /// From the LAN: a frame that is neither MACsec nor MKA nor of an allowed EtherType.
    NotAllowed => "not_allowed",
    /// From the LAN: a MACsec frame whose tag or length is invalid.
    MalformedFrame => "malformed_frame",
    /// From the LAN: a frame for a station on the same LAN.
    Local => "local",
    /// From the LAN: an echo, that is a frame that came from a peer before. Also a frame of another
    /// protocol than MACsec whose source was just heard behind a peer.
    Loop => "loop",
    /// From the LAN: there is no peer that the frame could be sent to.
    NoPeer => "no_peer",
    /// From the LAN: a frame for an unknown station, and there were too many of these.
    FloodLimit => "flood_limit",
    /// From the LAN: a frame that was held, and whose flow the peer did not learn in time.
    HeldTooLong => "held_too_long",
    /// From the LAN: the peer does not know the frame's flow, and there is no room to hold the
    /// frame.
    HoldFull => "hold_full",
    /// From the LAN: the table of flows is full, or the share of the frame's source.
    FlowLimit => "flow_limit",
    /// From the LAN: a frame that is longer than the longest one that may be split.
    TooLong => "too_long",
    /// From the LAN: the key has sealed as many packets as it may.
    KeyExhausted => "key_exhausted",
    /// An MKA frame, which the configuration does not send through the tunnel.
    Mka => "mka",
    /// Another gateway serves this LAN.
    Yielding => "yielding",
    /// No buffer was free, or none had enough room.
    NoBuffer => "no_buffer",
    /// The queue of the socket or interface was full.
    Full => "full",
    /// From a peer: a datagram of an unknown type, or of another scheme.
    UnknownType => "unknown_type",
    /// From a peer: a receiver index that is unknown, or known no longer.
    UnknownReceiver => "unknown_receiver",
    /// From a peer: a source address that no peer has.
    UnknownPeer => "unknown_peer",
    /// From a peer: a datagram that is too short or inconsistent.
    Malformed => "malformed",
    /// From a peer: a counter that was accepted before.
    Replayed => "replayed",
    /// From a peer: a counter that is older than the replay window.
    Old => "old",
    /// From a peer: a datagram that is not authentic.
    Forged => "forged",
    /// From a peer: the key opens no more datagrams, since too many were forged under it.
    ForgedTooOften => "forged_too_often",
    /// From a peer: an authentic datagram whose content is no MACsec frame.
    NotMacsec => "not_macsec",
    /// From a peer: an identifier that no flow expects.
    UnknownIdentifier => "unknown_identifier",
    /// From a peer: a header that belongs to no flow.
    UnknownFlow => "unknown_flow",
    /// From a peer: a piece of a frame that does not fit the other pieces.
    BadPiece => "bad_piece",
    /// From a peer: a frame whose other pieces did not arrive in time, or for which there was no
    /// room.
    Incomplete => "incomplete",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A counter that several threads increment.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of drops for each reason.
#[derive(Debug)]
pub struct Drops([Counter; Reason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Self([const { Counter(AtomicU64::new(0)) }; Reason::ALL.len()])
    }
}

impl Drops {
    /// Counts one drop.
    pub fn increment(&self, reason: Reason) {
        self.0[reason as usize].add(1);
    }

    /// The number of drops for `reason`.
    pub fn get(&self, reason: Reason) -> u64 {
        self.0[reason as usize].get()
    }

    /// The number of drops in all.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }
}

/// A number of frames or datagrams, and their bytes.
#[derive(Debug, Default)]
pub struct Traffic {
    /// The number of frames or datagrams.
    pub packets: Counter,
    /// The sum of their lengths in bytes.
    pub bytes: Counter,
}

impl Traffic {
    /// Counts one packet of `len` bytes.
    pub fn count(&self, len: usize) {
        self.packets.add(1);
        self.bytes.add(len as u64);
    }
}

/// Counters of a gateway that belong to no peer.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GatewayCounters {
    /// Frames that arrived from the LAN.
    pub frames_from_lan: Traffic,
    /// Frames that were sent to the LAN.
    pub frames_to_lan: Traffic,
    /// Copies of frames for several peers: a frame for n peers counts n - 1.
    pub copies: Counter,
    /// Datagrams that arrived.
    pub datagrams_in: Traffic,
    /// Dropped frames of the LAN, and dropped datagrams that cannot be attributed to a peer.
    pub drops: Drops,
}

/// Counters of one peer.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PeerCounters {
    /// Frames that were sent to the peer, with their lengths on the LAN.
    pub frames_out: Traffic,
    /// Frames that came from the peer, with their lengths on the LAN.
    pub frames_in: Traffic,
    /// Frames that were split before they were sent to the peer.
    pub split: Counter,
    /// Frames of the peer that were put together from pieces.
    pub reassembled: Counter,
    /// Dropped frames for the peer, and dropped datagrams of the peer.
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
            drops.increment(reason);
            assert_eq!(drops.get(reason), 1);
        }
        assert_eq!(drops.total(), Reason::ALL.len() as u64);
    }
}
