//! Content types and limits of the group protocol.

use lightseal_dtls::codepoints::ContentType;

/// Private use: a rekey message from the controller. It is never delivered to the application.
pub const GROUP_REKEY: ContentType = ContentType(0xe8);
/// Private use: a sync record, in which a sender states its epoch and its next record number,
/// signed or under the group key.
pub const GROUP_SYNC: ContentType = ContentType(0xe9);
/// Private use: a challenge from a listener that does not know a sender's current record number,
/// and the sender's answer.
pub const GROUP_CHALLENGE: ContentType = ContentType(0xea);

/// Private use: the controller's list of active senders (Axiom, section 5.3).
pub const GROUP_SENDERS: ContentType = ContentType(0xeb);

/// The sequence number of an `axiom-1.2` record is 40 bits wide (Axiom, section 5.4).
pub const MAX_TRUNCATED_NUMBER: u64 = (1 << 40) - 1;
