//! Dependencies point one way.

use crate::process::{capture, cargo, workspace};
use serde_json::Value;
use std::path::Path;

/// The layers, lowest first. A crate depends only on crates of lower layers,
/// its tests also on crates of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    /// Time, randomness, codec, replay window, the engine contract.
    Core,
    /// Block ciphers.
    Cipher,
    /// Algorithms without a protocol.
    Primitive,
    /// One protocol, sans I/O.
    Engine,
    /// Protocols made of others, sans I/O.
    Composite,
    /// Faster cryptography or further schemes for an engine, from outside.
    Provider,
    /// Files and local sockets for one user, which drivers and hosts need.
    Files,
    /// Sockets, clocks and threads for engines.
    Driver,
    /// Programs and libraries around an engine.
    Host,
    /// The programs that users start.
    Command,
    /// Never shipped.
    Tool,
}

impl Layer {
    /// All layers, highest first; the tools, which are not shipped, come last.
    const SHOWN: [Self; 11] = [
        Self::Command,
        Self::Host,
        Self::Driver,
        Self::Files,
        Self::Provider,
        Self::Composite,
        Self::Engine,
        Self::Primitive,
        Self::Cipher,
        Self::Core,
        Self::Tool,
    ];

    /// The layer's name for people, and what its crates are.
    const fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::Command => ("Commands", "the programs that users start"),
            Self::Host => ("Hosts", "threads, files and settings around the engines"),
            Self::Driver => ("Drivers", "sockets, clocks and files; helpers of tests"),
            Self::Files => ("Files", "files and local sockets for one user"),
            Self::Provider => ("Providers", "fast cryptography for the engines"),
            Self::Composite => ("Composites", "protocols made of others, without I/O"),
            Self::Engine => ("Engines", "one protocol each, without I/O"),
            Self::Primitive => ("Primitives", "algorithms without a protocol"),
            Self::Cipher => ("Ciphers", "block ciphers without a mode of operation"),
            Self::Core => ("Core", "what all engines share"),
            Self::Tool => ("Tools", "not shipped; may use all crates above"),
        }
    }
}

/// A layer as it is shown to people.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) has_io: bool,
    pub(crate) is_tool: bool,
    /// Name and description of each crate.
    pub(crate) crates: Vec<(String, String)>,
}

/// All crates with their descriptions, layer by layer, the highest layer first.
pub(crate) fn layered() -> Result<Vec<Row>, String> {
    let packages = packages()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let crates = |layer: Layer| {
        let own = packages.iter().filter(|package| self::layer(&name_of(package)) == Some(layer));
        let mut own: Vec<_> =
            own.map(|package| (name_of(package), text(&package["description"]))).collect();
        own.sort();
        own
    };
    Ok(Layer::SHOWN
        .into_iter()
        .map(|layer| {
            let (title, about) = layer.described();
            let has_io = layer >= Layer::Files;
            let is_tool = layer == Layer::Tool;
            Row { title, about, has_io, is_tool, crates: crates(layer) }
        })
        .collect())
}

/// Every crate of the workspace and where it stands.
const CRATES: &[(&str, Layer)] = &[
    ("lightseal-core", Layer::Core),
    ("lightseal-aes-table", Layer::Cipher),
    ("lightseal-present", Layer::Cipher),
    ("lightseal-aggregation", Layer::Primitive),
    ("lightmac", Layer::Primitive),
    ("lightseal-dtls", Layer::Engine),
    ("lightseal-macsec", Layer::Engine),
    ("lightseal-gateway", Layer::Composite),
    ("lightseal-group", Layer::Composite),
    ("lightseal-dtls-aws-lc", Layer::Provider),
    ("lightseal-gateway-papers", Layer::Provider),
    ("lightseal-macsec-aws-lc", Layer::Provider),
    ("lightseal-owner-only", Layer::Files),
    ("documents", Layer::Driver),
    ("exchange", Layer::Driver),
    ("lightseal-measure", Layer::Driver),
    ("lightseal-net", Layer::Driver),
    ("lightseal-packet-io", Layer::Driver),
    ("lightseal-pki", Layer::Driver),
    ("lightseal-service", Layer::Driver),
    ("skip", Layer::Driver),
    ("lightseal-cli", Layer::Host),
    ("lightseal-gateway-host", Layer::Host),
    ("lightseal-group-host", Layer::Host),
    ("lightseal-mac-papers", Layer::Host),
    ("lightseal", Layer::Command),
    ("lightseal-lab", Layer::Command),
    ("attacks", Layer::Tool),
    ("fuzz", Layer::Tool),
    ("testkit", Layer::Tool),
    ("tracer", Layer::Tool),
    ("interop", Layer::Tool),
    ("interop-bogo", Layer::Tool),
    ("interop-gateway", Layer::Tool),
    ("xtask", Layer::Tool),
];

/// Crates below the hosts whose engine is shared by threads, and so needs locks: no device
/// without an operating system has several queues.
pub(crate) const THREADED: &[&str] = &["lightseal-gateway"];

/// What tests of all layers and tools may use: the worlds of several crates' tests, and what watches
/// compiled code.
const FOR_TESTS: [&str; 2] = ["testkit", "tracer"];

/// A crate and the other crates of this workspace that it depends on.
type Dependencies = Vec<(String, Vec<Needed>)>;

#[derive(Debug)]
struct Needed {
    name: String,
    /// By tests alone.
    by_tests: bool,
}

pub(crate) fn check() -> Result<(), String> {
    let faults = violations(&dependencies()?);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Crates that must need no operating system: package and folder, from the workspace's root.
pub(crate) fn no_std_crates() -> Result<Vec<(String, String)>, String> {
    let mut crates = Vec::new();
    for package in packages()? {
        let name = name_of(&package);
        if layer(&name).is_none_or(|layer| layer >= Layer::Provider) {
            continue;
        }
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(workspace()).ok());
        let folder = folder.ok_or_else(|| format!("{name} stands outside of the workspace"))?;
        crates.push((name, folder.display().to_string()));
    }
    Ok(crates)
}

fn layer(name: &str) -> Option<Layer> {
    CRATES.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

fn violations(dependencies: &Dependencies) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, needed) in dependencies {
        let Some(own) = layer(name) else {
            faults.push(format!("{name}: give it a layer in xtask/src/layers.rs"));
            continue;
        };
        for Needed { name: other, by_tests } in needed {
            let is_for_tests = FOR_TESTS.contains(&&**other) && (*by_tests || own == Layer::Tool);
            let is_lent = is_for_tests || (&**name, &**other) == ("fuzz", "attacks");
            if let Some(theirs) = layer(other)
                && !is_lent
                && (theirs > own || theirs == own && !by_tests)
            {
                faults.push(format!("{name} ({own:?}) must not depend on {other} ({theirs:?})"));
            }
        }
    }
    faults
}

/// What cargo says of the workspace's packages.
fn packages() -> Result<Vec<Value>, String> {
    let text = capture(cargo(&["metadata", "--format-version", "1", "--no-deps", "--quiet"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    Ok(packages.clone())
}

fn name_of(value: &Value) -> String {
    value["name"].as_str().unwrap_or_default().to_owned()
}

/// What depends on what, tests and build scripts included.
fn dependencies() -> Result<Dependencies, String> {
    Ok(packages()?
        .iter()
        .map(|package| {
            let own = name_of(package);
            let needed = package["dependencies"].as_array().into_iter().flatten();
            // Only crates of this workspace have a path; tests may ask for features of their own crate.
            let ours = needed
                .filter(|needed| needed["path"].is_string() && needed["name"] != own)
                .map(|needed| Needed { name: name_of(needed), by_tests: needed["kind"] == "dev" })
                .collect();
            (own, ours)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, needed: &[&str]) -> usize {
        faults_by(name, needed, false)
    }

    fn faults_by(name: &str, needed: &[&str], by_tests: bool) -> usize {
        let needed = needed.iter().map(|name| Needed { name: (*name).into(), by_tests });
        violations(&vec![(name.into(), needed.collect())]).len()
    }

    #[test]
    fn only_lower_layers_may_be_used() {
        assert_eq!(
            faults("lightseal-dtls", &["lightseal-core", "lightseal-aggregation", "lightmac"]),
            0
        );
        assert_eq!(faults("lightseal", &["lightseal-net", "lightseal-dtls", "lightseal-cli"]), 0);
        assert_eq!(faults("lightseal", &["lightseal-lab"]), 1);
        assert_eq!(faults("lightseal-dtls", &["lightseal-net"]), 1);
        assert_eq!(faults("lightseal-core", &["lightmac"]), 1);
    }

    #[test]
    fn the_same_layer_is_not_lower() {
        assert_eq!(faults("lightseal-dtls", &["lightseal-macsec"]), 1);
        assert_eq!(faults("lightseal-gateway", &["lightseal-macsec"]), 0);
    }

    #[test]
    fn tests_may_use_the_same_layer_but_no_higher_one() {
        assert_eq!(faults_by("lightseal-aggregation", &["lightmac"], true), 0);
        assert_eq!(faults_by("lightseal-aggregation", &["lightseal-dtls"], true), 1);
    }

    #[test]
    fn only_tests_and_tools_use_the_testkit_and_only_fuzz_uses_attacks() {
        assert_eq!(faults("fuzz", &["attacks"]), 0);
        assert_eq!(faults("attacks", &["fuzz"]), 1);
        assert_eq!(faults_by("lightseal-dtls", &["testkit"], true), 0);
        assert_eq!(faults("fuzz", &["testkit"]), 0);
        assert_eq!(faults("lightseal", &["testkit"]), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_named() {
        assert_eq!(faults("misc", &[]), 1);
    }

    #[test]
    fn this_workspace_is_layered() {
        let found = dependencies().expect("cargo metadata works here");
        assert!(found.iter().any(|(name, _)| name == "xtask"));
        assert_eq!(violations(&found), [""; 0]);
    }
}
