//! Numbers of the group protocol in one place.

use dtls::codepoints::ContentType;

/// Private use: a rekey message of the controller, which no application ever sees.
pub const GROUP_REKEY: ContentType = ContentType(0xe8);
/// Private use: a sender's statement of its epoch and next number, signed or under the group key.
pub const GROUP_SYNC: ContentType = ContentType(0xe9);
/// Private use: a late joiner's challenge to a sender and the answer to it.
pub const GROUP_CHALLENGE: ContentType = ContentType(0xea);

/// Private use: the controller's list of active senders (Axiom, section 5.3).
pub const GROUP_SENDERS: ContentType = ContentType(0xeb);

/// The sequence number of an `axiom-1.2` record is 40 bits wide (Axiom, section 5.4).
pub const MAX_TRUNCATED_NUMBER: u64 = (1 << 40) - 1;
