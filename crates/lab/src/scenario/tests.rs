use super::*;
use crate::figure::Cell;
use crate::handshakes::{Cost, Summary, Totals};
use std::path::Path;

const LINE: &str = r#"
[network]
topology = "line"
nodes = 3

[link]
layer = "tsch"
slotframe = 11
cells = 1

[handshake]
profile = "1.3"
"#;

fn grid(text: &str) -> Result<Grid<'_>, Mistake> {
    Grid::parse(Path::new("a.toml"), text, Instead { runs: Some(4), seed: None })
}

fn scenario(text: &str) -> Scenario {
    grid(text).and_then(|grid| grid.scenario(0)).expect("a good scenario")
}

/// The line and the description of the mistake in a bad scenario.
fn mistake(text: &str) -> String {
    grid(text).expect_err("a bad scenario").to_string()
}

#[test]
fn what_is_left_out_has_its_default() {
    let scenario = scenario(LINE);
    assert_eq!((scenario.seed, scenario.runs, scenario.pairs.len()), (1, 4, 1));
    assert_eq!(scenario.pairs[0], [NodeId(2), NodeId(0)]);
    assert_eq!(scenario.window, Duration::from_millis(110));
    assert_eq!(scenario.network.channel, crate::channels::ChannelModel::PERFECT);
    assert!(scenario.network.lost_acknowledgements && !scenario.network.computes);
}

#[test]
fn runs_are_the_same_on_any_threads_and_each_can_be_had_alone() {
    let scenario = scenario(&format!("{LINE}\n[channel]\nmodel = 'bernoulli'\ndelivery = 0.8"));
    let on = |threads| scenario.run(NonZeroUsize::new(threads)).expect("the simulation runs");
    let runs = on(1);
    assert_eq!(runs, on(2));
    assert_ne!(runs[0].outcomes, runs[1].outcomes);
    let alone = Scenario { runs: 1, seed: runs[2].seed, ..scenario };
    assert_eq!(alone.run(None).expect("the simulation runs"), runs[2..3]);
}

#[test]
fn everybody_is_asked_whom_the_file_says() {
    let pairs = |pairs: &str| {
        let text = LINE.replace("nodes = 3", "nodes = 4");
        let asked = scenario(&format!("{text}pairs = '{pairs}'")).pairs;
        asked.iter().map(|[client, server]| (client.0, server.0)).collect::<Vec<_>>()
    };
    assert_eq!(pairs("ends"), [(3, 0)]);
    assert_eq!(pairs("neighbours"), [(1, 0), (3, 2)]);
    assert_eq!(pairs("all-to-root"), [(1, 0), (2, 0), (3, 0)]);
}

#[test]
fn mistakes_are_pointed_at() {
    let with = |from: &str, to: &str| mistake(&LINE.replace(from, to));
    assert_eq!(with("nodes = 3", "nodes = 1"), "a.toml:4: network.nodes: must be from 2 to 10000");
    assert_eq!(with("cells = 1", ""), "a.toml:6: link.cells: is missing");
    assert_eq!(with("cells = 1", "cells = 9"), "a.toml:9: link.cells: must be from 1 to 5 here");
    assert_eq!(
        with("cells = 1", "cells = 'f64'"),
        "a.toml:9: link.cells: invalid type: string \"f64\", expected a whole number that is not \
         negative"
    );
    assert!(with("cells = 1", "cell = 1").starts_with("a.toml:9: link.cell: unknown field `cell`"));
    assert!(with("\"tsch\"", "'fax'").starts_with("a.toml:7: link.layer: unknown variant `fax`"));
    assert!(with("\"1.3\"", "'1.4'").starts_with("a.toml:12: handshake.profile: must be one of "));
    assert!(with("[handshake]", "[shake]").starts_with("a.toml:11: shake: unknown field `shake`"));
    assert_eq!(
        with("[link]", "link = 1\n[other]"),
        "a.toml:6: network.link: unknown field link, expected one of nodes"
    );
    assert!(mistake("\nseed 1").starts_with("a.toml:2: "));
    assert_eq!(mistake(""), "a.toml:1: network: is missing");
    assert_eq!(mistake("link = 4"), "a.toml:1: link: must be a table");
}

#[test]
fn mistakes_in_tables_of_a_kind_are_pointed_at_too() {
    let with = |more: &str| mistake(&format!("{LINE}\n{more}"));
    let rule = "[[rule]]\nfrom = 0\nto = 1\nchannel = { model = 'bernoulli', delivery = 1 }\n";
    assert!(grid(&format!("{LINE}\n{rule}")).is_ok());
    assert_eq!(
        with(&rule.replace("to = 1", "to = 2")),
        "a.toml:16: rule.to: must be a node that hears node 0"
    );
    assert_eq!(
        with(&rule.replace("to = 1", "to = 3")),
        "a.toml:16: rule.to: must be a node, 0 to 2"
    );
    assert_eq!(
        with(&rule.replace("= 1 }", "= 2 }")),
        "a.toml:17: rule.channel.delivery: must be from 0 to 1"
    );
    let channel = "[channel]\nmodel = 'gilbert-elliott'\nloss = 0.1\n";
    assert_eq!(with(channel), "a.toml:14: channel.burst: is missing");
    assert_eq!(
        with(&format!("{channel}burst = 'x'")),
        "a.toml:17: channel.burst: invalid type: string \"x\", expected a number"
    );
    assert_eq!(with("[channel]\nacknowledgements = true"), "a.toml:14: channel.model: is missing");
    assert_eq!(
        with("[device]\nname = 'wismote'\nfile = 'x'"),
        "a.toml:16: device.file: must not be set with a name"
    );
}

#[test]
fn a_grid_has_the_product_of_its_values_in_the_order_of_the_file() {
    let text =
        format!("{LINE}\n[sweep]\nnetwork.nodes = [2, 3]\n'handshake.profile' = ['1.2', 'cid']");
    let grid = grid(&text).expect("a good grid");
    assert_eq!(grid.fields().collect::<Vec<_>>(), ["network.nodes", "handshake.profile"]);
    let points: Vec<_> = (0..grid.points())
        .map(|point| {
            let scenario = grid.scenario(point).expect("a good point");
            (scenario.network.topology.len(), scenario.profile.name)
        })
        .collect();
    assert_eq!(points, [(2, "1.2"), (2, "cid"), (3, "1.2"), (3, "cid")]);
    assert_eq!(grid.values(2), [Cell::Integer(3), "1.2".into()]);
}

#[test]
fn whole_tables_can_be_swept_and_fields_that_are_not_there() {
    let text = format!(
        "{LINE}\n[sweep]\nlink = [{{ layer = 'always-on', retries = 3 }}]\n\
         channel = [{{ model = 'bernoulli', delivery = 0.5 }}]\ndevice.computes = [true]"
    );
    let scenario = scenario(&text);
    assert!(matches!(scenario.network.layer, crate::links::Layer::AlwaysOn(_)));
    assert!(scenario.network.computes);
}

#[test]
fn mistakes_of_sweeps_are_pointed_at() {
    let with = |sweep: &str| mistake(&format!("{LINE}\n[sweep]\n{sweep}"));
    assert_eq!(with("link.cells = []"), "a.toml:15: sweep.link.cells: must have a value");
    assert_eq!(with("link.cells = 1"), "a.toml:15: sweep.link.cells: must be a list of values");
    assert_eq!(with("link.cells = [1,\n 9]"), "a.toml:16: link.cells: must be from 1 to 5 here");
    assert!(with("link.cell = [1]").starts_with("a.toml:15: link.cell: unknown field `cell`"));
    assert!(with("links.a = [1]").starts_with("a.toml:15: links.a: unknown field `links`"));
    assert!(
        with("handshake.profile.x = [1]")
            .starts_with("a.toml:15: sweep.handshake.profile.x: there is no such field")
    );
    assert!(with("runs = [1]").starts_with("a.toml:15: sweep.runs: cannot be set on the command"));
    assert!(with("sweep.a = [1]").starts_with("a.toml:15: sweep.sweep.a: there is no such field"));
    let many = format!("seed = [{}]", "1,".repeat(100_001));
    assert_eq!(with(&many), "a.toml:15: sweep.seed: makes the grid larger than 100000 points");
}

#[test]
fn device_files_are_read_and_checked() {
    let directory = std::env::temp_dir().join(format!("lab-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut text = include_str!("../../devices/wismote.toml").to_owned();
    let scenario = format!("{LINE}\n[device]\nfile = 'mine.toml'");
    let mut read = |from: &str, to: &str| {
        text = text.replace(from, to);
        std::fs::write(directory.join("mine.toml"), &text).unwrap();
        let path = directory.join("a.toml");
        Grid::parse(&path, &scenario, Instead::default()).map(|grid| grid.points())
    };
    let good = read("volts = 2.8", "volts = 3.3");
    let bad = read("megahertz = 12.0", "megahertz = 0").unwrap_err();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(good, Ok(1));
    assert!(bad.file.ends_with("mine.toml") && bad.line > 10, "{bad}");
    assert_eq!(bad.field, "cpu.megahertz");
}

fn summary_of(scenario: &Scenario, runs: &[ScenarioRun]) -> Summary {
    let mut totals = Totals::default();
    for outcome in runs.iter().flat_map(|run| &run.outcomes) {
        totals.add(&Cost::of(outcome, &scenario.network.device));
    }
    totals.summary()
}

#[test]
fn rows_have_a_cell_for_each_column() {
    let scenario = scenario(&LINE.replace("\"1.3\"", "'tinydtls'"));
    let runs = scenario.run(None).expect("the simulation runs");
    let mut rows = Rows::new(["point"], HANDSHAKE_COLUMNS);
    let of = |run| handshake_rows(&[Cell::Integer(0)], &scenario, run);
    rows.rows = runs.iter().flat_map(of).collect();
    assert_eq!(rows.rows.len(), 4);
    assert!(rows.rows.iter().all(|row| row.len() == rows.columns.len()));
    // A handshake has ten datagrams, and one more for each retransmission.
    assert!(rows.rows.iter().all(|row| row[6] == Cell::Integer(10) && row[8] == Cell::Integer(0)));
    let mut summary = Rows::new([], SUMMARY_COLUMNS);
    summary.add_summary(&[], &summary_of(&scenario, &runs));
    assert_eq!(summary.rows[0].len(), summary.columns.len());
    let json: serde_json::Value = serde_json::from_str(&summary.json().unwrap()).unwrap();
    assert_eq!((&json[0]["handshakes"], &json[0]["datagrams"]), (&4.into(), &10.0.into()));
    assert_eq!(rows.csv().unwrap().lines().count(), 5);
}

#[test]
fn a_handshake_that_fails_has_a_row_without_a_duration() {
    let scenario = scenario(&format!("{LINE}\n[channel]\nmodel = 'bernoulli'\ndelivery = 0"));
    let runs = scenario.run(None).expect("the simulation runs");
    let row = handshake_rows(&[], &scenario, &runs[0]).next().expect("one handshake");
    assert_eq!((&row[3], &row[4]), (&Cell::Integer(0), &Cell::Missing));
    assert!(matches!(row[7], Cell::Integer(again) if again > 0));
    let mut summary = Rows::new([], SUMMARY_COLUMNS);
    summary.add_summary(&[], &summary_of(&scenario, &runs));
    assert_eq!(summary.rows[0][1..4], [0.0.into(), Cell::Missing, Cell::Missing]);
}

#[test]
fn frames_on_the_air_are_lines_of_json() {
    let scenario = scenario(LINE);
    let recording = scenario.capture().expect("the simulation runs");
    let lines: Vec<serde_json::Value> = recording
        .frames
        .iter()
        .map(|frame| serde_json::from_str(&frame_line(frame)).expect("JSON"))
        .collect();
    assert_eq!((&lines[0]["from"], &lines[0]["to"]), (&2.into(), &1.into()));
    assert!(lines.iter().any(|line| line["bytes"] == 5 && line["from"].is_null()));
}

#[test]
fn the_schema_in_the_documentation_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario.schema.json");
    let kept = std::fs::read_to_string(path).expect("the schema file can be read");
    assert!(kept == schema(), "lightseal lab run --schema > docs/scenario.schema.json");
}

/// Every field in the example scenarios is in the schema.
#[test]
fn the_schema_knows_what_examples_say() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).expect("the directory of examples can be read") {
        let path = entry.expect("readable").path();
        let text = read(&path).expect("readable");
        let instead = Instead { runs: Some(2), seed: None };
        let grid = Grid::parse(&path, &text, instead).unwrap_or_else(|mistake| panic!("{mistake}"));
        let runs = grid.scenario(0).expect("checked").run(None).expect("the simulation runs");
        assert!(
            runs.iter().flat_map(|run| &run.outcomes).any(|outcome| outcome.duration.is_some())
        );
        let table: toml::Table = text.parse().expect("checked");
        let value = serde_json::to_value(table).expect("JSON");
        conforms(&schema, &schema, &value, &path.display().to_string());
        count += 1;
    }
    assert!(count >= 6);
}

/// Checks a value against a schema, for the part of JSON Schema that [`schema`] uses.
fn conforms(
    root: &serde_json::Value,
    schema: &serde_json::Value,
    value: &serde_json::Value,
    at: &str,
) {
    let found = faults(root, schema, value, at);
    assert!(found.is_none(), "{found:?}");
}

fn faults(
    root: &serde_json::Value,
    schema: &serde_json::Value,
    value: &serde_json::Value,
    at: &str,
) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let place = name.strip_prefix('#').expect("a place in the schema");
        return faults(root, root.pointer(place).expect("the referenced schema exists"), value, at);
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Some(format!("{at}: not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        return Some(format!("{at}: not one of {}", schema["enum"]));
    }
    let kind = match value {
        serde_json::Value::String(_) => "string",
        serde_json::Value::Bool(_) => "boolean",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
        serde_json::Value::Number(number) if number.is_f64() => "number",
        _ => "integer",
    };
    let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let fits = |wanted: &serde_json::Value| {
        wanted.is_null() || wanted == kind || (wanted == "number" && kind == "integer")
    };
    if !kinds.iter().any(fits) {
        return Some(format!("{at}: {kind} is not {}", schema["type"]));
    }
    let needed = schema["required"].as_array().into_iter().flatten();
    let missing =
        needed.filter_map(serde_json::Value::as_str).find(|name| value.get(*name).is_none());
    if let Some(missing) = missing {
        return Some(format!("{at}: no {missing}"));
    }
    let branches = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let mut named = schema["properties"].as_object().cloned().unwrap_or_default();
    if let Some(branches) = branches {
        let fit = branches.iter().find(|branch| {
            // The fields of the table itself are checked elsewhere.
            let mut rest = value.clone();
            if let Some(object) = rest.as_object_mut() {
                object.retain(|name, _| !named.contains_key(name));
            }
            faults(root, branch, &rest, at).is_none()
        });
        let Some(fit) = fit else { return Some(format!("{at}: fits none of its kinds")) };
        named.extend(fit["properties"].as_object().cloned().unwrap_or_default());
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let found = faults(root, &schema["items"], item, &format!("{at}[{index}]"));
        if schema["items"].is_object() && found.is_some() {
            return found;
        }
    }
    for (name, item) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match named.get(name) {
            Some(schema) => {
                if let Some(fault) = faults(root, schema, item, &at) {
                    return Some(fault);
                }
            }
            // A sweep may name any field.
            None if schema["additionalProperties"].is_object() => {}
            None => return Some(format!("{at}: not in the schema")),
        }
    }
    None
}
