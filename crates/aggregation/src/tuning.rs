//! This crate's own bounds on memory and work, each with its reason.

/// The largest record number, 2^48 − 1 (RFC 9147, section 4.2.2).
pub const MAX_NUMBER: u64 = (1 << 48) - 1;

/// Record numbers of which an [`Opener`](crate::Opener) under Agg keeps track at once by default,
/// rounded down to whole sets. Lateness and two open sets of 16 need 69 numbers; this is nearly twice
/// as many.
pub const WINDOW: usize = 128;

/// The least number of record numbers of which an opener under Agg may keep track: two sets of 16,
/// because the second one must be open before the first one is given up.
pub const LEAST_WINDOW: usize = 32;

/// Record numbers of which an [`Opener`](crate::Opener) under R2D2 keeps track at once by default. 37
/// of them are only the numbers of tags that are still to come.
pub const BOARD: usize = 256;

/// The least number of record numbers of which an opener under R2D2 may keep track: 46 after the
/// highest verified one (37 that bring tags for the next, and 8 that may fail in a row), 29 before it
/// (with o = 200 a tag still covers 24 of them), and 37 tags that are still to come.
pub const LEAST_BOARD: usize = 112;

/// How many numbers past a set's end the highest verified number may be while records of the set
/// are still accepted; less if the window has no room for that. It is the reach of R2D2's longest dependency set, so that one reordering
/// bound holds for every scheme.
pub const LATENESS: u64 = 37;

/// Candidates held for one number: the true record and three forged ones. With sets of 16, a check
/// chooses among at most 4^16 = 2^32 combinations, which leaves 96 of the 128 bits of a tag. A key
/// allows 2^33 evaluations, which are 2^29 checks of such sets and 2^61 combinations. That leaves
/// 67 bits over a key's life. Without the feature `rivals` the first record of a number is its only
/// candidate.
pub const HELD_PER_NUMBER: usize = if cfg!(feature = "rivals") { 4 } else { 1 };

/// Whether a number may have several candidates.
pub(crate) const HAS_RIVALS: bool = HELD_PER_NUMBER > 1;

/// How many candidates of a number no later candidate may displace. An attacker that is faster than
/// the genuine record can fill these places, but cannot choose which candidates get the others. An
/// attacker that comes after the genuine record cannot take its place.
pub const FIRST_PER_NUMBER: usize = 2;

/// How many candidates of one number are evaluated, held or not, before further ones are refused.
pub const EVALUATED_PER_NUMBER: u8 = 64;

/// Candidates an [`Opener`](crate::Opener) holds by default. R2D2(8, 50) at a loss of 5 % needs up
/// to 170 at once: records of 75 numbers that may yet be verified, the records they are checked
/// with, and junk. With 96 candidates a fifth fewer records would be verified at that loss. Agg(16)
/// needs room for two incomplete sets, one of them with three forged rivals for each number.
pub const CANDIDATES: usize = 192;

/// Number of closing tags that may wait for records they cover. If every second record carries one,
/// the window holds 20, of which this number may lack a record: with 8 of them a loss of 40 %, and with
/// 2, where the feature `fast` does not take more memory, of 10 %.
pub const CLOSINGS: usize = if cfg!(feature = "fast") { 8 } else { 2 };

/// Number of arrivals without any verification after which an unauthenticated number may move the
/// window.
pub const QUIET_ARRIVALS: u8 = 64;

/// How near to each other the numbers of three arrivals must be to move the window.
pub const NEAR: u64 = 8;

/// How many record numbers a sealer that [resumes](crate::Sealer::resume_at) leaves out at least: as
/// many as a receiver keeps track of at once by default, so that nothing of a predecessor is open there
/// any more. It is a multiple of every set size that is a power of two.
pub const RESUMED_GAP: u64 = 256;

/// Provisional delivery from a level of θ bits on ends after 2^(θ − this) refutations in an epoch,
/// at least one. Each forgery delivered until then had a chance of 2^-θ, so an attacker succeeds
/// with a probability of about 2^-this in total.
pub const PROVISIONAL_FREE_BITS: u32 = 20;

/// How many bits above the threshold the level of a provisionally delivered payload must be for it
/// to count as genuine although it expires. A forged payload reaches that level with a probability
/// of 2^-this.
pub const EXCUSED_BITS: u8 = 20;

/// The least number of records in one direction between two changes of parameters that a receiver
/// asks for. Each change starts a new epoch, of whose number only two bits are sent, and costs a
/// record or two.
pub const BETWEEN_CHANGES: u16 = 200;
