//! Groups whose controller and members are killed at random moments, while requests, joins,
//! evictions and rekeys go on.

mod application;
mod team;
mod wire;

use crate::program::TempDir;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use team::{BOTH, GROUP, GUEST, LAMP1, LAMP2, NAMES, Place, SWITCH, Seat, Team};
use wire::{Capture, Trial};

/// How long a group may take to work again after a kill. A group that takes longer has stopped for
/// good.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two questions.
const PACE: Duration = Duration::from_millis(15);
/// The shortest time before a process that ended by itself is started again.
const REST: Duration = Duration::from_millis(200);
const PROFILES: [&str; 2] = ["axiom-1.2", "compact"];

/// The results of a trial.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) kills: u32,
    kills_of_controller: u32,
    /// Members, or acknowledged changes, that were lost.
    pub(crate) lost: Vec<String>,
    /// Kills after which the group did not work again.
    pub(crate) stuck: Vec<String>,
    /// For each kill, the time until all listeners answered all senders again.
    times: Vec<Duration>,
    /// What was captured; `None` if capturing is not permitted.
    wire: Option<wire::Seen>,
    pub(crate) why_no_wire: String,
}

impl Report {
    pub(crate) fn reused(&self) -> &[String] {
        self.wire.as_ref().map(|seen| &seen.reused[..]).unwrap_or_default()
    }

    pub(crate) fn records(&self) -> Option<u64> {
        self.wire.as_ref().map(|seen| seen.records)
    }

    pub(crate) fn json(&self) -> Value {
        let mut times: Vec<_> = self.times.iter().map(|time| time.as_millis() as u64).collect();
        times.sort_unstable();
        json!({
            "kills": self.kills,
            "kills_of_controller": self.kills_of_controller,
            "lost": self.lost,
            "stuck": self.stuck,
            "reused": self.reused(),
            "records": self.records(),
            "why_no_records": self.why_no_wire,
            "median_ms": times.get(times.len() / 2),
            "worst_ms": times.last(),
        })
    }
}

/// Kills `kills` processes of `groups` groups. In each group they are killed one after the other.
pub(crate) fn trial(kills: u32, groups: u8, seed: u64) -> Report {
    // Tests of this and other programs run at the same time. No other trial has these addresses.
    static TRIALS: AtomicU32 = AtomicU32::new(0);
    let unique = std::process::id() * 4 + TRIALS.fetch_add(1, Ordering::Relaxed) % 4;
    let network = [127, 16 + (unique >> 8) as u8 % 224];
    let (third, port) = (unique as u8, 20_000 + (unique % 10_000) as u16);
    let trial = Trial { network, group_port: port, controller_port: 5780 };
    let capture = Capture::start(trial);
    let mut report = Report::default();
    let of_each = |group: u8| {
        kills / u32::from(groups) + u32::from(kills % u32::from(groups) > u32::from(group))
    };
    let folder = TempDir::new();
    std::thread::scope(|scope| {
        let run = |group: u8| {
            let place = Place {
                folder: folder.path(&group.to_string()).into(),
                network: [network[0], network[1], third.wrapping_add(group)],
                group: format!("239.255.{third}.{}:{port}", group + 1),
                controller_port: trial.controller_port,
                profile: PROFILES[usize::from(group) % 2],
            };
            let seed = seed.wrapping_add(u64::from(group));
            let work = move || Run::new(place, seed).kill(of_each(group));
            scope.spawn(work)
        };
        let runs: Vec<_> = (0..groups).map(run).collect();
        for run in runs {
            let part = run.join().expect("a group's run");
            report.kills += part.kills;
            report.kills_of_controller += part.kills_of_controller;
            report.lost.extend(part.lost);
            report.stuck.extend(part.stuck);
            report.times.extend(part.times);
        }
    });
    match capture {
        Ok(capture) => report.wire = Some(capture.stop()),
        Err(error) => report.why_no_wire = error.to_string(),
    }
    if std::env::var_os("LIGHTSEAL_KILLS_KEEP").is_some() {
        eprintln!("logs: {}", folder.path(""));
        std::mem::forget(folder);
    }
    report
}

/// The operation that is in progress when a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    Rekey,
    RekeyAtOnce,
    Evict(usize),
    Enrol,
    GuestJoins,
    GuestLeaves,
}

struct Run {
    team: Team,
    rng: Rng,
    report: Report,
    guest_is_in: bool,
    /// The members that are absent on purpose.
    absent: BTreeSet<usize>,
    seats: Vec<Seat>,
    rested: [Instant; 6],
}

impl Run {
    fn new(place: Place, seed: u64) -> Self {
        let (team, rng) = (Team::new(place), Rng(seed));
        let (absent, seats) = (BTreeSet::from([GUEST]), Vec::new());
        let rested = [Instant::now(); 6];
        let report = Report::default();
        Self { team, rng, report, guest_is_in: false, absent, seats, rested }
    }

    fn kill(mut self, kills: u32) -> Report {
        self.team.controller.start();
        for member in [SWITCH, BOTH, LAMP1, LAMP2] {
            self.team.members[member].start();
        }
        if self.works(Instant::now()).is_none() {
            let state = self.state();
            self.report.stuck.push(format!("before any kill: {state}"));
            return self.report;
        }
        self.seats = self.sure(|run| run.team.roster());
        for number in 0..kills {
            self.round(number);
            self.report.kills += 1;
        }
        self.report
    }

    fn round(&mut self, number: u32) {
        let act = self.act();
        let victim = match self.rng.below(3) {
            0 => None,
            _ => Some(self.rng.below(if self.guest_is_in { 5 } else { 4 }) as usize),
        };
        let told = format!("kill {number} of {}", victim.map_or("controller", |v| NAMES[v]));
        let told = format!("{}, {told} during {act:?}", self.team.place.profile);
        let [act_at, kill_at, start_after] = [150, 300, 50].map(|most| self.rng.millis(most));
        if let Act::Evict(member) = act {
            self.absent.insert(member);
        }
        if act == Act::GuestLeaves {
            self.absent.insert(GUEST);
            self.guest_is_in = false;
            self.team.members[GUEST].kill();
        }
        let place = self.team.place.clone();
        let acting = std::thread::spawn(move || {
            std::thread::sleep(act_at);
            match act {
                Act::Nothing | Act::GuestJoins => true,
                Act::Rekey => place.admin(&["rekey", GROUP]).is_some(),
                Act::RekeyAtOnce => place.admin(&["rekey", GROUP, "--at-once"]).is_some(),
                Act::Evict(member) => place.admin(&["evict", GROUP, NAMES[member]]).is_some(),
                Act::Enrol => {
                    let words = ["enrol", "spare", "--listener", "--controller", "127.0.0.1:9"];
                    place.admin(&words).is_some()
                }
                Act::GuestLeaves => place.guest_leaves(),
            }
        });
        if act == Act::GuestJoins {
            self.team.members[GUEST].start();
        }
        let until = Instant::now() + kill_at;
        while Instant::now() < until {
            self.talk();
        }
        let killed_at = Instant::now();
        match victim {
            None => {
                self.team.controller.kill();
                self.report.kills_of_controller += 1;
            }
            Some(victim) => self.team.members[victim].kill(),
        }
        std::thread::sleep(start_after);
        match victim {
            None => self.team.controller.start(),
            // A member that is leaving has its store open in another process.
            Some(GUEST) if act == Act::GuestLeaves => {}
            Some(victim) => self.team.members[victim].start(),
        }
        match self.works(killed_at) {
            Some(time) => self.report.times.push(time),
            None => {
                let state = self.state();
                self.report.stuck.push(format!("{told}: {state}"));
            }
        }
        let acknowledged = acting.join().expect("an act");
        self.settle(act, acknowledged, &told);
        if self.works(Instant::now()).is_none() {
            let state = self.state();
            self.report.stuck.push(format!("{told}, and after that: {state}"));
        }
        self.compare(act, &told);
    }

    fn act(&mut self) -> Act {
        match self.rng.below(8) {
            0 => Act::Nothing,
            1 => Act::Rekey,
            2 => Act::RekeyAtOnce,
            3 | 4 => Act::Evict(self.rng.below(4) as usize),
            5 => Act::Enrol,
            _ if self.guest_is_in => Act::GuestLeaves,
            _ => Act::GuestJoins,
        }
    }

    /// Compares acknowledged changes with what the controller knows, and undoes them.
    fn settle(&mut self, act: Act, acknowledged: bool, told: &str) {
        match act {
            Act::Nothing | Act::Rekey | Act::RekeyAtOnce => {}
            Act::Evict(member) => {
                let name = NAMES[member];
                let roster = self.sure(|run| run.team.roster());
                if acknowledged && roster.iter().any(|seat| seat.device == name) {
                    self.report.lost.push(format!("{told}: the eviction is undone"));
                }
                self.sure(|run| run.team.place.admin(&["evict", GROUP, name]));
                self.sure(|run| run.team.place.admin(&["readmit", GROUP, name]));
                self.absent.remove(&member);
                self.team.members[member].kill();
                self.team.members[member].start();
            }
            Act::Enrol => {
                let devices = self.sure(|run| run.team.place.admin(&["devices"]));
                let mut devices = devices.as_array().into_iter().flatten();
                let is_there = devices.any(|device| device["device"] == "spare");
                if acknowledged && !is_there {
                    self.report.lost.push(format!("{told}: the new device is forgotten"));
                }
                if is_there {
                    self.sure(|run| run.team.place.admin(&["revoke", "spare"]));
                }
            }
            Act::GuestJoins => {
                self.absent.remove(&GUEST);
                self.guest_is_in = true;
            }
            Act::GuestLeaves => {
                let roster = self.sure(|run| run.team.roster());
                if acknowledged && roster.iter().any(|seat| seat.device == NAMES[GUEST]) {
                    self.report.lost.push(format!("{told}: the guest is in again"));
                }
                if !acknowledged {
                    self.sure(|run| run.team.place.guest_leaves().then_some(()));
                }
            }
        }
    }

    /// Compares the roster with the expected members, and checks that nobody has another place in
    /// it than before.
    fn compare(&mut self, act: Act, told: &str) {
        let roster = self.sure(|run| run.team.roster());
        let present = (0..NAMES.len()).filter(|member| !self.absent.contains(member));
        let wanted: BTreeSet<_> = present.map(|member| NAMES[member].to_owned()).collect();
        let found: BTreeSet<_> = roster.iter().map(|seat| seat.device.clone()).collect();
        if wanted != found {
            self.report.lost.push(format!("{told}: members {found:?}, not {wanted:?}"));
        }
        let moved = |seat: &&Seat| match act {
            Act::Evict(member) if seat.device == NAMES[member] => true,
            Act::GuestJoins | Act::GuestLeaves => seat.device == NAMES[GUEST],
            _ => false,
        };
        for seat in self.seats.iter().filter(|seat| !moved(seat)) {
            if !roster.contains(seat) {
                self.report.lost.push(format!("{told}: {seat:?} is another member now"));
            }
        }
        self.seats = roster;
    }

    /// Asks until there is an answer.
    ///
    /// # Panics
    /// If there is no answer, because the controller has stopped for good.
    fn sure<T>(&mut self, mut ask: impl FnMut(&mut Self) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask(self) {
                return answer;
            }
            assert!(Instant::now() < until, "{}", self.state());
            self.look_after();
            self.talk();
        }
    }

    /// Waits until all senders that are present hear from all listeners that are present. `None` if
    /// that does not happen in time.
    fn works(&mut self, since: Instant) -> Option<Duration> {
        let listeners = |absent: &BTreeSet<usize>, sender| -> BTreeSet<String> {
            let there = (BOTH..=GUEST).filter(|member| !absent.contains(member));
            there.filter(|member| *member != sender).map(|member| NAMES[member].into()).collect()
        };
        let from = [SWITCH, BOTH].map(|sender| self.team.applications[sender].next());
        let until = Instant::now() + PATIENCE;
        loop {
            self.talk();
            let hears = |sender: usize| {
                let all = listeners(&self.absent, sender);
                let application = &self.team.applications[sender];
                self.absent.contains(&sender) || application.has_heard(from[sender], &all)
            };
            if hears(SWITCH) && hears(BOTH) {
                return Some(since.elapsed());
            }
            if Instant::now() >= until {
                return None;
            }
            self.look_after();
        }
    }

    fn talk(&mut self) {
        for application in &mut self.team.applications {
            application.ask();
        }
        std::thread::sleep(PACE);
        self.team.applications.iter_mut().for_each(application::Application::hear);
    }

    /// Starts processes again that ended by themselves. A member that was not evicted must not end
    /// by itself.
    fn look_after(&mut self) {
        let now = Instant::now();
        if !self.team.controller.is_running() && now >= self.rested[5] {
            let last = self.team.controller.last_line();
            // An administrator's command that found no controller has the store open for a moment.
            if !last.contains("another process has it open") {
                self.report.lost.push(format!("the controller ended: {last}"));
            }
            self.team.controller.start();
            self.rested[5] = now + REST;
        }
        for member in SWITCH..=GUEST {
            let process = &mut self.team.members[member];
            let is_wanted = !self.absent.contains(&member);
            if is_wanted && now >= self.rested[member] && !process.is_running() {
                process.start();
                self.rested[member] = now + REST;
            }
        }
    }

    /// A description of the state for somebody who examines a failure.
    fn state(&self) -> String {
        let mut lines = vec![format!("controller: {}", self.team.controller.last_line())];
        lines.extend(self.team.members.iter().map(|m| format!("{}: {}", m.name, m.last_line())));
        for (application, name) in self.team.applications.iter().zip(NAMES) {
            let since = application.next().saturating_sub(100);
            lines.push(format!("{name} heard {:?} lately", application.heard(since)));
        }
        lines.join("; ")
    }
}

/// SplitMix64. The same seed leads to the same kills, as far as the timing of processes allows.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most * 1000 + 1))
    }
}
