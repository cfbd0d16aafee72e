//! The groups are on IPv6: QEMU 7.2 does not translate the index of the interface on which an emulated
//! program of another byte order joins a group on IPv4.

use crate::proxies::{Wrong, echo, exchange};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use testkit::namespace::Host;
use testkit::program::TempDir;

/// What groups are created with.
const WAYS: [(&str, &[&str]); 3] = [
    ("compact", &["--profile", "compact"]),
    ("compact, pairwise responses", &["--profile", "compact", "--responses", "pairwise"]),
    ("axiom-1.2", &["--profile", "axiom-1.2"]),
];

/// How often a first message is sent until a member answers it.
const ATTEMPTS: usize = 5;

pub(crate) fn main() {
    let mut arguments = std::env::args().skip(1);
    let messages = arguments.next().and_then(|number| number.parse().ok()).expect("a number");
    let own = vec![arguments.next().expect("a program")];
    let other: Vec<_> = arguments.collect();
    let host = match Host::open() {
        Ok(host) => host,
        Err(reason) => return println!("{}", json!({ "not_here": reason })),
    };
    host.ip(&format!("link add {INTERFACE} type veth peer name far"));
    // Multicast is routed over one interface alone.
    host.call(|| drop(std::fs::write("/proc/sys/net/ipv6/conf/far/disable_ipv6", "1")));
    host.ip("link set far up");
    host.ip(&format!("link set {INTERFACE} up"));
    for address in [CONTROLLER, LAMP, SWITCH] {
        host.address(INTERFACE, &format!("{address}/64"));
    }
    let rows = host.call(move || rows(&own, &other, messages));
    println!("{}", json!({ "messages": messages, "rows": rows }));
}

const INTERFACE: &str = "near";
const CONTROLLER: &str = "fd00::1";
const LAMP: &str = "fd00::b";
const SWITCH: &str = "fd00::c";

/// A row for each kind of group. `epochs` is the difference between the epochs that began and the
/// controllers that started: one more begins when a member has lost its state.
fn rows(own: &[String], other: &[String], messages: u32) -> Vec<Value> {
    let row = |(name, more): (&str, &[&str])| match Site::new(more).measure([own, other], messages)
    {
        Ok((Wrong { lost, other }, epochs)) => {
            json!({ "name": name, "lost": lost, "other": other, "epochs": epochs })
        }
        Err(refused) => json!({ "name": name, "refused": refused }),
    };
    WAYS.map(row).into()
}

/// A running controller or member. Dropping it ends it.
struct Running {
    child: Child,
    /// What it said when it was ready, from the words that were waited for.
    ready: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a program and waits until it says `until`.
    fn start(line: &[String], words: &[&str], until: &str) -> Result<Self, String> {
        let (program, before) = line.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(before).args(["-v", "group"]).args(words).stdin(Stdio::null());
        let child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut running = Self { child, ready: String::new() };
        let mut lines = BufReader::new(running.child.stderr.take().ok_or("no output")?).lines();
        let mut said = Vec::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some((_, rest)) = line.split_once(until) {
                running.ready = rest.trim().into();
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
                return Ok(running);
            }
            said.push(line);
        }
        Err(said.join(" | "))
    }

    /// Has it store its state and end.
    fn stop(mut self) -> Result<(), String> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).map_err(|e| e.to_string())?;
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        if ended.success() { Ok(()) } else { Err(format!("SIGTERM: {ended}")) }
    }
}

/// The directories of a group's controller and its two members, and their addresses.
struct Site<'a> {
    dir: TempDir,
    controller: String,
    more: &'a [&'a str],
}

impl<'a> Site<'a> {
    fn new(more: &'a [&'a str]) -> Self {
        Self { dir: TempDir::new(), controller: format!("[{CONTROLLER}]:5790"), more }
    }

    fn admin(&self, line: &[String], words: &[&str]) -> Result<String, String> {
        let (program, before) = line.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(before).args(["group", "admin", "--state", &self.dir.path("controller")]);
        let done = command.args(words).output().map_err(|error| error.to_string())?;
        let [said, errors] =
            [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        if done.status.success() { Ok(said) } else { Err(format!("{words:?}: {errors}")) }
    }

    fn epoch(&self, line: &[String]) -> Result<u64, String> {
        let shown = self.admin(line, &["show", "lights", "--json"])?;
        let shown: Value = serde_json::from_str(&shown).map_err(|error| error.to_string())?;
        shown["epoch"].as_u64().ok_or_else(|| "no epoch".into())
    }

    fn member(&self, device: &str, address: &str, more: [&str; 2]) -> Vec<String> {
        let (state, token) = (self.dir.path(device), self.dir.path(&format!("{device}.token")));
        let words =
            ["join", "lights", "--interface", INTERFACE, "--state", &state, "--token", &token];
        let words = [&words[..], &["--address", address], &more].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    /// Messages of all rounds that went wrong, and epochs more or fewer than controllers that started.
    fn measure(&self, [own, other]: [&[String]; 2], messages: u32) -> Result<(Wrong, u64), String> {
        let create =
            ["create", "lights", "--address", "[ff15::abcd]:5684", "--activation", "200ms"];
        self.admin(own, &[&create, self.more].concat())?;
        for (device, role) in [("switch", "--sender"), ("lamp", "--listener")] {
            let token =
                self.admin(own, &["enrol", device, role, "--controller", &self.controller])?;
            self.dir.file(&format!("{device}.token"), &token);
        }
        let service = echo().to_string();
        let mut wrong = Wrong { lost: 0, other: 0 };
        let (mut before, mut began) = (None, 0);
        let [mut controller, mut lamp, mut switch] = [(); 3].map(|()| None::<(bool, Running)>);
        for round in ROUNDS {
            let line = |is_other: bool| if is_other { other } else { own };
            // In one order: a member is confirmed by its controller, and a sender needs a listener.
            let mut starts = false;
            if controller.as_ref().is_none_or(|(is_other, _)| *is_other != round.controller) {
                stop(controller.take())?;
                let running = self.serve(line(round.controller))?;
                controller = Some((round.controller, running));
                starts = true;
            }
            if lamp.as_ref().is_none_or(|(is_other, _)| *is_other != round.listener) {
                stop(lamp.take())?;
                let words = self.member("lamp", LAMP, ["--service", &service]);
                let until = "requests are answered by";
                let running = Running::start(line(round.listener), &words_of(&words), until)?;
                lamp = Some((round.listener, running));
            }
            if switch.as_ref().is_none_or(|(is_other, _)| *is_other != round.sender) {
                stop(switch.take())?;
                let words = self.member("switch", SWITCH, ["--listen", "127.0.0.1:0"]);
                let until = "applications send to";
                let running = Running::start(line(round.sender), &words_of(&words), until)?;
                switch = Some((round.sender, running));
            }
            let to = switch.as_ref().map_or("", |(_, running)| &running.ready);
            let to: SocketAddr = to.parse().map_err(|_| format!("no address: {to}"))?;
            if !(0..ATTEMPTS).any(|_| exchange(to, 1).lost == 0) {
                return Err("no member answers".into());
            }
            let found = exchange(to, messages / round.part);
            wrong.lost += found.lost;
            wrong.other += found.other;
            let epoch = self.epoch(own)?;
            began += before.map_or(0, |before| epoch.abs_diff(before + u64::from(starts)));
            before = Some(epoch);
        }
        [switch, lamp, controller].into_iter().try_for_each(stop)?;
        Ok((wrong, began))
    }

    fn serve(&self, line: &[String]) -> Result<Running, String> {
        let (state, listen) = (self.dir.path("controller"), &self.controller);
        let words = ["controller", "--state", &state, "--listen", listen, "--interface", INTERFACE];
        // All members are on one machine, and ask the controller from the address that it chooses.
        let words = [&words[..], &["--trust-addresses"]].concat();
        Running::start(line, &words, "listening for devices on")
    }
}

/// Whether the controller, the listener and the sender are the other program, in a round.
struct Round {
    controller: bool,
    listener: bool,
    sender: bool,
    /// What part of the messages is sent.
    part: u32,
}

/// What changes its program between two rounds goes on with what it has stored as the other one. First
/// the members change alone, then the controller alone, then all of them back.
const ROUNDS: [Round; 4] = [
    Round { controller: false, listener: false, sender: true, part: 1 },
    Round { controller: false, listener: true, sender: false, part: 1 },
    Round { controller: true, listener: true, sender: false, part: 10 },
    Round { controller: false, listener: false, sender: true, part: 10 },
];

fn stop(running: Option<(bool, Running)>) -> Result<(), String> {
    running.map_or(Ok(()), |(_, running)| running.stop())
}

fn words_of(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}
