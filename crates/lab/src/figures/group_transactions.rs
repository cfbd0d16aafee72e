//! Figures 10 to 12 and Tables I and II of the paper on secure groups: the first transaction of a
//! group.

use super::prelude::*;
use crate::groups::{
    CONFIGURATIONS, Configuration, MeanAndDeviation, Outcome, Spending, Summary, Survey,
};
use core::time::Duration;

pub(super) const DURATION: Figure = Figure {
    name: "group-figure-10",
    title: "How long a first group transaction takes",
    source: PaperItem { paper: AXIOM, item: "Figure 10" },
    about: "One request to three listeners and their responses, with the handshakes before them, \
            over always-on 802.15.4. The CC2538 nodes compute as slowly as the paper's, and \
            listeners respond to a multicast request after up to 0.25 s. In the paper (section \
            8.2.2) Axiom is 5 times faster than Uni-Uni and 6 times faster than Mul-Uni. This is \
            not so here: the paper's handshakes take 0.27 s and more, but by its Table II radio \
            and processor are active for only 53 ms of that, and nothing else takes time here. The \
            paper's bars are the sums of its Table I.",
    make: duration,
};

pub(super) const TIMES: Figure = Figure {
    name: "group-table-1",
    title: "Handshakes and messages of a first group transaction",
    source: PaperItem { paper: AXIOM, item: "Table I" },
    about: "Durations in seconds with their standard deviations. The paper's first handshake takes \
            twice as long as the others because its sender initializes its state, which takes no \
            time here.",
    make: times,
};

pub(super) const SENDER: Figure = Figure {
    name: "group-figure-11",
    title: "What the sender spends on a first group transaction",
    source: PaperItem { paper: AXIOM, item: "Figure 11" },
    about: "Energy as the paper counts it: of the processor, of sending, and of receiving frames \
            for the node. In the paper (section 8.2.3), Axiom uses 7 times less energy than \
            Uni-Uni and Mul-Uni. The data also has the energy of idle listening of an always-on \
            radio, which the paper leaves out.",
    make: |options| energies(options, |outcome| outcome.sender, 0),
};

pub(super) const LISTENER: Figure = Figure {
    name: "group-figure-12",
    title: "What a listener spends on a first group transaction",
    source: PaperItem { paper: AXIOM, item: "Figure 12" },
    about: "Energy as in Figure 11. In the paper (section 8.2.3), Axiom uses 6 times less energy \
            than Uni-Uni and Mul-Uni.",
    make: |options| energies(options, |outcome| outcome.listener, 1),
};

pub(super) const DETAIL: Figure = Figure {
    name: "group-table-2",
    title: "Where energy goes in a first group transaction",
    source: PaperItem { paper: AXIOM, item: "Table II" },
    about: "In mJ. Key material operations are handshakes, or the derivation of individual keys.",
    make: detail,
};

/// The number of runs in the paper.
const RUNS: u32 = 20;

/// The paper's Table I: durations of three handshakes and of the messages, in s. For one of the two
/// configurations without security, the text has a value.
const PAPER_TIMES: [(&str, [Option<f64>; 4]); 4] = [
    ("CoAP Uni", [None, None, None, Some(0.064)]),
    ("DTLS Uni-Uni", [Some(0.552), Some(0.264), Some(0.280), Some(0.080)]),
    ("DTLS Mul-Uni", [Some(0.560), Some(0.280), Some(0.296), Some(0.208)]),
    ("DTLS Mul-Mul", [None, None, None, Some(0.224)]),
];

/// The paper's Table II, in mJ, for the sender and for a listener: CPU, sending and receiving for
/// key material, then CPU, sending and receiving for messages.
#[expect(clippy::approx_constant, reason = "3.14 mJ is what the paper measured")]
const PAPER_ENERGIES: [(&str, [[f64; 6]; 2]); 5] = [
    ("CoAP Uni", [[0.0, 0.0, 0.0, 0.65, 0.67, 0.40], [0.0, 0.0, 0.0, 0.10, 0.15, 0.19]]),
    ("CoAP Mul", [[0.0, 0.0, 0.0, 0.46, 0.21, 0.40], [0.0, 0.0, 0.0, 0.10, 0.15, 0.19]]),
    ("DTLS Uni-Uni", [[2.09, 3.91, 3.14, 0.77, 0.61, 0.56], [0.78, 1.26, 1.08, 0.13, 0.22, 0.17]]),
    ("DTLS Mul-Uni", [[2.09, 3.91, 3.14, 0.54, 0.20, 0.56], [0.78, 1.26, 1.08, 0.14, 0.22, 0.16]]),
    ("DTLS Mul-Mul", [[0.12, 0.0, 0.0, 0.54, 0.20, 0.56], [0.04, 0.0, 0.0, 0.14, 0.22, 0.16]]),
];

/// The configuration of Axiom, which all others are compared with.
const AXIOM_ITSELF: &str = "DTLS Mul-Mul";

type Surveyed = Vec<(&'static Configuration, Summary)>;

fn survey(options: &FigureOptions) -> Result<Surveyed, Error> {
    let runs = options.runs.min(RUNS);
    let surveys = CONFIGURATIONS.iter().map(|configuration| {
        Ok((configuration, Survey { configuration, runs, seed: options.seed }.run()?))
    });
    surveys.collect()
}

fn paper_times(name: &str) -> Option<[Option<f64>; 4]> {
    PAPER_TIMES.iter().find(|(known, _)| *known == name).map(|(_, times)| *times)
}

fn paper_energies(name: &str, node: usize) -> Option<[f64; 6]> {
    PAPER_ENERGIES.iter().find(|(known, _)| *known == name).map(|(_, both)| both[node])
}

/// The value of one configuration, measured here or in the paper, and its ratio to the value of
/// Axiom.
struct ComparisonRow {
    configuration: &'static Configuration,
    by: &'static str,
    value: MeanAndDeviation,
    times: f64,
    outcome: Option<Outcome>,
}

fn compare(
    surveyed: &Surveyed,
    ours: impl Fn(&Outcome) -> f64,
    paper: impl Fn(&str) -> Option<f64>,
) -> Vec<ComparisonRow> {
    let found = surveyed.iter().find(|(configuration, _)| configuration.name == AXIOM_ITSELF);
    let axiom = found.map_or(f64::NAN, |(_, summary)| summary.of(&ours).mean);
    let paper_axiom = paper(AXIOM_ITSELF).unwrap_or(f64::NAN);
    let mut compared = Vec::new();
    for (configuration, summary) in surveyed {
        let value = summary.of(&ours);
        let (times, outcome) = (value.mean / axiom, summary.outcomes.first().cloned());
        compared.push(ComparisonRow { configuration, by: "lab", value, times, outcome });
        if let Some(mean) = paper(configuration.name) {
            let (value, times) =
                (MeanAndDeviation { mean, deviation: f64::NAN }, mean / paper_axiom);
            compared.push(ComparisonRow {
                configuration,
                by: "paper",
                value,
                times,
                outcome: None,
            });
        }
    }
    compared
}

fn known(value: f64) -> Cell {
    if value.is_nan() { Cell::Missing } else { Cell::Number(value) }
}

fn duration(options: &FigureOptions) -> Result<FigureData, Error> {
    let surveyed = survey(options)?;
    let paper = |name: &str| paper_times(name).map(|times| times.iter().flatten().sum());
    let compared = compare(&surveyed, |outcome| outcome.duration.as_secs_f64(), paper);
    let rows = compared.into_iter().map(|one| {
        let sent =
            one.outcome.map(|outcome| (outcome.sent_in_handshakes, outcome.sent_in_messages));
        let of = |value: fn(&(crate::handshakes::Sent, crate::handshakes::Sent)) -> u32| {
            Cell::from(sent.as_ref().map(value))
        };
        vec![
            one.by.into(),
            one.configuration.name.into(),
            one.value.mean.into(),
            known(one.value.deviation),
            one.times.into(),
            of(|(handshakes, _)| handshakes.datagrams),
            of(|(handshakes, _)| handshakes.bytes),
            of(|(_, messages)| messages.datagrams),
            of(|(_, messages)| messages.bytes),
        ]
    });
    let columns = [
        ("by", "who measured it"),
        ("configuration", "how messages are sent and secured; the last three are ours"),
        ("duration_s", "mean from the first datagram until the last response is processed"),
        ("deviation_s", "standard deviation over the runs"),
        ("times_axiom", "ratio of the duration to that of DTLS Mul-Mul"),
        ("handshake_datagrams", "datagrams of all handshakes that all nodes sent"),
        ("handshake_bytes", "bytes of UDP payload in the handshakes' datagrams"),
        ("message_datagrams", "datagrams of requests and responses that all nodes sent"),
        ("message_bytes", "bytes of UDP payload in the messages' datagrams"),
    ];
    let table = Table::new(&columns, rows.collect());
    Ok(bars(table, options, ("duration_s", "deviation_s", "duration, in s"), 1.4))
}

fn bars(
    table: Table,
    options: &FigureOptions,
    (column, error, label): (&'static str, &'static str, &'static str),
    to: f64,
) -> FigureData {
    let plot = Plot {
        subtitle: format!(
            "{} runs per bar, with standard deviations; beside them the paper's values",
            options.runs.min(RUNS)
        ),
        marks: Marks::Bars(error),
        series: "by",
        emphasis: None,
        x: Axis::linear("configuration", "configuration", 8.0),
        y: Axis::linear(column, label, to),
    };
    FigureData::plotted(table, plot)
}

/// Selects the node whose spending is shown.
type NodeSelector = fn(&Outcome) -> Spending;

fn energies(options: &FigureOptions, of: NodeSelector, node: usize) -> Result<FigureData, Error> {
    let surveyed = survey(options)?;
    let paper = |name: &str| paper_energies(name, node).map(|parts| parts.iter().sum());
    let compared = compare(&surveyed, |outcome| of(outcome).sum(), paper);
    let rows = compared.into_iter().map(|one| {
        let idle = one.outcome.map(|outcome| of(&outcome).idle);
        vec![
            one.by.into(),
            one.configuration.name.into(),
            one.value.mean.into(),
            known(one.value.deviation),
            one.times.into(),
            idle.into(),
        ]
    });
    let columns = [
        ("by", "who measured it"),
        ("configuration", "how messages are sent and secured; the last three are ours"),
        ("energy_mj", "mean energy of processor, sending and receiving"),
        ("deviation_mj", "standard deviation over the runs"),
        ("times_axiom", "ratio of the energy to that of DTLS Mul-Mul"),
        ("idle_mj", "what an always-on radio spends on idle listening besides, in the first run"),
    ];
    let table = Table::new(&columns, rows.collect());
    let to = if node == 0 { 12.0 } else { 4.0 };
    Ok(bars(table, options, ("energy_mj", "deviation_mj", "energy, in mJ"), to))
}

fn times(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for (configuration, summary) in survey(options)? {
        let paper = paper_times(configuration.name);
        let mut row: Vec<Cell> = vec![configuration.name.into()];
        for at in 0..3 {
            let took = summary
                .of(|outcome| outcome.handshakes.get(at).map_or(f64::NAN, Duration::as_secs_f64));
            row.extend([known(took.mean), known(took.deviation)]);
            row.push(paper.and_then(|paper| paper[at]).into());
        }
        let messages = summary.of(|outcome| outcome.messages.as_secs_f64());
        row.extend([messages.mean.into(), messages.deviation.into()]);
        row.push(paper.and_then(|paper| paper[3]).into());
        rows.push(row);
    }
    let columns = [
        ("configuration", "how messages are sent and secured; the last three are ours"),
        ("handshake_1_s", "mean of the first handshake"),
        ("deviation_1_s", "its standard deviation"),
        ("paper_1_s", "the paper's"),
        ("handshake_2_s", "mean of the second handshake"),
        ("deviation_2_s", "its standard deviation"),
        ("paper_2_s", "the paper's"),
        ("handshake_3_s", "mean of the third handshake"),
        ("deviation_3_s", "its standard deviation"),
        ("paper_3_s", "the paper's"),
        ("messages_s", "mean from the first request to the last response"),
        ("messages_deviation_s", "its standard deviation"),
        ("paper_messages_s", "the paper's"),
    ];
    Ok(FigureData::table(Table::new(&columns, rows)))
}

fn detail(options: &FigureOptions) -> Result<FigureData, Error> {
    let surveyed = survey(options)?;
    let mut rows = Vec::new();
    let nodes: [(&str, NodeSelector); 2] =
        [("sender", |outcome| outcome.sender), ("listener", |outcome| outcome.listener)];
    for (place, (node, of)) in nodes.into_iter().enumerate() {
        for (configuration, summary) in &surveyed {
            let mean = |value: fn(Spending) -> f64| summary.of(|outcome| value(of(outcome))).mean;
            let ours = [
                mean(|spent| spent.keys.cpu),
                mean(|spent| spent.keys.send),
                mean(|spent| spent.keys.receive),
                mean(|spent| spent.messages.cpu),
                mean(|spent| spent.messages.send),
                mean(|spent| spent.messages.receive),
            ];
            let paper = paper_energies(configuration.name, place);
            for (by, values) in [("lab", Some(ours)), ("paper", paper)] {
                let Some(values) = values else { continue };
                let mut row: Vec<Cell> = vec![node.into(), configuration.name.into(), by.into()];
                row.extend(values.map(Cell::Number));
                rows.push(row);
            }
        }
    }
    let columns = [
        ("node", "the sender, or the mean of the listeners"),
        ("configuration", "how messages are sent and secured; the last three are ours"),
        ("by", "who measured it"),
        ("keys_cpu_mj", "processor, key material operations"),
        ("keys_send_mj", "sending, key material operations"),
        ("keys_receive_mj", "receiving, key material operations"),
        ("messages_cpu_mj", "processor, messages"),
        ("messages_send_mj", "sending, messages"),
        ("messages_receive_mj", "receiving, messages"),
    ];
    Ok(FigureData::table(Table::new(&columns, rows)))
}
