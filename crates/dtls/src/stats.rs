//! Counters, so that silence can be diagnosed.

/// What happened to what arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveStats {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of datagrams.
    pub bytes: u64,
    /// Bytes of datagrams with handshake messages or their ACKs, KeyUpdates included.
    pub handshake_bytes: u64,
    /// Authenticated records.
    pub records: u64,
    /// Payloads given to the application.
    pub delivered: u64,
    /// Bytes of such payloads.
    pub delivered_bytes: u64,
    /// Records that did not parse.
    pub malformed: u64,
    /// Records whose number was used already, or is too old to tell.
    pub replayed: u64,
    /// Records whose own tag did not verify.
    pub unauthentic: u64,
    /// Records held for an aggregate that never verified.
    pub unverified: u64,
    /// Records that an aggregate had no place for: too many rivals for a number, or expired.
    pub refused: u64,
    /// Records of an epoch without keys.
    pub unknown_epoch: u64,
    /// Payloads for which there was no room.
    pub buffer_full: u64,
    /// Records that came after the key's limit.
    pub exhausted: u64,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendStats {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of datagrams.
    pub bytes: u64,
    /// Bytes of datagrams with handshake messages or their ACKs, KeyUpdates included.
    pub handshake_bytes: u64,
    /// Payloads of the application.
    pub messages: u64,
    /// Bytes of such payloads.
    pub message_bytes: u64,
    /// Closing tags sent because of silence or at the end.
    pub closing_tags: u64,
    /// Flights sent again.
    pub retransmissions: u64,
}

/// Counters of one association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What arrived.
    pub received: ReceiveStats,
    /// What was sent.
    pub sent: SendStats,
}
