//! Two machines at one LAN, of which one carries frames, set up as in the gateway's guide: the
//! gateway runs on the machine on which keepalived holds the tunnel's address.
//!
//! ```text
//!               ┌── lan 1st wan ──┐
//! host ── LAN ──┤                 ├── between ── wan gateway lan ── host
//!               └── lan 2nd wan ──┘
//! ```

use crate::Failure;
use crate::daemon::{Daemon, Scratch, on_path, output};
use crate::gateways;
use crate::namespace::Namespace;
use crate::site::{LAN, Mtu, WAN};
use crate::soak::flows::Flow;
use crate::soak::host::{Host, Pace, Shared};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Rate at which each host sends to the other.
const PACE: Pace = Pace::Frames(200.0);
/// How long it may take until frames flow, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// Number of frames in each direction after which they count as flowing again. It is larger than
/// the number of frames under way.
const ENOUGH: u64 = 20;
/// The tunnel's address, which moves between the machines, and the other gateway's address.
const SHARED: &str = "192.0.2.1";
const OTHER: &str = "192.0.2.2";

/// How long no frames arrived after each of two failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// After the active machine's cable to the tunnel was cut.
    pub cut: Duration,
    /// After the machine that was then active was lost: its gateway and keepalived were killed, and
    /// both cables cut.
    pub lost: Duration,
}

/// Builds the network with this `lightseal` program, and makes one active machine after the other
/// fail.
///
/// # Errors
/// [`Failure::NotHere`] without namespaces, keepalived or a gateway; [`Failure::Broken`] if frames
/// do not flow again.
pub fn run(program: &Path) -> Result<Gaps, Failure> {
    gateways::require(program)?;
    if !on_path("keepalived") {
        return Err(Failure::NotHere("keepalived is missing".into()));
    }
    let mut ground = Ground::build(program)?;
    let flows = Flow::all(2);
    let shared = Shared::new(flows.len(), 2);
    let mut hosts = [Host::new(0, &flows), Host::new(1, &flows)];
    let (flows, shared) = (&flows, &shared);
    let (places, machines) = (&ground.hosts, &mut ground.machines);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (host, place) in hosts.iter_mut().zip(places) {
            threads.push(scope.spawn(move || place.within(|| host.run(flows, 1, PACE, shared))?));
        }
        let gaps = lose(machines, shared);
        shared.stop.store(true, Ordering::Relaxed);
        shared.end.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join() {
                Ok(ended) => ended?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        gaps
    })
}

/// The namespaces and the programs in them.
struct Ground {
    hosts: [Namespace; 2],
    machines: [Machine; 2],
    _gateway: Daemon,
    _other: Namespace,
    _switches: [Namespace; 2],
    _scratch: Scratch,
}

/// One of the two machines.
struct Machine {
    place: Namespace,
    keepalived: Daemon,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The gateway was started by keepalived and is not our child process.
        self.place.kill_all();
    }
}

impl Ground {
    fn build(program: &Path) -> Result<Self, Failure> {
        let Mtu { lan, underlay } = Mtu::ROOMY;
        let scratch = Scratch::new("standby")?;
        let [switch, between] = [Namespace::new("lan")?, Namespace::new("between")?];
        for place in [&switch, &between] {
            place.ip("link add net type bridge mcast_snooping 0")?;
            place.ip("link set net up")?;
        }
        let plug = |place: &Namespace, name: &str, into: &Namespace, port: &str, mtu| {
            place.cable(name, into, port, mtu)?;
            into.ip(&format!("link set {port} master net")).map(drop)
        };
        let hosts = [Namespace::new("hostA")?, Namespace::new("hostB")?];
        plug(&hosts[0], LAN, &switch, "host", lan)?;
        let other = Namespace::new("gwB")?;
        hosts[1].cable(LAN, &other, LAN, lan)?;
        plug(&other, WAN, &between, "other", underlay)?;
        other.ip(&format!("addr add {OTHER}/24 dev {WAN}"))?;
        let keygen = |name: &str| -> Result<String, Failure> {
            let file = scratch.file(name);
            let key = output(Command::new(program).args(["gateway", "keygen"]).arg(file))?;
            Ok(key.trim().to_owned())
        };
        let (key, other_key) = (keygen("a.key")?, keygen("b.key")?);
        configure(&scratch, "other", "b.key", &key, SHARED)?;
        let script = scratch.file("notify");
        write(&script, &notify(program, &scratch))?;
        let runs = fs::set_permissions(&script, fs::Permissions::from_mode(0o700));
        runs.map_err(|error| Failure::broken(script.display(), error))?;
        let start = |number: usize| -> Result<Machine, Failure> {
            let name = format!("machine-{number}");
            let place = Namespace::new("gwA")?;
            plug(&place, LAN, &switch, &name, lan)?;
            plug(&place, WAN, &between, &name, underlay)?;
            place.ip(&format!("addr add 192.0.2.{}/24 dev {WAN}", 11 + number))?;
            configure(&scratch, &name, "a.key", &other_key, OTHER)?;
            let conf = scratch.file(&format!("{name}.conf"));
            write(&conf, &keepalived(&script, &name, 150 - 50 * number))?;
            let mut command = place.command("keepalived");
            command.args(["--dont-fork", "--log-console", "--vrrp", "--use-file"]).arg(&conf);
            for (option, file) in [("--pid", "pid"), ("--vrrp_pid", "vrrp-pid")] {
                command.arg(option).arg(scratch.file(&format!("{name}.{file}")));
            }
            let keepalived =
                Daemon::start(&mut command, &scratch.file(&format!("{name}.keepalived")))?;
            Ok(Machine { place, keepalived })
        };
        let machines = [start(0)?, start(1)?];
        let mut command = other.command(program);
        command.args(["gateway", "run"]).arg(scratch.file("other.toml"));
        let gateway = Daemon::start(&mut command, &scratch.file("other.log"))?;
        Ok(Self {
            hosts,
            machines,
            _gateway: gateway,
            _other: other,
            _switches: [switch, between],
            _scratch: scratch,
        })
    }
}

/// The index of the machine that has the tunnel's address.
fn active(machines: &[Machine; 2]) -> Result<usize, Failure> {
    let has = |machine: &Machine| -> Result<bool, Failure> {
        let text = machine.place.ip(&format!("-o addr show dev {WAN}"))?;
        Ok(text.contains(&format!(" {SHARED}/")))
    };
    match [has(&machines[0])?, has(&machines[1])?] {
        [true, false] => Ok(0),
        [false, true] => Ok(1),
        both => Err(Failure::Broken(format!(
            "not exactly one machine has the tunnel's address: {both:?}"
        ))),
    }
}

/// Makes the active machine fail, in two ways.
fn lose(machines: &mut [Machine; 2], shared: &Shared) -> Result<Gaps, Failure> {
    flowing(shared)?;
    let first = active(machines)?;
    machines[first].place.ip(&format!("link set {WAN} down"))?;
    let cut = flowing(shared)?;
    let second = active(machines)?;
    if second == first {
        return Err(Failure::Broken("the address stayed at a cut cable".into()));
    }
    // The machine's cable is repaired. The machine must not take over, because of nopreempt.
    machines[first].place.ip(&format!("link set {WAN} up"))?;
    thread::sleep(Duration::from_secs(3));
    flowing(shared)?;
    if active(machines)? != second {
        return Err(Failure::Broken("the machine that came back took over".into()));
    }
    let machine = &mut machines[second];
    machine.keepalived.runs()?;
    machine.place.kill_all();
    for interface in [LAN, WAN] {
        machine.place.ip(&format!("link set {interface} down"))?;
    }
    let lost = flowing(shared)?;
    Ok(Gaps { cut, lost })
}

/// Waits until frames arrive in both directions, and returns how long that took.
fn flowing(shared: &Shared) -> Result<Duration, Failure> {
    let started = Instant::now();
    let arrived = || shared.delivered.iter().map(|count| count.load(Ordering::Relaxed));
    let before: Vec<_> = arrived().collect();
    while arrived().zip(&before).any(|(now, before)| now < before + ENOUGH) {
        if started.elapsed() > PATIENCE {
            let counts: Vec<_> = arrived().zip(&before).map(|(now, before)| now - before).collect();
            return Err(Failure::Broken(format!(
                "only {counts:?} frames arrived within {PATIENCE:?}"
            )));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(started.elapsed())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::broken(path.display(), error))
}

/// Writes a gateway's configuration. `listen` names no address, since the address moves.
fn configure(
    scratch: &Scratch,
    name: &str,
    identity: &str,
    peer_key: &str,
    peer: &str,
) -> Result<(), Failure> {
    let text = format!(
        "[gateway]\nname = \"{name}\"\nidentity = \"{}\"\nstate = \"{}\"\n\n\
         [lan]\ninterface = \"{LAN}\"\nio = \"packet\"\n\n\
         [underlay]\nlisten = \"0.0.0.0:8885\"\nio = \"udp\"\n\n\
         [[peer]]\nname = \"peer\"\npublic_key = \"{peer_key}\"\nendpoint = \"{peer}:8885\"\n",
        scratch.file(identity).display(),
        scratch.file(&format!("state-{name}")).display(),
    );
    write(&scratch.file(&format!("{name}.toml")), &text)
}

/// The script that keepalived calls with a machine's name and its new state. It starts and stops
/// the gateway, as systemd does in the guide.
fn notify(program: &Path, scratch: &Scratch) -> String {
    let (program, base) = (program.display(), scratch.file("").display().to_string());
    format!(
        "#!/bin/sh\ncd '{base}' || exit 1\nif [ \"$2\" = master ]; then\n\
         '{program}' gateway run \"$1.toml\" >> \"$1.log\" 2>&1 &\necho $! > \"$1.gateway\"\n\
         elif [ -f \"$1.gateway\" ]; then\nkill \"$(cat \"$1.gateway\")\"\nrm \"$1.gateway\"\nfi\n\
         exit 0\n"
    )
}

/// keepalived's configuration, as in the guide.
fn keepalived(script: &Path, name: &str, priority: usize) -> String {
    let script = script.display();
    let notify = ["master", "backup", "fault", "stop"]
        .map(|state| format!("  notify_{state} \"{script} {name} {state}\"\n"))
        .concat();
    format!(
        "global_defs {{\n  enable_script_security\n  script_user root\n}}\n\
         vrrp_instance plant {{\n  state BACKUP\n  nopreempt\n  interface {WAN}\n\
         \x20 virtual_router_id 85\n  priority {priority}\n  version 3\n  advert_int 0.5\n\
         \x20 virtual_ipaddress {{ {SHARED}/24 }}\n  track_interface {{ {LAN} }}\n{notify}}}\n"
    )
}
