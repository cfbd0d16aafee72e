//! What a SecY counts (IEEE 802.1AE-2018, clauses 10.7.9 and 10.7.18), under the standard's names.
//!
//! Octets are those of the user's data: EtherType and payload, without addresses, SecTAG and ICV.

/// Received frames that no channel counts, and the transmitted ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecyCounters {
    /// InPktsUntagged: without a SecTAG, delivered.
    pub in_pkts_untagged: u64,
    /// InPktsNoTag: without a SecTAG, discarded.
    pub in_pkts_no_tag: u64,
    /// InPktsBadTag: with an invalid SecTAG, a length that contradicts it, or packet number 0.
    pub in_pkts_bad_tag: u64,
    /// InPktsNoSCI: of an unknown channel, discarded.
    pub in_pkts_no_sci: u64,
    /// InPktsUnknownSCI: of an unknown channel, delivered.
    pub in_pkts_unknown_sci: u64,
    /// InPktsOverrun: discarded because there was no time for them; the host says so.
    pub in_pkts_overrun: u64,
    /// Ours: for the key agreement entity alone (bit E without C), discarded.
    pub in_pkts_key_agreement: u64,
    /// OutPktsUntagged: sent as they were, since frames are not protected.
    pub out_pkts_untagged: u64,
    /// OutPktsTooLong: not sent, since they would be longer than allowed.
    pub out_pkts_too_long: u64,
    /// Ours: not sent, since no association sends or its packet numbers are used up.
    pub out_pkts_no_sa: u64,
}

/// The transmitting channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmitCounters {
    /// OutPktsProtected: integrity only.
    pub out_pkts_protected: u64,
    /// OutPktsEncrypted.
    pub out_pkts_encrypted: u64,
    /// OutOctetsProtected.
    pub out_octets_protected: u64,
    /// OutOctetsEncrypted, with what a confidentiality offset leaves readable.
    pub out_octets_encrypted: u64,
}

/// One receiving channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounters {
    /// InPktsOK.
    pub in_pkts_ok: u64,
    /// InPktsUnchecked: delivered without validation.
    pub in_pkts_unchecked: u64,
    /// InPktsDelayed: below the lowest acceptable number, delivered all the same.
    pub in_pkts_delayed: u64,
    /// InPktsLate: below the lowest acceptable number, or a duplicate; discarded.
    pub in_pkts_late: u64,
    /// Ours, and part of InPktsLate: discarded since the number had been received before.
    pub in_pkts_duplicate: u64,
    /// InPktsInvalid: not authentic, delivered all the same.
    pub in_pkts_invalid: u64,
    /// InPktsNotValid: not authentic, discarded.
    pub in_pkts_not_valid: u64,
    /// InPktsNotUsingSA: of an association that is not there, discarded.
    pub in_pkts_not_using_sa: u64,
    /// InPktsUnusedSA: of an association that is not there, delivered.
    pub in_pkts_unused_sa: u64,
    /// InOctetsValidated: authentic and not encrypted.
    pub in_octets_validated: u64,
    /// InOctetsDecrypted: authentic and encrypted.
    pub in_octets_decrypted: u64,
}

/// One association number of a channel, whoever had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaCounters {
    /// InPktsOK, or OutPktsProtected and OutPktsEncrypted together.
    pub pkts_ok: u64,
    /// InPktsInvalid.
    pub in_pkts_invalid: u64,
    /// InPktsNotValid.
    pub in_pkts_not_valid: u64,
    /// InPktsNotUsingSA.
    pub in_pkts_not_using_sa: u64,
    /// InPktsUnusedSA.
    pub in_pkts_unused_sa: u64,
}
