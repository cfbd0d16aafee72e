//! The claim on what record number masks reveal.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of 1-byte messages under Agg(16) after which an observer has seen two records with \
            one record number mask with probability 1/2. Bar: the 274 reported by Wagner et al."
            .claim("mask-repetition", AtLeast(274.0), Seconds(20))
            .by(repetition()),
    ]
}

/// The figure is that of the strong form with one-byte record numbers: the best of our forms, with
/// the length of record numbers that reveals more. There is no figure if records look alike by
/// chance.
fn repetition() -> Reading {
    let line = |half: &str| {
        format!(
            "{{masks}}, numbers of {{number_bytes}} B, {{epochs}} epochs: {half}; alike but for \
             the number field: the same mask in {{alike_same}} of {{alike}} pairs, of all pairs in \
             1 of {{pairs / pairs_same:.1}}"
        )
    };
    read(CAMPAIGN.run("masks"))
        .line(
            "messages until half of all epochs had two short records that look the same and so \
             have the same mask",
        )
        .each("rows[half!=null]", line("{half} (95 %: {interval/0} to {interval/1})"))
        .each("rows[half=null]", line("none in {messages}"))
        .needs_each("rows[]", "mistaken == 0")
        .figure("rows[masks=strong][number_bytes=1]/half")
}
