//! Numbers of our own, and why each has its value.

use core::time::Duration;

/// Numbers back from the highest that a lane's window remembers. A batch of one thread can be
/// overtaken by all that another path carries meanwhile: 4096 small packets are some
/// milliseconds at a gigabit.
pub const WINDOW: u64 = 4096;
/// Lanes (sending threads) a gateway has at most. A window costs 528 bytes a lane and epoch.
pub const LANES: usize = 16;
/// Packets that one lane seals under one key. GCM with random-looking but distinct nonces
/// bears far more; an hour at four million packets a second ends earlier.
pub const PACKETS: u64 = 1 << 32;
/// From here on a new epoch is asked for.
pub const PACKETS_BEFORE_REKEY: u64 = PACKETS / 4 * 3;
/// Forgeries that one lane refuses under one key before it hears nothing more: 2^36 tries
/// at tags of 128 bits over at most 2^10 blocks leave an attacker 2^-81.
pub const FAILURES: u64 = 1 << 36;
/// How long keys that were replaced still open what was under way.
pub const OLD_EPOCH: Duration = Duration::from_secs(10);
/// What has timed out is looked for so often: every table is walked through, behind its locks.
pub const SWEEP: Duration = Duration::from_secs(1);
/// Flows of one association that a peer may have identifiers for: each of its frames costs the
/// receiver one of each. A device seldom has more than some tens of neighbours behind a gateway.
pub const FLOWS_A_GROUP: usize = 64;
/// Identifiers, of all flows, that a sender may have its peers derive each second for packet
/// numbers that were skipped: some hundredths of a core.
pub const SKIPPED: u32 = 1 << 18;
/// The same at once: a whole window of 512 flows.
pub const SKIPPED_AT_ONCE: u32 = 1 << 20;
/// Identifiers that a receiver derives each second for numbers of which no frame of the peer came:
/// what an honest sender's LAN may skip, and as many for losses and for what goes to other sites.
/// With those that they push out, that is 2^20 changes of a large table: a tenth of a core or two.
pub const DERIVED: u32 = 2 * SKIPPED;
/// Identifiers that a receiver derives each second for flows that a peer registers: those of 128
/// flows or more, of which at most 512 have identifiers, and honest ones live for 15 s or longer.
pub const REGISTERED: u32 = SKIPPED;
/// Either of the two at once: what was skipped may come late and in heaps, and after a reconnect
/// all 512 flows are registered at once, perhaps twice.
pub const DERIVED_AT_ONCE: u32 = 2 * SKIPPED_AT_ONCE;
/// Identifiers that come and go in one go, before frames have a turn that wait for the same lock:
/// a whole window of one flow and the one before it, a millisecond at most.
pub const STEP: u64 = 4096;
/// Old flows that a receiver forgets in one go, with the lock held that every frame needs: 2048
/// identifiers each are some hundred microseconds.
pub const DROPPED: usize = 4;
/// How often in a tick it does so: all 512 flows are gone in some three seconds, and frames have
/// nearly all of the time.
pub const DROPS_A_TICK: usize = 4;
/// IP packets of this many bytes arrive anywhere (RFC 8200, section 5).
pub const LEAST_MTU: usize = 1280;
