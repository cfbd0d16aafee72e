//! The counters of a SecY (IEEE 802.1AE-2018, clauses 10.7.9 and 10.7.18), with the standard's
//! names.
//!
//! Octets are those of the user data: EtherType and payload, without addresses, SecTAG and ICV.

/// Counters of received frames that belong to no channel, and of frames to transmit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecyCounters {
    /// InPktsUntagged: frames without a SecTAG, delivered.
    pub in_pkts_untagged: u64,
    /// InPktsNoTag: frames without a SecTAG, discarded.
    pub in_pkts_no_tag: u64,
    /// InPktsBadTag: frames with an invalid SecTAG, with a length that contradicts it, or with
    /// packet number 0.
    pub in_pkts_bad_tag: u64,
    /// InPktsNoSCI: frames of an unknown channel, discarded.
    pub in_pkts_no_sci: u64,
    /// InPktsUnknownSCI: frames of an unknown channel, delivered.
    pub in_pkts_unknown_sci: u64,
    /// InPktsOverrun: frames that were discarded because there was no time for them, as reported by
    /// the host.
    pub in_pkts_overrun: u64,
    /// Not in the standard: frames for the key agreement entity (bit E without C), discarded.
    pub in_pkts_key_agreement: u64,
    /// OutPktsUntagged: frames that were sent unchanged, since protection is off.
    pub out_pkts_untagged: u64,
    /// OutPktsTooLong: frames that were not sent, since they would be longer than allowed.
    pub out_pkts_too_long: u64,
    /// Not in the standard: frames that were not sent, since no association is selected for sending
    /// or its packet numbers are used up.
    pub out_pkts_no_sa: u64,
}

/// Counters of the transmitting channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransmitCounters {
    /// OutPktsProtected: frames with integrity protection only.
    pub out_pkts_protected: u64,
    /// OutPktsEncrypted: frames that were encrypted.
    pub out_pkts_encrypted: u64,
    /// OutOctetsProtected: user data with integrity protection only.
    pub out_octets_protected: u64,
    /// OutOctetsEncrypted: user data of encrypted frames, including the part that a confidentiality
    /// offset leaves readable.
    pub out_octets_encrypted: u64,
}

/// Counters of one receiving channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveCounters {
    /// InPktsOK: frames that were validated and delivered.
    pub in_pkts_ok: u64,
    /// InPktsUnchecked: frames that were delivered without validation.
    pub in_pkts_unchecked: u64,
    /// InPktsDelayed: authentic frames below the lowest acceptable number, delivered nevertheless.
    pub in_pkts_delayed: u64,
    /// InPktsLate: frames below the lowest acceptable number, or duplicates; discarded.
    pub in_pkts_late: u64,
    /// Not in the standard, and part of InPktsLate: frames that were discarded because their number
    /// had been received before.
    pub in_pkts_duplicate: u64,
    /// InPktsInvalid: frames that are not authentic, delivered nevertheless.
    pub in_pkts_invalid: u64,
    /// InPktsNotValid: frames that are not authentic, discarded.
    pub in_pkts_not_valid: u64,
    /// InPktsNotUsingSA: frames of an association without a key, discarded.
    pub in_pkts_not_using_sa: u64,
    /// InPktsUnusedSA: frames of an association without a key, delivered.
    pub in_pkts_unused_sa: u64,
    /// InOctetsValidated: user data of authentic frames that were not encrypted.
    pub in_octets_validated: u64,
    /// InOctetsDecrypted: user data of authentic frames that were encrypted.
    pub in_octets_decrypted: u64,
}

/// Counters of one association number of a channel, over all its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SaCounters {
    /// InPktsOK, or the sum of OutPktsProtected and OutPktsEncrypted.
    pub pkts_ok: u64,
    /// InPktsInvalid: frames that are not authentic, delivered nevertheless.
    pub in_pkts_invalid: u64,
    /// InPktsNotValid: frames that are not authentic, discarded.
    pub in_pkts_not_valid: u64,
    /// InPktsNotUsingSA: frames without a key for this number, discarded.
    pub in_pkts_not_using_sa: u64,
    /// InPktsUnusedSA: frames without a key for this number, delivered.
    pub in_pkts_unused_sa: u64,
}
