//! The contents of a scenario file.

use super::document::{Document, Value, key};
use super::{Mistake, Scenario};
use crate::channels::{ChannelModel, LinkChannel};
use crate::energy::{DEVICES, Device};
use crate::handshakes::{PROFILES, Profile};
use crate::links::Layer;
use crate::network::Network;
use crate::world::{NodeId, Topology};
use core::time::Duration;
use lightseal_core::Random;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The largest number of nodes in a network.
const MAX_NODES: u32 = 10_000;

/// The largest number of runs of a scenario, and of handshakes in all runs together.
const MAX_RUNS: u32 = 1_000_000;
const MAX_HANDSHAKES: u64 = 4_000_000;

/// A scenario of the lab: handshakes over duty-cycled radios.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scenario")]
pub(super) struct File {
    /// What the scenario shows.
    #[serde(default)]
    about: String,
    /// The seed of the first run. Each further run has the next seed.
    #[serde(default = "one")]
    pub(super) seed: u64,
    /// Number of runs. Each run simulates a world of its own.
    #[serde(default = "thousand")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) runs: u32,
    /// Which nodes hear each other.
    network: TopologyTable,
    /// The link layer and its settings.
    link: Layer,
    /// Which frames arrive. Without this table, all frames arrive.
    #[serde(default)]
    channel: Channel,
    /// The links whose channel differs from that of the others.
    #[serde(default)]
    rule: Vec<LinkChannel>,
    /// The device that all nodes are.
    #[serde(default)]
    device: DeviceTable,
    /// Which handshakes take place.
    handshake: Handshake,
    /// The dotted paths of fields, and the values that each field takes in turn, in all
    /// combinations. The field named last changes fastest.
    // The sweep is removed from the document before the rest is read.
    #[serde(default, rename = "sweep")]
    #[schemars(with = "BTreeMap<String, SweepValues>")]
    _sweep: Option<serde::de::IgnoredAny>,
}

/// The values that a field takes in turn, or a table of such fields.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(rename = "Swept")]
enum SweepValues {
    Values(Vec<serde_json::Value>),
    Fields(BTreeMap<String, Self>),
}

const fn one() -> u64 {
    1
}

const fn thousand() -> u32 {
    1000
}

/// Which nodes hear each other. Node 0 is the root.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "Shape", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "topology")]
enum TopologyTable {
    /// Nodes in a row. Each hears the two nodes beside it.
    Line {
        /// Number of nodes, the root included.
        #[schemars(range(min = 2, max = 10_000))]
        nodes: u32,
    },
    /// A root and nodes around it, all of which hear each other.
    Star {
        /// Number of nodes, the root included.
        #[schemars(range(min = 2, max = 10_000))]
        nodes: u32,
    },
    /// Nodes on a grid. Each hears the nodes beside, above and below it. The root is in a corner.
    Grid {
        /// Number of columns.
        #[schemars(range(min = 1, max = 10_000))]
        width: u32,
        /// Number of rows.
        #[schemars(range(min = 1, max = 10_000))]
        height: u32,
    },
}

/// The model of channels, and whether it applies to acknowledgements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel {
    #[serde(default = "yes")]
    acknowledgements: bool,
    model: ChannelModel,
}

/// The model of channels, and whether it applies to acknowledgements.
// The table as it is written in a file: the model's fields and one more.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct WrittenChannel {
    /// Whether acknowledgements can be lost as well. Otherwise they all arrive.
    #[schemars(default = "yes")]
    acknowledgements: bool,
    #[schemars(flatten)]
    model: ChannelModel,
}

impl JsonSchema for Channel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Channel".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = WrittenChannel::json_schema(generator);
        // The fields of models count as known for this keyword.
        schema.insert("unevaluatedProperties".into(), false.into());
        schema
    }
}

const fn yes() -> bool {
    true
}

impl Default for Channel {
    fn default() -> Self {
        Self { acknowledgements: true, model: ChannelModel::PERFECT }
    }
}

/// The device that all nodes are: a device known by name, or one from a file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Made", deny_unknown_fields)]
struct DeviceTable {
    /// The name of a known device. Without a name or a file, it is wismote.
    #[schemars(extend("enum" = names(DEVICES.iter().map(|(name, _)| *name))))]
    name: Option<String>,
    /// The path of a file with currents and clock rates, relative to the scenario's directory.
    file: Option<PathBuf>,
    /// Whether computation takes time.
    #[serde(default)]
    computes: bool,
}

/// Which handshakes take place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Handshake {
    /// The kind of handshake.
    #[schemars(extend("enum" = names(PROFILES.iter().map(|profile| profile.name))))]
    profile: String,
    /// The first retransmission timeout. Without this field, it is 2000 with tinydtls's timers, and
    /// one that suits the link with the engine's timers.
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<f64>,
    /// Which nodes are client and server.
    #[serde(default)]
    pairs: PairSelection,
    /// The window of random times in which clients begin. Without this field, it is one period of
    /// the link layer.
    #[schemars(range(min = 0, max = 86_400))]
    window_s: Option<f64>,
}

/// Which nodes are client and server.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Pairs", rename_all = "kebab-case")]
enum PairSelection {
    /// The last node is the client, the root is the server.
    #[default]
    Ends,
    /// Every node at an odd number of hops from the root is a client of its neighbour on the way to
    /// the root.
    Neighbours,
    /// Every node is a client of the root.
    AllToRoot,
}

fn names(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    names.collect()
}

/// A mistake in a value: the dotted path of its field, and what is wrong with it.
pub(super) type InvalidValue = (String, String);

fn wrong<T>(field: impl Into<String>, reason: impl Into<String>) -> Result<T, InvalidValue> {
    Err((field.into(), reason.into()))
}

/// Changes tables whose variant is named by a field into the shape that serde reads enums from.
pub(super) fn shape(document: &Document<'_>, root: &mut DeTable<'_>) -> Result<(), Mistake> {
    for (field, tag) in [("network", "topology"), ("link", "layer")] {
        if let Some(value) = root.get_mut(field) {
            tagged(document, field, value, tag)?;
        }
    }
    if let Some(channel) = root.get_mut("channel") {
        let kept = as_table(channel).and_then(|table| table.remove_entry("acknowledgements"));
        tagged(document, "channel", channel, "model")?;
        let span = channel.span();
        let model = std::mem::replace(channel.get_mut(), DeValue::Boolean(false));
        let mut table = DeTable::new();
        table.insert(key("model", span.clone()), Spanned::new(span, model));
        table.extend(kept);
        *channel.get_mut() = DeValue::Table(table);
    }
    if let Some(DeValue::Array(rules)) = root.get_mut("rule").map(Spanned::get_mut) {
        for rule in rules.iter_mut() {
            if let Some(channel) = as_table(rule).and_then(|rule| rule.get_mut("channel")) {
                tagged(document, "rule.channel", channel, "model")?;
            }
        }
    }
    Ok(())
}

fn as_table<'v, 't>(value: &'v mut Value<'t>) -> Option<&'v mut DeTable<'t>> {
    match value.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// Turns `{ TAG = "x", … }` into `{ x = { … } }`.
fn tagged(
    document: &Document<'_>,
    field: &str,
    value: &mut Value<'_>,
    tag: &str,
) -> Result<(), Mistake> {
    let span = value.span();
    let mistake = |at, field, reason| Err(document.mistake(at, field, reason));
    let Some(table) = as_table(value) else {
        return mistake(span.start, field.to_owned(), "must be a table");
    };
    let Some(kind) = table.remove(tag) else {
        return mistake(span.start, format!("{field}.{tag}"), "is missing");
    };
    let at = kind.span();
    let Some(kind) = kind.get_ref().as_str().map(ToOwned::to_owned) else {
        return mistake(at.start, format!("{field}.{tag}"), "must be a string");
    };
    let rest = Spanned::new(span, DeValue::Table(std::mem::take(table)));
    table.insert(key(&kind, at), rest);
    Ok(())
}

impl File {
    /// Checks all values, and the conditions between them.
    pub(super) fn scenario(
        self,
        directory: &Path,
    ) -> Result<Result<Scenario, InvalidValue>, Mistake> {
        let device = match self.device.device(directory)? {
            Ok(device) => device,
            Err(wrong) => return Ok(Err(wrong)),
        };
        Ok(self.made_of(device))
    }

    fn made_of(self, device: Device) -> Result<Scenario, InvalidValue> {
        if !(1..=MAX_RUNS).contains(&self.runs) {
            return wrong("runs", format!("must be from 1 to {MAX_RUNS}"));
        }
        let topology = self.network.topology()?;
        let fault = |path: &str, model: &ChannelModel| match model.fault() {
            Some((field, reason)) => wrong(format!("{path}.{field}"), reason),
            None => Ok(()),
        };
        fault("channel", &self.channel.model)?;
        for (index, rule) in self.rule.iter().enumerate() {
            let path = format!("rule.{index}");
            let nodes = topology.len();
            for (field, node) in [("from", rule.from), ("to", rule.to)] {
                if usize::from(node) >= nodes {
                    let reason = format!("must be a node, 0 to {}", nodes - 1);
                    return wrong(format!("{path}.{field}"), reason);
                }
            }
            if !topology.hears(NodeId(rule.from)).contains(&NodeId(rule.to)) {
                let reason = format!("must be a node that hears node {}", rule.from);
                return wrong(format!("{path}.to"), reason);
            }
            fault(&format!("{path}.channel"), &rule.channel)?;
        }
        if let Err(fault) = self.link.settings().build(&topology, &mut Random::insecure(self.seed))
        {
            return wrong(format!("link.{}", fault.field), fault.reason);
        }
        let handshake = self.handshake;
        let Some(profile) = Profile::by_name(&handshake.profile) else {
            let known = names(PROFILES.iter().map(|profile| profile.name)).join(", ");
            return wrong("handshake.profile", format!("must be one of {known}"));
        };
        let timeout = match handshake.timeout_ms {
            Some(ms) if !(1.0..=600_000.0).contains(&ms) => {
                return wrong("handshake.timeout_ms", "must be from 1 to 600000");
            }
            timeout => timeout.map(|ms| Duration::from_secs_f64(ms / 1e3)),
        };
        let window = match handshake.window_s {
            Some(seconds) if !(0.0..=86_400.0).contains(&seconds) => {
                return wrong("handshake.window_s", "must be from 0 to 86400");
            }
            Some(seconds) => Duration::from_secs_f64(seconds),
            None => Duration::from_micros(self.link.settings().period_micros()),
        };
        let pairs = handshake.pairs.of(&topology);
        let handshakes = u64::from(self.runs) * pairs.len() as u64;
        if handshakes > MAX_HANDSHAKES {
            let most = MAX_HANDSHAKES / pairs.len() as u64;
            return wrong("runs", format!("must be at most {most} with {} pairs", pairs.len()));
        }
        Ok(Scenario {
            network: Network {
                topology,
                layer: self.link,
                channel: self.channel.model,
                rules: self.rule,
                lost_acknowledgements: self.channel.acknowledgements,
                device,
                computes: self.device.computes,
                answer_delay: Duration::ZERO,
            },
            profile,
            pairs,
            window,
            timeout,
            runs: self.runs,
            seed: self.seed,
            about: self.about,
        })
    }
}

impl TopologyTable {
    fn topology(&self) -> Result<Topology, InvalidValue> {
        let reason = || format!("must be from 2 to {MAX_NODES}");
        match *self {
            Self::Line { nodes } | Self::Star { nodes } if !(2..=MAX_NODES).contains(&nodes) => {
                wrong("network.nodes", reason())
            }
            Self::Line { nodes } => Ok(Topology::line(nodes as u16)),
            Self::Star { nodes } => Ok(Topology::star(nodes as u16 - 1)),
            Self::Grid { width, height } => {
                for (field, side) in [("network.width", width), ("network.height", height)] {
                    if !(1..=MAX_NODES).contains(&side) {
                        return wrong(field, format!("must be from 1 to {MAX_NODES}"));
                    }
                }
                if !(2..=MAX_NODES).contains(&(width * height)) {
                    let reason = format!("multiplied by the height {}", reason());
                    return wrong("network.width", reason);
                }
                Ok(Topology::grid(width as u16, height as u16))
            }
        }
    }
}

impl DeviceTable {
    fn device(&self, directory: &Path) -> Result<Result<Device, InvalidValue>, Mistake> {
        let name = match (&self.name, &self.file) {
            (Some(_), Some(_)) => return Ok(wrong("device.file", "must not be set with a name")),
            (None, Some(file)) => return device_file(&directory.join(file)).map(Ok),
            (name, None) => name.as_deref().unwrap_or("wismote"),
        };
        let known = || names(DEVICES.iter().map(|(name, _)| *name)).join(", ");
        let device = Device::by_name(name);
        Ok(device.ok_or_else(|| ("device.name".into(), format!("must be one of {}", known()))))
    }
}

/// Reads a device from a file, and checks its figures.
fn device_file(path: &Path) -> Result<Device, Mistake> {
    let text = super::document::read(path)?;
    let document = Document::parse(&path.display().to_string(), &text)?;
    let device: Device = document.read(document.root.clone())?;
    match device.fault() {
        None => Ok(device),
        Some(field) => {
            let at = Document::position_of(&document.root, field);
            Err(document.mistake(at, field, "must be from 0 to 1e9, and a clock at least 0.001"))
        }
    }
}

impl PairSelection {
    fn of(self, topology: &Topology) -> Vec<[NodeId; 2]> {
        let root = NodeId(0);
        let others = topology.nodes().filter(|id| *id != root);
        match self {
            Self::Ends => vec![[NodeId(topology.len() as u16 - 1), root]],
            Self::AllToRoot => others.map(|id| [id, root]).collect(),
            Self::Neighbours => {
                // Whether each node is an odd number of hops from the root. It is derived from its
                // parent's.
                let mut odd = vec![false; topology.len()];
                let mut stack = vec![root];
                while let Some(id) = stack.pop() {
                    for child in topology.children(id) {
                        odd[usize::from(child.0)] = !odd[usize::from(id.0)];
                        stack.push(*child);
                    }
                }
                let odd = others.filter(|id| odd[usize::from(id.0)]);
                odd.filter_map(|id| Some([id, topology.parent(id)?])).collect()
            }
        }
    }
}
