//! Three gateways that carry frames for minutes while keys change and one of them is killed. Every
//! frame must be delivered once and unaltered, or counted where it was lost.
//!
//! - [`flows`]: frames that carry their flow and number;
//! - [`host`]: hosts that send frames and check those that arrive;
//! - [`room`]: three LANs and the network between them;
//! - [`counters`]: counters of gateways and interfaces;
//! - [`account`]: the balance of these counters.

pub mod account;
pub mod counters;
pub mod flows;
pub mod host;
pub mod room;

use crate::Failure;
use crate::daemon::{Daemon, Scratch};
use crate::gateways::{self, Setup, name};
use crate::interrupt::Interrupt;
use crate::namespace::Namespace;
use crate::site::{LAN, Mtu, WAN};
use account::{Ledger, Outage};
use counters::{Interface, MetricSamples};
use flows::{Flow, MOST_FLOWS, SITES};
use host::{Came, Host, Pace, Shared};
use room::{CounterSnapshot, Room};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The parameters of a soak.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The path of the program `lightseal`.
    pub program: PathBuf,
    /// The configuration of the gateways.
    pub setup: Setup,
    /// Number of flows, 1 to 240.
    pub flows: u8,
    /// How long frames are sent at half the highest rate.
    pub duration: Duration,
    /// How long the gateway that is killed in the middle stays down.
    pub down: Duration,
    /// How long the highest rate is measured.
    pub flood: Duration,
    /// The seed of the frames' contents and of the choice of the gateway that is killed.
    pub seed: u64,
}

/// The result of a soak. Values are numbers of frames unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The highest rate, in copies that arrived a second.
    pub most_a_second: f64,
    /// Frames that hosts sent during the stretch at half the highest rate.
    pub sent: u64,
    /// Copies that should have been delivered, one for each site at which a frame must arrive.
    pub expected: u64,
    /// Copies that were delivered, of those expected.
    pub delivered: u64,
    /// Missing copies of frames that were sent while the killed gateway was down or just before.
    pub outage: u64,
    /// Other missing copies. Counted drops must explain them.
    pub missing: u64,
    /// How long the killed gateway carried no frames.
    pub outage_time: Duration,
    /// Frames that gateways and ports counted as dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Frames delivered at a site without their station, because it was not known yet.
    pub elsewhere: u64,
    /// Frames delivered twice, in the whole run.
    pub twice: u64,
    /// Frames that were altered, never sent, or returned to their sender, in the whole run.
    pub altered: u64,
    /// Frames that nothing accounts for, in the whole run.
    pub unaccounted: u64,
    /// The comparisons in which frames are unaccounted for.
    pub why: Vec<String>,
    /// Number of new keys that a pair of gateways agreed on.
    pub keys: u64,
}

impl Report {
    /// Number of frames that were delivered twice, altered or not accounted for.
    pub const fn wrong(&self) -> u64 {
        self.twice + self.altered + self.unaccounted
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        json!({
            "most_a_second": self.most_a_second.round(),
            "sent": self.sent,
            "expected": self.expected,
            "delivered": self.delivered,
            "outage": self.outage,
            "missing": self.missing,
            "outage_seconds": self.outage_time.as_secs_f64(),
            "drops": self.drops,
            "elsewhere": self.elsewhere,
            "twice": self.twice,
            "altered": self.altered,
            "unaccounted": self.unaccounted,
            "why": self.why,
            "keys": self.keys,
            "wrong": self.wrong(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, expected, delivered, outage, missing, keys, .. } = self;
        writeln!(f, "{:.0} frames a second arrive at most", self.most_a_second)?;
        writeln!(
            f,
            "{sent} frames sent, {delivered} of {expected} copies delivered, {keys} new keys"
        )?;
        let seconds = self.outage_time.as_secs_f64();
        writeln!(
            f,
            "{outage} copies while a gateway was down ({seconds:.1} s), {missing} others missing"
        )?;
        for (reason, count) in &self.drops {
            writeln!(f, "  {reason}: {count}")?;
        }
        writeln!(f, "{} copies arrived at another site in addition", self.elsewhere)?;
        let Self { twice, altered, unaccounted, .. } = self;
        writeln!(f, "{twice} delivered twice, {altered} altered, {unaccounted} not accounted for")?;
        self.why.iter().try_for_each(|why| writeln!(f, "  {why}"))
    }
}

/// A random seed.
pub fn any_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The rate at which hosts send before anything is measured, so that gateways learn all stations.
const SLOWLY: Pace = Pace::Frames(400.0);
const GREETING: Duration = Duration::from_secs(1);
/// How long a flood runs before it is counted, so that queues are full.
const FILL: Duration = Duration::from_millis(300);
/// If no frame arrives for this time, none is under way. It is longer than a gateway holds frames,
/// and longer than a gateway takes to publish the counts of its ports.
const QUIET: Duration = Duration::from_millis(1200);
/// If frames still arrive after this time, they run in circles.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a restarted gateway may take until it carries frames.
const RETURN: Duration = Duration::from_secs(30);
/// Frames that are under way when a gateway is killed were sent within this time before.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// Runs a soak and returns its report.
///
/// # Errors
/// [`Failure::NotHere`] if namespaces are forbidden or the program is missing; [`Failure::Broken`]
/// if gateways do not connect, or one ends by itself.
pub fn run(plan: &Plan, interrupt: &Interrupt) -> Result<Report, Failure> {
    gateways::require(&plan.program)?;
    plan.setup.require(&plan.program)?;
    if !(1..=MOST_FLOWS).contains(&plan.flows) {
        return Err(Failure::Broken(format!("1 to {MOST_FLOWS} flows, not {}", plan.flows)));
    }
    let room = Room::build(Mtu::ROOMY)?;
    let scratch = Scratch::new("soak")?;
    // The path's MTU is given, so that no probe of it is lost on purpose and counted as dropped.
    let setup = Setup { metrics: true, mtu: Some(Mtu::ROOMY.underlay), ..plan.setup };
    let programs = gateways::start(&plan.program, &setup, &room.posts(), &scratch)?;
    let flows = Flow::all(plan.flows);
    let mut soak = Soak {
        plan,
        room: &room,
        scratch: &scratch,
        interrupt,
        programs: programs.into_iter().map(Some).collect(),
        hosts: (0..SITES).map(|site| Host::new(site, &flows)).collect(),
        shared: Arc::new(Shared::new(flows.len(), SITES)),
        flows: flows.into(),
        report: Report::default(),
    };
    soak.keyed()?;
    soak.stretch(SLOWLY, |soak| soak.wait(GREETING).map(|()| None))?;
    let mut most = 0.0;
    soak.stretch(Pace::Flood, |soak| {
        soak.wait(FILL)?;
        let (before, since) = (soak.shared.arrived(), Instant::now());
        soak.wait(plan.flood)?;
        let came = soak.shared.arrived() - before;
        most = came as f64 / since.elapsed().as_secs_f64();
        Ok(None)
    })?;
    let copies: usize = soak.flows.iter().map(Flow::copies).sum();
    let each = most / 2.0 / (copies as f64 / soak.flows.len() as f64) / SITES as f64;
    eprintln!("{most:.0} frames a second at most; each of {SITES} hosts sends {each:.0}");
    let keys = soak.epochs()?;
    let soaked = soak.stretch(Pace::Frames(each), |soak| {
        soak.wait(plan.duration / 2)?;
        let outage = soak.kill(plan.seed as usize % SITES)?;
        soak.wait(plan.duration / 2)?;
        Ok(Some(outage))
    })?;
    soak.report.keys = soak.epochs()?.saturating_sub(keys);
    soak.report.most_a_second = most;
    soak.tell(&soaked);
    for program in soak.programs.iter_mut().flatten() {
        program.runs()?;
    }
    Ok(soak.report)
}

/// A running soak.
struct Soak<'a> {
    plan: &'a Plan,
    room: &'a Room,
    scratch: &'a Scratch,
    interrupt: &'a Interrupt,
    programs: Vec<Option<Daemon>>,
    hosts: Vec<Host>,
    shared: Arc<Shared>,
    flows: Arc<[Flow]>,
    report: Report,
}

/// The counts around a gateway that was killed and is back.
struct Killed {
    site: usize,
    /// The gateway's last metrics before it was killed.
    told: MetricSamples,
    /// The counts of its LAN interface at that time.
    lan: Interface,
    /// The counts of its interface to the other gateways at that time.
    wan: Interface,
    /// The counts of both interfaces when it carried frames again.
    lan_after: Interface,
    wan_after: Interface,
    /// The newest frame of every flow a moment before the kill, and when the gateway carried again.
    numbers: [Vec<u64>; 2],
}

/// The counts of a completed stretch.
struct Stretch {
    counted: CounterSnapshot,
    sent: u64,
    from: Vec<u64>,
    to: Vec<u64>,
    came: [Came; SITES],
    dropped: u64,
    killed: Option<Killed>,
}

impl Soak<'_> {
    fn wait(&mut self, duration: Duration) -> Result<(), Failure> {
        let started = Instant::now();
        while started.elapsed() < duration {
            self.interrupt.check()?;
            for program in self.programs.iter_mut().flatten() {
                program.runs()?;
            }
            let left = duration.saturating_sub(started.elapsed());
            thread::sleep(left.min(Duration::from_millis(100)));
        }
        Ok(())
    }

    /// Waits until every gateway has keys to send to every other.
    fn keyed(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let has = |place: &Namespace| {
                // A gateway that is starting does not answer yet.
                let Ok(told) = MetricSamples::ask(place) else { return false };
                told.of("peer_epoch").count() + 1 == SITES
                    && told.of("peer_up").all(|(_, up)| up == 1)
            };
            if self.room.gateways.iter().all(has) {
                return Ok(());
            }
            if started.elapsed() > RETURN {
                return Err(Failure::Broken("gateways do not agree on keys".into()));
            }
            self.wait(Duration::from_millis(50))?;
        }
    }

    /// The number of keys so far between the two gateways that are never killed.
    fn epochs(&self) -> Result<u64, Failure> {
        let killed = self.plan.seed as usize % SITES;
        let [one, other] = [(killed + 1) % SITES, (killed + 2) % SITES];
        let told = MetricSamples::ask(&self.room.gateways[one])?;
        Ok(told.one(&format!("peer_epoch{{peer=\"{}\"}}", name(other))))
    }

    /// Lets all hosts send at `pace` while `during` runs, waits until no frame is under way, and
    /// compares all counters.
    fn stretch(
        &mut self,
        pace: Pace,
        during: impl FnOnce(&mut Self) -> Result<Option<Killed>, Failure>,
    ) -> Result<Stretch, Failure> {
        let before = self.room.count()?;
        let from = self.shared.newest();
        let mut hosts = std::mem::take(&mut self.hosts);
        let were: Vec<_> = hosts.iter().map(|host| (host.sent, host.came)).collect();
        let (room, seed) = (self.room, self.plan.seed);
        let (flows, shared) = (Arc::clone(&self.flows), Arc::clone(&self.shared));
        shared.stop.store(false, Ordering::Relaxed);
        shared.end.store(false, Ordering::Relaxed);
        let outcome = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (host, place) in hosts.iter_mut().zip(&room.hosts) {
                let (flows, shared) = (&flows, &shared);
                let run = move || place.within(|| host.run(flows, seed, pace, shared))?;
                threads.push(scope.spawn(run));
            }
            let done = during(self);
            shared.stop.store(true, Ordering::Relaxed);
            let quiet = self.quiet();
            shared.end.store(true, Ordering::Relaxed);
            for thread in threads {
                match thread.join() {
                    Ok(ended) => ended?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            quiet.and(done)
        });
        self.hosts = hosts;
        let killed = outcome?;
        let mut after = self.room.count()?;
        if let Some(killed) = &killed {
            // The sum of the counts of the second life and the last counts of the first.
            let earlier = killed.told.clone().since(&before.told[killed.site]);
            let second = std::mem::take(&mut after.told[killed.site]);
            let other = before.told[killed.site].clone();
            after.told[killed.site] = second.and(&earlier).and(&other);
        }
        let counted = after.since(&before);
        let sent = std::array::from_fn(|site| self.hosts[site].sent - were[site].0);
        let came = std::array::from_fn(|site| self.hosts[site].came.since(&were[site].1));
        let outage = killed.as_ref().map(Killed::outage);
        let ledger = Ledger { counted: &counted, sent, came, outage };
        for balance in ledger.balances() {
            if balance.unaccounted() > 0 {
                self.report.unaccounted += balance.unaccounted();
                self.report.why.push(balance.to_string());
            }
        }
        let dropped = ledger.dropped();
        let to = self.shared.newest();
        Ok(Stretch { counted, sent: sent.iter().sum(), from, to, came, dropped, killed })
    }

    /// Waits until no more frames arrive.
    fn quiet(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let heard = self.shared.heard.load(Ordering::Relaxed);
            self.wait(QUIET)?;
            // Gateways send an announcement once a second, which also counts as heard.
            let came = self.shared.heard.load(Ordering::Relaxed) - heard;
            if came <= 2 * SITES as u64 {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(Failure::Broken("frames arrive although no host sends any".into()));
            }
        }
    }

    /// Kills a gateway and starts it again.
    fn kill(&mut self, site: usize) -> Result<Killed, Failure> {
        let place = &self.room.gateways[site];
        let ask = || -> Result<_, Failure> {
            Ok((Interface::ask(place, LAN)?, Interface::ask(place, WAN)?))
        };
        let (lan, wan) = ask()?;
        let sent = self.shared.newest();
        self.wait(UNDER_WAY)?;
        let told = MetricSamples::ask(place)?;
        let started = Instant::now();
        if let Some(program) = self.programs[site].take() {
            program.kill();
        }
        self.wait(self.plan.down)?;
        let posts = self.room.posts();
        let again = gateways::launch(
            &self.plan.program,
            &self.plan.setup,
            &posts[site],
            site,
            self.scratch,
        )?;
        self.programs[site] = Some(again);
        self.keyed()?;
        self.report.outage_time = started.elapsed();
        // Frames that were sealed under the keys of its earlier life have arrived by now.
        self.wait(UNDER_WAY)?;
        let (lan_after, wan_after) = ask()?;
        let numbers = [sent, self.shared.newest()];
        Ok(Killed { site, told, lan, wan, lan_after, wan_after, numbers })
    }

    /// Adds the deliveries of the measured stretch to the report.
    fn tell(&mut self, stretch: &Stretch) {
        let report = &mut self.report;
        report.sent = stretch.sent;
        for (number, flow) in self.flows.iter().enumerate() {
            for (at, host) in self.hosts.iter().enumerate().filter(|(at, _)| flow.reaches(*at)) {
                let (from, to) = (stretch.from[number], stretch.to[number]);
                let missing = host.seen[number].missing(from, to);
                let outage = match &stretch.killed {
                    Some(killed) if flow.touches(killed.site, at) => {
                        let [from, to] = &killed.numbers;
                        host.seen[number].missing(from[number], to[number])
                    }
                    _ => 0,
                };
                report.expected += to - from;
                report.delivered += to - from - missing;
                report.outage += outage;
                report.missing += missing - outage;
            }
        }
        let delivered: u64 = stretch.came.iter().map(|came| came.delivered).sum();
        if delivered != report.delivered {
            report.unaccounted += delivered.abs_diff(report.delivered);
            report
                .why
                .push(format!("{} new frames arrived, {delivered} were counted", report.delivered));
        }
        if report.missing > stretch.dropped {
            let unexplained = report.missing - stretch.dropped;
            report.unaccounted += unexplained;
            report.why.push(format!(
                "{} frames are missing, {} were counted as dropped",
                report.missing, stretch.dropped
            ));
        }
        for told in &stretch.counted.told {
            for (reason, count) in told.drops().into_iter().filter(|(_, count)| *count > 0) {
                *report.drops.entry(reason.to_owned()).or_default() += count;
            }
            for port in ["lan", "underlay"] {
                for why in ["overrun", "starved", "too_long", "refused"] {
                    let name = format!("{port}_packets_{why}");
                    let count = told.one(&format!("{name}_total"));
                    if count > 0 {
                        *report.drops.entry(name).or_default() += count;
                    }
                }
            }
        }
        report.elsewhere = stretch.came.iter().map(|came| came.elsewhere).sum();
        // These two are counts of the whole run.
        report.twice = self.hosts.iter().map(|host| host.came.twice).sum();
        report.altered = self.hosts.iter().map(|host| host.came.altered + host.came.own).sum();
    }
}

impl Killed {
    fn outage(&self) -> Outage {
        Outage {
            site: self.site,
            lan: self.lan_after.since(self.lan),
            wan: self.wan_after.since(self.wan),
        }
    }
}
