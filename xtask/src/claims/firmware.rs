//! Claims on boards with a Cortex-M3, which QEMU emulates.

use super::prelude::*;
use crate::firmware::campaign;

/// The handshakes of each version.
const HANDSHAKES: u32 = 1000;

/// The datagrams of the attack.
const MUTATIONS: u64 = 100_000;

pub(super) fn claims() -> Vec<Claim> {
    let handshakes = [("1.3", "13", 130), ("1.2", "12", 150)].map(|(version, short, seconds)| {
        let found = read(move || campaign::measure_handshakes(version, HANDSHAKES))
            .line("{handshakes} handshakes, {incomplete} incomplete; {lost} datagrams lost");
        format!(
            "How many of {HANDSHAKES} DTLS {version} handshakes of an emulated Cortex-M3 with the \
             host, half of them as client and half as server, are not completed at 10 % loss. Bar: \
             there may be none"
        )
        .claim(format!("firmware-handshakes-{short}"), AtMost(0.0), Seconds(seconds))
        .by(found.figure("incomplete"))
    });
    let mutations = read(|| campaign::measure_mutations(MUTATIONS))
        .line(
            "{arrived} altered, replayed and random datagrams arrived; {completed} handshakes and \
             {echoed} payloads succeeded beside them",
        )
        .needs(format!("arrived >= {MUTATIONS}"))
        .figure("faults");
    let mutations = format!(
        "Number of faults of an emulated Cortex-M3, and of payloads that were delivered but never \
         sent, or delivered twice, while {MUTATIONS} altered, replayed and random datagrams arrive \
         in both roles and versions. Bar: there may be none"
    )
    .claim("firmware-mutations", AtMost(0.0), Seconds(600))
    .by(mutations);
    let groups = read(campaign::measure_groups)
        .line(
            "{groups} groups of {boards} boards: {requests} requests were delivered {delivered} times \
             and missed {missed} times; {lost} datagrams were lost, {altered} were an attacker's",
        )
        .figure("faults");
    let groups = "Number of payloads that members of multicast groups on emulated Cortex-M3 boards \
                  delivered but nobody sent, or delivered twice, and of groups that missed a payload \
                  without loss, in both profiles, on the heap and in fixed memory, without and with \
                  signatures, pairwise keys, new keys, loss and an attacker. Bar: there may be none"
        .claim("firmware-group", AtMost(0.0), Seconds(200))
        .by(groups);
    handshakes.into_iter().chain([mutations, groups]).collect()
}
