//! Claims on groups that are attacked by their own members.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Longest time, in seconds, from an eviction until the last sender has left the old epoch, \
            over profiles, suites and policies, when the evicted device has used up the \
            controller's record numbers and the controller's datagrams are lost (none, 20 %, the \
            first second, both). Bar: our own target"
            .claim("group-evict-seconds", AtMost(5.0), Seconds(120))
            .by(evicted(HEARD).figure("senders_seconds")),
        "Longest time, in seconds, from an eviction until the last member has left the old epoch, \
            when nothing that the controller multicasts arrives. Bar: our own target"
            .claim("group-evict-jammed", AtMost(300.0), Seconds(120))
            .by(evicted(JAMMED).figure("all_seconds")),
        "Number of records sealed in the new epoch that the evicted device opens, plus members \
            that never enter that epoch, in the evictions of the two claims above. Bar: there may \
            be none"
            .claim("group-evict-opened", AtMost(0.0), Seconds(240))
            .by(opened()),
        "Number of keys given to, and memberships after a restart of, a device that was evicted or \
            revoked while its join was waiting. Bar: there may be none"
            .claim("group-evict-waiting-join", AtMost(0.0), Seconds(10))
            .by(read(WAITING).figure("keys")),
        "Requests that listeners receive, in %, while devices join again and again for ten minutes \
            and 5 % of the controller's announcements are lost. Bar: our own target"
            .claim("group-rejoins", AtLeast(99.0), Seconds(20))
            .by(read(REJOINS).each("lines[]", "{}").figure("heard_percent")),
    ]
}

const HEARD: LongTest = LongTest {
    package: "lightseal-group",
    file: "eviction",
    name: "senders_leave_the_epoch_of_an_evicted_device_within_five_seconds",
    // Number of seeds that are run for each policy and kind of loss.
    length: ("LIGHTSEAL_SEEDS", 25),
    report: "LIGHTSEAL_REPORT",
};
const JAMMED: LongTest = LongTest {
    name: "where_nothing_of_the_controller_arrives_members_ask_it_from_time_to_time",
    ..HEARD
};
const WAITING: LongTest = LongTest {
    package: "lightseal-group-host",
    file: "attack",
    name: "a_join_that_waits_is_refused_when_its_device_is_evicted_or_revoked",
    ..HEARD
};
const REJOINS: LongTest = LongTest {
    file: "attack",
    name: "devices_that_join_again_and_again_keep_nobody_from_hearing",
    ..HEARD
};

/// There is no figure if a member never left the old epoch.
fn evicted(test: LongTest) -> Reading {
    read(test)
        .line(
            "{trials} evictions: the last sender after {senders_seconds:.2} s, the last member \
             after {all_seconds:.2} s",
        )
        .needs("behind == 0")
}

fn opened() -> Reading {
    read(series([HEARD, JAMMED].map(|test| (json!({}), test))))
        .each("runs[]", "{found/trials} evictions: {found/opened} opened, {found/behind} behind")
        .reduced(sum, "runs[]", "found/opened + found/behind")
}
