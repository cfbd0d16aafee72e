//! Claims on the command as a user meets it: the demo, and error messages on bad input.

use super::bad_starts;
use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Goodput in the demo with one tag for 16 messages of 10 B, over goodput with one tag each. \
            Bar: our own target"
            .claim("demo-goodput-agg16", AtLeast(1.9), Seconds(20))
            .by(goodput("agg:16")),
        "Goodput in the demo with one tag for 8 messages of 10 B, over goodput with one tag each. \
            Bar: our own target"
            .claim("demo-goodput-agg8", AtLeast(1.8), Seconds(20))
            .by(goodput("agg:8")),
        "Number of messages delivered by the demo that differ from those sent, of 20 000 a \
            session. Bar: there may be none"
            .claim("demo-identical", AtMost(0.0), Seconds(20))
            .by(identical()),
        "Number of bad command lines and files that end the command with exit code 2 and one line \
            on standard error that names the mistake. Bar: all that are tried"
            .claim("errors-exit-2", AtLeast(bad_starts::COUNT as f64), Seconds(10))
            .by(bad_starts::measure),
    ]
}

/// The demo at default settings, where each session must have sent enough.
fn demo() -> Reading {
    read(LIGHTSEAL.run("demo --json")).needs_each("sessions[]", "sent >= 20000")
}

fn goodput(scheme: &str) -> Reading {
    let (plain, shared) = ("sessions[scheme=off]", format!("sessions[scheme={scheme}]"));
    demo()
        .line(format!(
            "goodput {{{plain}/goodput:.4}} with one tag each, {{{shared}/goodput:.4}} with \
             {scheme}; {{{plain}/delivered}} and {{{shared}/delivered}} of {{{shared}/sent}} \
             messages delivered, {{{plain}/lost_by_relay}} and {{{shared}/lost_by_relay}} records \
             lost by the relay"
        ))
        .figure(format!("{shared}/goodput / {plain}/goodput"))
}

fn identical() -> Reading {
    demo()
        .each("sessions[]", "{scheme}: {sent} sent, {delivered} delivered, {identical} as sent")
        .needs_each("sessions[]", "delivered > 0")
        .needs("#sessions[scheme=off] + #sessions[scheme=agg:8] + #sessions[scheme=agg:16] == 3")
        .reduced(sum, "sessions[]", "delivered - identical")
}
