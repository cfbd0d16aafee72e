//! Our own bounds on memory and work, each with its reason.

/// The largest record number, 2^48 − 1 (RFC 9147, section 4.2.2).
pub const MAX_NUMBER: u64 = (1 << 48) - 1;

/// Record numbers an [`Opener`](crate::Opener) keeps track of at once, rounded down
/// to whole sets. Twice the 69 that lateness and two open sets of 16 need.
pub const WINDOW: usize = 128;

/// How many numbers past a set's end its records may still come. The reach of R2D2's
/// longest dependency set, so that one reordering bound holds for every scheme.
pub const LATENESS: u64 = 37;

/// Candidates held for one number: the true record and three forged ones. With sets
/// of 16, a choice has at most 4^16 = 2^32 ways, which leaves 96 bits of a tag for each check.
/// A key allows 2^33 evaluations, 2^29 checks of such sets: 2^61 ways, which leaves 67.
pub const HELD_PER_NUMBER: usize = 4;

/// Candidates of a number that no later one displaces. Whoever is faster than the genuine record
/// can fill these places and not choose who gets the others; whoever comes after it cannot take
/// its place.
pub const FIRST_PER_NUMBER: usize = 2;

/// Candidates evaluated for one number, held or not, before it is given up.
pub const EVALUATED_PER_NUMBER: u8 = 64;

/// Candidates an [`Opener`](crate::Opener) holds by default. R2D2(8, 50) at a loss of 5 % has up to
/// 170 under way: records of 75 numbers that may yet be verified, those they are checked with, and
/// junk. With 96 that loss would leave a fifth less verified. Sets of 16 need two in the making,
/// one of them with three forged rivals a number.
pub const CANDIDATES: usize = 192;

/// Closing tags that wait for records they cover. Where every second record is one, the
/// window holds 20, of which this many may lack a record: a loss of 40 %.
pub const CLOSINGS: usize = 8;

/// Arrivals without any verification after which an unauthenticated number may
/// move the window.
pub const QUIET_ARRIVALS: u8 = 64;

/// How near to each other three arrivals must be to move it.
pub const NEAR: u64 = 8;

/// Provisional delivery from θ bits on bears 2^(θ − this) refutations an epoch, at least one:
/// what came before the last had its chance of 2^-θ each, and all together 2^-this.
pub const PROVISIONAL_FREE_BITS: u32 = 20;

/// Bits beyond the threshold with which a payload that was delivered early counts as genuine though
/// it expires: a forged one has them with a chance of 2^-this.
pub const EXCUSED_BITS: u8 = 20;

/// Records of a direction between two changes of its parameters that a receiver asks for: of an
/// epoch number only two bits travel, and a change costs a record or two.
pub const BETWEEN_CHANGES: u16 = 200;
