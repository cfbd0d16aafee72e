//! Claims on groups in the lab: the Axiom paper's configurations, a group of 10 000 listeners, an
//! eviction under loss.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    [energies(), times(), crowds()].into_iter().flatten().collect()
}

fn energies() -> Vec<Claim> {
    let uni = ["DTLS Uni-Uni", "DTLS Mul-Uni"];
    vec![
        "Energy of the sender in the configurations DTLS Uni-Uni and Mul-Uni, over its energy with \
            Axiom: the smaller ratio. Bar: the factor of 7 reported by Tiloca et al. (Axiom)"
            .claim("group-energy-sender", AtLeast(7.0), Seconds(5))
            .by(over_axiom("group-figure-11", &uni, "{energy_mj:.3} mJ")),
        "Energy of a listener in the configurations DTLS Uni-Uni and Mul-Uni, over its energy with \
            Axiom: the smaller ratio. Bar: our own target; Tiloca et al. (Axiom) report 6, and 6.5 \
            in Table II"
            .claim("group-energy-listener", AtLeast(5.5), Seconds(5))
            .by(over_axiom("group-figure-12", &uni, "{energy_mj:.3} mJ")),
        "Largest deviation, in %, of the four energy ratios of the two claims above from Table II \
            of Tiloca et al. (Axiom). Bar: our own target"
            .claim("group-energy-paper", AtMost(15.0), Seconds(5))
            .by(off_paper()),
    ]
}

fn times() -> Vec<Claim> {
    vec![
        "Duration of a first transaction with DTLS Uni-Uni over that with Axiom. Bar: our own \
            target; Tiloca et al. (Axiom) report 5, most of which is neither radio nor processor"
            .claim("group-time-uni-uni", AtLeast(1.3), Seconds(5))
            .by(over_axiom("group-figure-10", &["DTLS Uni-Uni"], "{duration_s:.3} s")),
        "Duration of a first transaction with DTLS Mul-Uni over that with Axiom. Bar: our own \
            target; Tiloca et al. (Axiom) report 6, most of which is neither radio nor processor"
            .claim("group-time-mul-uni", AtLeast(2.0), Seconds(5))
            .by(over_axiom("group-figure-10", &["DTLS Mul-Uni"], "{duration_s:.3} s")),
    ]
}

/// The least ratio of some configurations; the detail shows all rows, also the paper's.
fn over_axiom(figure: &str, configurations: &[&str], value: &str) -> Reading {
    let ratio = |configuration: &&str| format!("{}/times_axiom", row("lab", configuration));
    let ratios: Vec<_> = configurations.iter().map(ratio).collect();
    read(lab_figure(figure))
        .each(
            "rows[]",
            format!("{{configuration}} by the {{by}}: {value}, {{times_axiom:.2}} times Axiom's"),
        )
        .reduced(least, "", ratios.join(", "))
}

/// The row of a configuration as the lab measured it, or as the paper has it.
fn row(by: &str, configuration: &str) -> String {
    format!("rows[by={by}][configuration={configuration}]")
}

fn off_paper() -> Reading {
    let figures = [("group-figure-11", "the sender"), ("group-figure-12", "a listener")];
    let runs = figures.map(|(name, node)| (json!({ "node": node }), lab_figure(name)));
    let percents = ["DTLS Uni-Uni", "DTLS Mul-Uni"].map(|configuration| {
        let [ours, paper] =
            ["lab", "paper"].map(|by| format!("found/{}/times_axiom", row(by, configuration)));
        let percent = format!("100 * {ours} / {paper} - 100");
        let line = format!(
            "{configuration} at {{node}}: {{{ours}:.2}} times Axiom's, the paper {{{paper}:.2}}: \
             {{{percent}:+.1}} %"
        );
        (percent, line)
    });
    let reading = read(series(runs));
    let reading =
        percents.iter().fold(reading, |reading, (_, line)| reading.each("runs[]", line.clone()));
    let worst = percents.map(|(percent, _)| format!("|{percent}|"));
    reading.reduced(greatest, "runs[]", worst.join(", "))
}

fn crowds() -> Vec<Claim> {
    let growth = ["axiom-1.2", "compact"].map(|profile| {
        let of = |size| format!("rows[profile={profile}][listeners={size}]/sender_us_a_listener");
        format!("{} / {}", of(10_000), of(1000))
    });
    vec![
        "Heap, in bytes for each listener, of a sender that 10 000 listeners have answered: the \
            worse profile. Bar: our own target"
            .claim("group-crowd-memory", AtMost(128.0), Seconds(30))
            .by(crowd().reduced(greatest, "rows[listeners=10000]", "heap_bytes_a_listener")),
        "A sender's processor time for each of 10 000 listeners over that for each of 1000, \
            medians: the worse profile. Bar: our own target"
            .claim("group-crowd-time", AtMost(1.3), Seconds(30))
            .by(crowd().reduced(greatest, "", growth.join(", "))),
        "Number of members without the new keys after an eviction at 20 % loss, in groups of 10 to \
            10 000 members, both profiles. Bar: there may be none"
            .claim("group-rekey-step", AtMost(0.0), Seconds(40))
            .by(step()),
    ]
}

/// Heap and time that many listeners take at the sender, measured with a counting allocator.
fn crowd() -> Reading {
    read(GROUPS.run("crowd"))
        .each(
            "rows[]",
            "{profile}, {listeners} listeners: {heap_bytes_a_listener:.1} B of heap and \
             {sender_us_a_listener:.2} us at the sender for each, {listener_us:.2} us at the \
             listener; responses within {virtual_seconds:.0} s",
        )
        .needs_each("rows[]", "responses == listeners")
}

/// There is no figure if the evicted member reads on.
fn step() -> Reading {
    read(lab_figure("group-eviction"))
        .each(
            "rows[]",
            "{profile}, {members} members: {out_of_step} out of step after {duration_s:.2} s, \
             {by_announcement} in step by {announcements} announcements of {announcement_bytes} B, \
             {pulls} pulls",
        )
        .needs_each("rows[]", "opened_by_evicted == 0")
        .reduced(sum, "rows[]", "out_of_step")
}
