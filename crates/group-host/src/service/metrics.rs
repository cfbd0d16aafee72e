//! The state of a controller as metrics, and its end by draining.

use super::{ControllerHost, Service};
use lightseal_core::Instant;
use lightseal_dtls::codepoints::AlertDescription;
use lightseal_dtls::{Endpoint, ReasonClass, ReasonCounts};
use lightseal_service::lifecycle::Lifecycle;
use lightseal_service::metrics::{Kind, Snapshot};
use std::collections::BTreeMap;

/// The prefix of every metric name.
const PREFIX: &str = "lightseal_controller_";

/// What a controller counts besides its DTLS endpoint.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Handshakes that were completed by devices that the controller knows.
    pub(super) handshakes: u64,
    /// Requests of devices.
    pub(super) requests: u64,
    /// Answers to devices.
    pub(super) answers: u64,
    /// Multicast announcements of new keys.
    pub(super) announcements: u64,
    /// Devices that were turned away because the controller drains.
    pub(super) refused_to_drain: u64,
    /// Peers with a complete handshake that are no device.
    pub(super) unknown_devices: u64,
    /// Handshakes that failed, by reason.
    pub(super) failed_handshakes: ReasonCounts,
    /// Complete associations that ended, by reason.
    pub(super) ended: ReasonCounts,
}

fn by_class(
    counts: impl IntoIterator<Item = (ReasonClass, u64)>,
) -> impl Iterator<Item = (&'static str, u64)> {
    counts.into_iter().map(|(class, count)| (class.name(), count))
}

impl ControllerHost {
    /// Turns away the clients that have sent a hello, if the controller drains. Returns whether there
    /// was one.
    pub(super) fn turn_away(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let mut called = false;
        while let Some(incoming) = endpoint.next_incoming() {
            called = true;
            self.counters.refused_to_drain += 1;
            endpoint.refuse(now, incoming, AlertDescription::INTERNAL_ERROR);
        }
        called
    }
}

impl Service {
    /// Takes no new associations of devices any more; those that exist go on.
    pub fn drain(&self) {
        self.driver.call(|endpoint, _, _| endpoint.hold_incoming());
    }

    /// The number of open associations, and the number of requests and answers so far.
    pub fn activity(&self) -> (usize, u64) {
        self.driver.call(|endpoint, host, _| {
            (endpoint.open_connections(), host.counters.requests + host.counters.answers)
        })
    }

    /// The state as metrics.
    pub fn metrics(&self, lifecycle: &Lifecycle) -> Snapshot {
        use Kind::{Counter, Gauge};
        let mut all = Snapshot::new(PREFIX);
        let about = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        all.add("info", "Version of the controller.", Gauge, vec![(about, 1)]);
        all.add_lifecycle(lifecycle);
        let socket = self.driver.counters();
        self.driver.call(|endpoint, host, _| {
            let (open, asleep) = (endpoint.open_connections(), endpoint.sleeping_connections());
            let connected = host.peers.len();
            let states = [
                ("handshaking", open.saturating_sub(connected)),
                ("connected", connected.saturating_sub(asleep)),
                ("asleep", asleep),
            ];
            let states = states.map(|(state, count)| (state, count as u64));
            all.by("associations", "Associations by their state.", Gauge, "state", states);
            add_endpoint(&mut all, endpoint, host);
            add_groups(&mut all, host);
        });
        let datagrams = [("received", socket.received), ("sent", socket.sent)];
        all.by("datagrams_total", "Datagrams of devices.", Counter, "direction", datagrams);
        let bytes = [("received", socket.received_bytes), ("sent", socket.sent_bytes)];
        all.by("datagram_bytes_total", "Their bytes (UDP payload).", Counter, "direction", bytes);
        all
    }
}

fn add_endpoint(all: &mut Snapshot, endpoint: &Endpoint, host: &ControllerHost) {
    use Kind::Counter;
    let (stats, dtls, counted) = (endpoint.stats(), endpoint.totals(), &host.counters);
    let one = |all: &mut Snapshot, name, help, count| all.one(name, help, Counter, count);
    one(all, "handshakes_total", "Handshakes that devices completed.", counted.handshakes);
    // A handshake fails before or after there is an association for it.
    let mut failed = BTreeMap::<_, u64>::new();
    for (reason, count) in
        by_class(counted.failed_handshakes.iter()).chain(by_class(stats.refused_by.iter()))
    {
        *failed.entry(reason).or_default() += count;
    }
    let help = "Handshakes that failed, those refused at once included.";
    all.by("handshake_failures_total", help, Counter, "reason", failed);
    let ended = by_class(counted.ended.iter());
    all.by("associations_ended_total", "Associations that ended.", Counter, "reason", ended);
    let refusals =
        [("draining", counted.refused_to_drain), ("unknown_device", counted.unknown_devices)];
    all.by("refusals_total", "Devices that were turned away.", Counter, "reason", refusals);
    let received = &dtls.received;
    let drops = [
        ("no_association", stats.ignored),
        ("malformed", received.malformed),
        ("replayed", received.replayed),
        ("unauthentic", received.unauthentic),
        ("unknown_epoch", received.unknown_epoch),
        ("no_room", received.buffer_full),
        ("key_exhausted", received.exhausted),
    ];
    all.by("drops_total", "Datagrams and records that were dropped.", Counter, "reason", drops);
    one(all, "requests_total", "Requests of devices.", counted.requests);
    one(all, "answers_total", "Answers to devices.", counted.answers);
    one(all, "announcements_total", "Announcements of new keys.", counted.announcements);
    let repeated = dtls.sent.retransmissions;
    one(all, "retransmissions_total", "Repeated handshake flights.", repeated);
}

fn add_groups(all: &mut Snapshot, host: &ControllerHost) {
    let groups = host.registry.list();
    let devices = host.registry.devices().read().iter().count() as u64;
    all.one("devices", "Devices that are enrolled.", Kind::Gauge, devices);
    all.one("groups", "Groups.", Kind::Gauge, groups.len() as u64);
    let members = groups.iter().map(|group| (group.name.clone(), group.members as u64));
    all.by("group_members", "Members of a group.", Kind::Gauge, "group", members);
    let epochs = groups.iter().map(|group| (group.name.clone(), group.epoch));
    all.by("group_epoch", "Epoch of a group's keys.", Kind::Gauge, "group", epochs);
}
