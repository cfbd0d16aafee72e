//! Our own tuning numbers, each with the reason for its value.

use core::time::Duration;

/// Size of a lane's replay window: how many counters below the highest one it remembers. While the
/// packets of one thread are delayed in a batch, all packets of another path may overtake them:
/// 4096 small packets are some milliseconds at 1 Gbit/s.
pub const REPLAY_WINDOW: u64 = 4096;
/// Most lanes (sending threads) of a gateway. A replay window costs 528 bytes for each lane and
/// epoch.
pub const MAX_LANES: usize = 16;
/// Most packets that one lane seals under one key. AES-GCM with distinct nonces that look random
/// would allow far more. A key lives for an hour, which at four million packets a second ends
/// earlier than this limit.
pub const MAX_PACKETS_PER_KEY: u64 = 1 << 32;
/// Number of packets under one key from which on a lane asks for a new epoch.
pub const PACKETS_BEFORE_REKEY: u64 = MAX_PACKETS_PER_KEY / 4 * 3;
/// Number of forgeries that one lane refuses under one key before it refuses every datagram under
/// that key: 2^36 tries against 128-bit tags over at most 2^10 blocks leave an attacker a
/// probability of 2^-81.
pub const MAX_FORGERIES_PER_KEY: u64 = 1 << 36;
/// How long keys that were replaced still open datagrams that were sent before the change.
pub const OLD_KEY_LIFETIME: Duration = Duration::from_secs(10);
/// Interval between two searches for expired entries. Each search walks through every table while
/// it holds the table's locks.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Most flows of one association for which a peer may have identifiers: each frame of the
/// association costs the receiver one new identifier for each of these flows. A device seldom has
/// more than some tens of neighbours behind a gateway.
pub const MAX_FLOWS_PER_ASSOCIATION: usize = 64;
/// Most identifiers a second, summed over all flows, that a sender may make its peers derive for
/// skipped packet numbers: a few per cent of a core.
pub const SKIPPED_PER_SECOND: u32 = 1 << 18;
/// Burst that belongs to [`SKIPPED_PER_SECOND`], in identifiers: the whole windows of 512 flows.
pub const SKIPPED_BURST: u32 = 1 << 20;
/// Most identifiers a second that a receiver derives for packet numbers for which no frame of the
/// peer arrived: as many as an honest sender's LAN may skip, and as many again for lost frames and
/// for frames that went to other sites. Each new identifier also evicts an old one, so this is 2^20
/// changes of a large table a second: a tenth to a fifth of a core.
pub const DERIVED_PER_SECOND: u32 = 2 * SKIPPED_PER_SECOND;
/// Most identifiers a second that a receiver derives for flows that a peer registers: those of 128
/// flows or more. At most 512 flows have identifiers, and the flows of an honest peer live for 15 s
/// or longer.
pub const REGISTERED_PER_SECOND: u32 = SKIPPED_PER_SECOND;
/// Burst that belongs to [`DERIVED_PER_SECOND`] and to [`REGISTERED_PER_SECOND`], in identifiers:
/// skipped packet numbers may become known late and many at a time, and after a reconnect all 512
/// flows are registered at once, perhaps twice.
pub const DERIVED_BURST: u32 = 2 * SKIPPED_BURST;
/// Number of identifiers that are added or removed before the lock is released to frames that wait
/// for it: the whole windows of two flows, a millisecond at most.
pub const IDENTIFIERS_PER_STEP: u64 = 4096;
/// Number of old flows that a receiver removes before it releases the lock that every frame needs.
/// Each flow has 2048 identifiers, so this takes some hundred microseconds.
pub const FLOWS_DROPPED_PER_STEP: usize = 4;
/// How many times in one tick (100 ms) a receiver removes [`FLOWS_DROPPED_PER_STEP`] old flows: all
/// 512 flows are removed in some three seconds, and frames have nearly all of the time.
pub const DROP_STEPS_PER_TICK: usize = 4;
/// The IPv6 minimum link MTU: IP packets of this many bytes arrive on any path (RFC 8200, section
/// 5).
pub const LEAST_MTU: usize = 1280;
/// The smallest MTU of a path: every IPv4 host takes packets of this many bytes (RFC 791, section
/// 3.1). With it, the longest frame that is split has few enough pieces.
pub const MIN_PATH_MTU: usize = 576;
/// The shortest time for which the keys of an epoch are used: some ticks of the control path, in
/// which the gateways agree on the next keys.
pub const LEAST_REKEY: Duration = Duration::from_secs(1);
