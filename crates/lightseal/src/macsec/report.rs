//! The counters, under the names of IEEE 802.1AE.

use lightseal_macsec::counters::SaCounters;
use lightseal_macsec::{AssociationNumber, Secy};
use lightseal_packet_io::Statistics;
use serde_json::{Map, Value, json};

/// The counters as one JSON object. In each list of four, element `n` is that of association number
/// `n`.
pub(super) fn report(secy: &Secy, lan: &Statistics, tap: &Statistics, no_room: [u64; 2]) -> Value {
    let all = secy.counters();
    let (sent, sent_sas) = secy.transmit_counters();
    let encoding = secy.encoding();
    let peers: Map<String, Value> = secy
        .receive_counters()
        .map(|(sci, counted, sas)| {
            let lowest = AssociationNumber::ALL.map(|an| secy.receive_numbers(sci, an));
            let peer = json!({
                "InPktsOK": counted.in_pkts_ok,
                "InPktsUnchecked": counted.in_pkts_unchecked,
                "InPktsDelayed": counted.in_pkts_delayed,
                "InPktsLate": counted.in_pkts_late,
                "duplicates": counted.in_pkts_duplicate,
                "InPktsInvalid": counted.in_pkts_invalid,
                "InPktsNotValid": counted.in_pkts_not_valid,
                "InPktsNotUsingSA": counted.in_pkts_not_using_sa,
                "InPktsUnusedSA": counted.in_pkts_unused_sa,
                "InOctetsValidated": counted.in_octets_validated,
                "InOctetsDecrypted": counted.in_octets_decrypted,
                "lowestPN": lowest.map(|numbers| numbers.map(|(lowest, _)| lowest)),
                "InPktsOK by SA": sas.map(|sa: SaCounters| sa.pkts_ok),
            });
            (sci.to_string(), peer)
        })
        .collect();
    json!({
        "sci": secy.settings().sci.to_string(),
        "InPktsUntagged": all.in_pkts_untagged,
        "InPktsNoTag": all.in_pkts_no_tag,
        "InPktsBadTag": all.in_pkts_bad_tag,
        "InPktsNoSCI": all.in_pkts_no_sci,
        "InPktsUnknownSCI": all.in_pkts_unknown_sci,
        "InPktsOverrun": all.in_pkts_overrun,
        "InPktsKeyAgreement": all.in_pkts_key_agreement,
        "OutPktsUntagged": all.out_pkts_untagged,
        "OutPktsTooLong": all.out_pkts_too_long,
        "OutPktsNoSA": all.out_pkts_no_sa,
        "OutPktsProtected": sent.out_pkts_protected,
        "OutPktsEncrypted": sent.out_pkts_encrypted,
        "OutOctetsProtected": sent.out_octets_protected,
        "OutOctetsEncrypted": sent.out_octets_encrypted,
        "Out by SA": sent_sas.map(|sa: SaCounters| sa.pkts_ok),
        "encodingSA": encoding.map(|(an, _)| an.get()),
        "nextPN": encoding.and_then(|(_, next)| next),
        "peers": peers,
        "interface": port(lan, no_room[0]),
        "tap": port(tap, no_room[1]),
    })
}

fn port(counted: &Statistics, no_room: u64) -> Value {
    json!({
        "received": counted.received,
        "transmitted": counted.transmitted,
        "refused": counted.refused,
        "no room": no_room,
        "overruns": counted.overruns,
        "starved": counted.starved,
        "too long": counted.too_long,
    })
}
