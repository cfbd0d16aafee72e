//! The state of a service as numbers with names, in the text formats of OpenMetrics 1.0 and of
//! Prometheus (0.0.4).

use crate::lifecycle::{Lifecycle, Phase};
use std::fmt::Write;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
}

/// A sample: labels (name and value) and the number.
pub type Sample = (Vec<(&'static str, String)>, u64);

/// A metric: samples with a common name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name without the prefix: lower case letters with underscores; the name of a counter ends
    /// with `_total`.
    pub name: String,
    /// The help text, in one line.
    pub help: &'static str,
    /// The type of the metric.
    pub kind: Kind,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
}

impl Format {
    /// The media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// All metrics at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The prefix of every name: lower case letters with underscores.
    pub prefix: &'static str,
    /// The metrics; each name occurs once.
    pub families: Vec<Family>,
}

impl Snapshot {
    /// A snapshot without metrics.
    pub const fn new(prefix: &'static str) -> Self {
        Self { prefix, families: Vec::new() }
    }

    /// Adds a metric with one sample and no labels.
    pub fn one(&mut self, name: impl Into<String>, help: &'static str, kind: Kind, value: u64) {
        self.add(name, help, kind, vec![(Vec::new(), value)]);
    }

    /// Adds a metric, unless it has no samples.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        help: &'static str,
        kind: Kind,
        samples: Vec<Sample>,
    ) {
        if !samples.is_empty() {
            self.families.push(Family { name: name.into(), help, kind, samples });
        }
    }

    /// Adds a metric with a sample for each value of one label.
    pub fn by<V: Into<String>>(
        &mut self,
        name: impl Into<String>,
        help: &'static str,
        kind: Kind,
        label: &'static str,
        samples: impl IntoIterator<Item = (V, u64)>,
    ) {
        let samples = samples.into_iter();
        let samples = samples.map(|(value, count)| (vec![(label, value.into())], count));
        self.add(name, help, kind, samples.collect());
    }

    /// Adds what all services have: phase, uptime, and results of reloads.
    pub fn add_lifecycle(&mut self, lifecycle: &Lifecycle) {
        use Kind::{Counter, Gauge};
        let now = lifecycle.phase();
        let phases = [Phase::Starting, Phase::Ready, Phase::Draining, Phase::Stopping];
        let phases = phases.map(|phase| (phase.name(), u64::from(phase == now)));
        self.by("phase", "What the service does now.", Gauge, "phase", phases);
        let uptime = lifecycle.uptime().as_secs();
        self.one("uptime_seconds", "Seconds since the start.", Gauge, uptime);
        let reloads = lifecycle.reloads();
        let results = [("success", reloads.succeeded), ("failure", reloads.failed)];
        self.by("reloads_total", "Reloads of files, by result.", Counter, "result", results);
        self.one(
            "last_reload_succeeded",
            "Whether the last reload could use all files.",
            Gauge,
            u64::from(reloads.last_succeeded),
        );
    }

    /// The metrics as text.
    pub fn text(&self, format: Format) -> String {
        let mut text = String::new();
        for Family { name, help, kind, samples } in &self.families {
            let name = format!("{}{name}", self.prefix);
            let (kind, about) = match (kind, format) {
                (Kind::Gauge, _) => ("gauge", &*name),
                (Kind::Counter, Format::Prometheus) => ("counter", &*name),
                // The family has the name without the suffix, its samples have the suffix.
                (Kind::Counter, Format::OpenMetrics) => {
                    ("counter", name.strip_suffix("_total").unwrap_or(&name))
                }
            };
            let _ = writeln!(text, "# HELP {about} {help}\n# TYPE {about} {kind}");
            for (labels, value) in samples {
                text.push_str(&name);
                for (at, (label, content)) in labels.iter().enumerate() {
                    let mark = if at == 0 { '{' } else { ',' };
                    let _ = write!(text, "{mark}{label}=\"{}\"", escaped(content));
                }
                let end = if labels.is_empty() { "" } else { "}" };
                let _ = writeln!(text, "{end} {value}");
            }
        }
        if format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

fn escaped(content: &str) -> String {
    content.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_name_counters_as_they_are_read() {
        let mut all = Snapshot::new("lightseal_test_");
        let drops = [("replayed", 2), ("a\"\\\n", 3)];
        all.by("drops_total", "Drops.", Kind::Counter, "reason", drops);
        all.one("flows", "Flows.", Kind::Gauge, 4);
        all.by("nothing", "No sample.", Kind::Gauge, "label", [("", 0); 0]);
        let samples = "lightseal_test_drops_total{reason=\"replayed\"} 2\n\
                       lightseal_test_drops_total{reason=\"a\\\"\\\\\\n\"} 3\n";
        let flows = "# HELP lightseal_test_flows Flows.\n# TYPE lightseal_test_flows gauge\n\
                     lightseal_test_flows 4\n";
        assert_eq!(
            all.text(Format::Prometheus),
            format!(
                "# HELP lightseal_test_drops_total Drops.\n\
                 # TYPE lightseal_test_drops_total counter\n{samples}{flows}"
            )
        );
        assert_eq!(
            all.text(Format::OpenMetrics),
            format!(
                "# HELP lightseal_test_drops Drops.\n# TYPE lightseal_test_drops counter\n\
                 {samples}{flows}# EOF\n"
            )
        );
    }

    #[test]
    fn a_service_says_its_phase_and_its_reloads() {
        let lifecycle = Lifecycle::start();
        lifecycle.ready();
        lifecycle.count_reload(false);
        let mut all = Snapshot::new("x_");
        all.add_lifecycle(&lifecycle);
        let text = all.text(Format::Prometheus);
        for expected in [
            "x_phase{phase=\"ready\"} 1\n",
            "x_phase{phase=\"draining\"} 0\n",
            "x_reloads_total{result=\"failure\"} 1\n",
            "x_last_reload_succeeded 0\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }
}
