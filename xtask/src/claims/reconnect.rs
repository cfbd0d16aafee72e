//! Claims on how soon a dead server is noticed, and on live servers that are taken for dead.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Longest time, in seconds, from kill -9 of the server proxy to the next answer, of seven \
            kills; the application sends twice a second and the server is away for 1 to 4 s. Bar: \
            our own target"
            .claim("reconnect-after-kill", AtMost(5.0), Seconds(90))
            .by(after_kill()),
        "Number of times that a live server is taken for dead at 5 % loss, in ten virtual hours of \
            each of six flows: dense and sparse, one-way and two-way. Bar: there may be none"
            .claim("reconnect-false-alarms-loss", AtMost(0.0), Seconds(60))
            .by(virtual_time().figure("loss/false_alarms")),
        "Number of times that a live server is taken for dead over a round trip of 3 s, without \
            loss and at 5 %, in ten virtual hours of each flow. Bar: there may be none"
            .claim("reconnect-false-alarms-rtt", AtMost(0.0), Seconds(60))
            .by(virtual_time().figure("slow/false_alarms")),
    ]
}

/// There must be one warning for each kill.
fn after_kill() -> Reading {
    read(|| python("interop/reconnect.py"))
        .line("{}")
        .needs("named == #seconds[]")
        .needs("back == #seconds[]")
        .figure("longest_s")
}

fn virtual_time() -> Reading {
    read(LIVENESS.run("")).line("{}")
}
