//! Three gateways that carry for long, while keys change and one of them is killed: every frame is
//! delivered once and unaltered, or it is known where it was lost.
//!
//! - [`flows`]: frames that say which they are;
//! - [`host`]: who sends and looks;
//! - [`room`]: three LANs and what is between them;
//! - [`counters`]: what gateways and interfaces count;
//! - [`account`]: whether that adds up.

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
use counters::{Interface, Told};
use flows::{Flow, MOST_FLOWS, SITES};
use host::{Came, Host, Pace, Shared};
use room::{Counted, Room};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// How a soak is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The `lightseal` program.
    pub program: PathBuf,
    /// How gateways are set up.
    pub setup: Setup,
    /// Flows, 1 to 240.
    pub flows: u8,
    /// How long frames are carried at half the highest rate.
    pub duration: Duration,
    /// How long a gateway is gone that is killed in the middle.
    pub down: Duration,
    /// How long the highest rate is looked for.
    pub flood: Duration,
    /// Of everything that is drawn.
    pub seed: u64,
}

/// What became of it; frames where nothing else is said.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The highest rate: copies that arrived a second.
    pub most_a_second: f64,
    /// That hosts sent while gateways were soaked.
    pub sent: u64,
    /// To be delivered, one for each site where a frame is to be seen.
    pub expected: u64,
    /// Of these.
    pub delivered: u64,
    /// Missing, of those sent while the killed gateway was down or just before.
    pub outage: u64,
    /// Missing beside these: they are to be among the counted drops.
    pub missing: u64,
    /// For how long the killed gateway carried nothing.
    pub outage_time: Duration,
    /// Counted as dropped by gateways and ports, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Delivered where their station is not, since that was not known yet.
    pub elsewhere: u64,
    /// Delivered twice, in the whole run.
    pub twice: u64,
    /// Altered, or never sent, or back where they came from, in the whole run.
    pub altered: u64,
    /// That nothing accounts for, in the whole run.
    pub unaccounted: u64,
    /// Where those are.
    pub why: Vec<String>,
    /// Keys that two gateways had one after the other.
    pub keys: u64,
}

impl Report {
    /// Frames that are delivered twice or altered or not accounted for.
    pub const fn wrong(&self) -> u64 {
        self.twice + self.altered + self.unaccounted
    }

    /// All of it.
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
        writeln!(f, "{} seen at another site besides", self.elsewhere)?;
        let Self { twice, altered, unaccounted, .. } = self;
        writeln!(f, "{twice} delivered twice, {altered} altered, {unaccounted} not accounted for")?;
        self.why.iter().try_for_each(|why| writeln!(f, "  {why}"))
    }
}

/// A seed that nobody chose.
pub fn any_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Before anything is measured, hosts speak so slowly that all stations are known.
const SLOWLY: Pace = Pace::Frames(400.0);
const GREETING: Duration = Duration::from_secs(1);
/// Queues fill before a flood is counted.
const FILL: Duration = Duration::from_millis(300);
/// Nothing came for so long: nothing is under way. It is more than a gateway holds frames for
/// and longer than one takes until it tells what its ports count.
const QUIET: Duration = Duration::from_millis(1200);
/// When that takes longer than this, frames run in circles.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a gateway that starts again may take until it carries.
const RETURN: Duration = Duration::from_secs(30);
/// What is under way when a gateway is killed was sent within this time before.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// Runs a soak.
///
/// # Errors
/// [`Failure::NotHere`] where namespaces are forbidden or the program is missing; when gateways do
/// not find each other, or one ends by itself.
pub fn run(plan: &Plan, interrupt: &Interrupt) -> Result<Report, Failure> {
    gateways::require(&plan.program)?;
    if !(1..=MOST_FLOWS).contains(&plan.flows) {
        return Err(Failure::Broken(format!("1 to {MOST_FLOWS} flows, not {}", plan.flows)));
    }
    let room = Room::build(Mtu::ROOMY)?;
    let scratch = Scratch::new("soak")?;
    // The path's MTU is known: no probe is lost on purpose, and then counted.
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

/// A soak under way.
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

/// One gateway was killed and is back.
struct Killed {
    site: usize,
    /// What it had told last.
    told: Told,
    /// At its interfaces, then.
    lan: Interface,
    wan: Interface,
    /// And when it carried again.
    lan_after: Interface,
    wan_after: Interface,
    /// The newest frame of every flow a moment before it was killed, and when it carried again.
    numbers: [Vec<u64>; 2],
}

/// A stretch that is over.
struct Stretch {
    counted: Counted,
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

    /// Waits until every gateway has keys to send with to every other.
    fn keyed(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let has = |place: &Namespace| {
                // One that starts does not answer yet.
                let Ok(told) = Told::ask(place) else { return false };
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

    /// How many keys the two gateways that are never killed had for each other.
    fn epochs(&self) -> Result<u64, Failure> {
        let killed = self.plan.seed as usize % SITES;
        let [one, other] = [(killed + 1) % SITES, (killed + 2) % SITES];
        let told = Told::ask(&self.room.gateways[one])?;
        Ok(told.one(&format!("peer_epoch{{peer=\"{}\"}}", name(other))))
    }

    /// Lets all hosts send at `pace` for as long as `during` takes, waits until nothing is under
    /// way any more, and holds the counters against each other.
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
            // What the second life counted, and the first one before.
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

    /// Waits until nothing comes any more.
    fn quiet(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let heard = self.shared.heard.load(Ordering::Relaxed);
            self.wait(QUIET)?;
            // Gateways announce themselves once a second.
            let came = self.shared.heard.load(Ordering::Relaxed) - heard;
            if came <= 2 * SITES as u64 {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(Failure::Broken("frames come though nobody sends any".into()));
            }
        }
    }

    /// Kills a gateway, and starts it again.
    fn kill(&mut self, site: usize) -> Result<Killed, Failure> {
        let place = &self.room.gateways[site];
        let ask = || -> Result<_, Failure> {
            Ok((Interface::ask(place, LAN)?, Interface::ask(place, WAN)?))
        };
        let (lan, wan) = ask()?;
        let sent = self.shared.newest();
        self.wait(UNDER_WAY)?;
        let told = Told::ask(place)?;
        let started = Instant::now();
        if let Some(program) = self.programs[site].take() {
            program.kill();
        }
        self.wait(self.plan.down)?;
        let posts = self.room.posts();
        let again = gateways::launch(&self.plan.program, &posts[site], site, self.scratch)?;
        self.programs[site] = Some(again);
        self.keyed()?;
        self.report.outage_time = started.elapsed();
        // What was sealed under the keys of its earlier life has arrived by now.
        self.wait(UNDER_WAY)?;
        let (lan_after, wan_after) = ask()?;
        let numbers = [sent, self.shared.newest()];
        Ok(Killed { site, told, lan, wan, lan_after, wan_after, numbers })
    }

    /// Counts what was delivered in the stretch that matters.
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
            report.why.push(format!("{} new frames, {delivered} counted", report.delivered));
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
        // In the whole run.
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
