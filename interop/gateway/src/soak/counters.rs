//! Counters of gateways and of the interfaces around them.

use crate::Failure;
use crate::gateways::METRICS;
use crate::namespace::Namespace;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The prefix of every sample's name.
const PREFIX: &str = "lightseal_gateway_";

/// The samples of a gateway's metrics, by name and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricSamples(BTreeMap<String, u64>);

impl MetricSamples {
    /// Asks the gateway in this namespace over HTTP, as Prometheus does.
    ///
    /// # Errors
    /// The gateway does not answer.
    pub fn ask(place: &Namespace) -> Result<Self, Failure> {
        let text = place.within(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(METRICS)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        })?;
        Ok(Self::read(&text.map_err(|error| Failure::broken("metrics", error))?))
    }

    fn read(text: &str) -> Self {
        let sample = |line: &str| {
            let (name, value) = line.strip_prefix(PREFIX)?.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self(text.lines().filter_map(sample).collect())
    }

    /// The value of one sample; zero if it does not exist.
    pub fn one(&self, sample: &str) -> u64 {
        self.0.get(sample).copied().unwrap_or(0)
    }

    /// The sum of all samples of a family whose labels contain `label`.
    pub fn sum(&self, family: &str, label: &str) -> u64 {
        self.of(family).filter(|(labels, _)| labels.contains(label)).map(|(_, value)| value).sum()
    }

    /// The labels and the values of a family.
    pub fn of<'a>(&'a self, family: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        self.0.iter().filter_map(move |(name, value)| {
            let labels = name.strip_prefix(family)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        })
    }

    /// Frames to (`sent`) or from (`received`) the peer of this name.
    pub fn frames(&self, peer: &str, direction: &str) -> u64 {
        self.one(&format!("peer_frames_total{{peer=\"{peer}\",direction=\"{direction}\"}}"))
    }

    /// Number of dropped frames by reason.
    pub fn drops(&self) -> BTreeMap<&str, u64> {
        let named = |(labels, count)| {
            let labels: &str = labels;
            Some((labels.strip_prefix("{reason=\"")?.strip_suffix("\"}")?, count))
        };
        self.of("drops_total").filter_map(named).collect()
    }

    /// The sum of both, for the two lives of one gateway.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (name, value) in &other.0 {
            *self.0.entry(name.clone()).or_default() += value;
        }
        self
    }

    /// The growth since `earlier`. It has no meaning for gauges.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        for (name, value) in &mut self.0 {
            *value = value.saturating_sub(earlier.one(name));
        }
        self
    }
}

/// The kernel's counts of an interface, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Frames that the interface received.
    pub received: u64,
    /// Frames that the interface sent.
    pub sent: u64,
    /// Received and outgoing frames that were dropped at the interface itself.
    pub dropped: u64,
}

impl Interface {
    /// The counts of this interface in a namespace.
    ///
    /// # Errors
    /// There is no interface of this name.
    pub fn ask(place: &Namespace, name: &str) -> Result<Self, Failure> {
        let text = place.within(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.map_err(|error| Failure::broken("/proc/net/dev", error))?;
        Self::read(&text, name).ok_or_else(|| Failure::Broken(format!("no counters of {name}")))
    }

    /// Reads the line of an interface in `/proc/net/dev`: its name, eight numbers about received
    /// frames and eight about sent ones.
    fn read(text: &str, name: &str) -> Option<Self> {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
        let (_, numbers) = lines.find(|(interface, _)| *interface == name)?;
        let numbers: Vec<u64> =
            numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self {
            received: *numbers.get(1)?,
            sent: *numbers.get(9)?,
            dropped: numbers.get(3)? + numbers.get(11)?,
        })
    }

    /// The growth since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            received: self.received.saturating_sub(earlier.received),
            sent: self.sent.saturating_sub(earlier.sent),
            dropped: self.dropped.saturating_sub(earlier.dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_and_added_up() {
        let text = "# TYPE lightseal_gateway_flows gauge\nlightseal_gateway_flows 3\n\
                    lightseal_gateway_peer_frames_total{peer=\"b\",direction=\"sent\"} 7\n\
                    lightseal_gateway_peer_frames_total{peer=\"c\",direction=\"sent\"} 5\n\
                    lightseal_gateway_drops_total{reason=\"full\"} 2\n\
                    lightseal_gateway_drops_total_not 9\n";
        let told = MetricSamples::read(text);
        assert_eq!((told.one("flows"), told.one("none")), (3, 0));
        assert_eq!(told.frames("b", "sent"), 7);
        assert_eq!(told.sum("peer_frames_total", "direction=\"sent\""), 12);
        assert_eq!(told.drops(), BTreeMap::from([("full", 2)]));
        let twice = told.clone().and(&told);
        assert_eq!(twice.frames("c", "sent"), 10);
        assert_eq!(twice.since(&told), told);
    }

    #[test]
    fn interfaces_count_both_ways() {
        let text =
            "Inter-| Receive\n face |bytes packets\nlan: 700 7 0 1 0 0 0 0 90 5 0 2 0 0 0 0\n";
        let expected = Interface { received: 7, sent: 5, dropped: 3 };
        assert_eq!(Interface::read(text, "lan"), Some(expected));
        assert_eq!(Interface::read(text, "wan"), None);
    }
}
