//! A group in network namespaces on a bridge, with CoAP programs that know nothing of the group.

use super::{GroupDemoArgs, NAME_PREFIX, Narration, Outcome, TempDir, interrupted, interruption};
use crate::failure::{Context, Failure};
use crate::system::Signals;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The programs of libcoap.
pub(super) const SERVER: &str = "coap-server-notls";
pub(super) const CLIENT: &str = "coap-client-notls";

const GROUP: &str = "lights";
const ADDRESS: &str = "ff15::abcd";
const DEVICE: &str = "group0";
/// How long the client waits. CoAP servers answer a group within five seconds (RFC 7252, section
/// 8.2).
const LEISURE_SECONDS: &str = "6";
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a running program, or a condition, is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Whether the user asked the demonstration to end early.
#[derive(Clone, Debug, Default)]
struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// If the user asked for the end.
    fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { Err(interruption()) } else { Ok(()) }
    }
}

/// The namespaces and the programs that run in them. Dropping this removes all of them.
pub(super) struct NamespaceSite {
    names: Vec<String>,
    running: Vec<Child>,
    interrupt: Interrupt,
}

/// Network namespaces, or the reason why there can be none.
pub(super) fn site(args: &GroupDemoArgs) -> Result<NamespaceSite, Failure> {
    if args.in_process {
        return Err(Failure::new("--in-process was given"));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("network namespaces need root"));
    }
    let has = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    for name in ["ip", SERVER, CLIENT] {
        if !has(name) {
            return Err(Failure::new(format_args!("there is no {name} here")));
        }
    }
    // Root in a container may have neither TUN devices nor network namespaces.
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    device.context("no TUN devices")?;
    NamespaceSite::build(usize::from(args.servers) + 2).context("no network namespaces")
}

fn ip(args: &[&str]) -> Result<(), Failure> {
    let done = Command::new("ip").args(args).stdin(Stdio::null()).output();
    let done = done.context("ip")?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Failure::new(format_args!("ip {}: {}", args.join(" "), said.trim())))
}

/// The lines that `ip` prints; none if it fails.
pub(super) fn lines_of_ip(args: &[&str]) -> Vec<String> {
    let output = Command::new("ip").args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let printed = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect()
}

/// Removes a namespace. If that fails, the namespace stays.
pub(super) fn remove_namespace(name: &str) {
    let _ = ip(&["netns", "del", name]);
}

impl NamespaceSite {
    /// Creates a bridge and `count` namespaces on it. The first namespace is that of the bridge
    /// itself.
    pub(super) fn build(count: usize) -> Result<Self, Failure> {
        let id = std::process::id();
        let interrupt = Interrupt::default();
        let mut site = Self { names: Vec::new(), running: Vec::new(), interrupt };
        let bridge = format!("{NAME_PREFIX}{id}-bridge");
        ip(&["netns", "add", &bridge])?;
        site.names.push(bridge.clone());
        let link = ["-n", &bridge, "link"];
        ip(&[&link[..], &["add", "br0", "type", "bridge", "mcast_snooping", "0"]].concat())?;
        ip(&[&link[..], &["set", "br0", "up"]].concat())?;
        for nth in 1..=count {
            let (name, port) = (format!("{NAME_PREFIX}{id}-{nth}"), format!("port{nth}"));
            ip(&["netns", "add", &name])?;
            site.names.push(name.clone());
            let add = ["-n", &name, "link", "add", "eth0", "type", "veth", "peer", "name", &port];
            ip(&[&add[..], &["netns", &bridge]].concat())?;
            ip(&["-n", &bridge, "link", "set", &port, "master", "br0", "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
            let address = format!("{}/64", address(nth));
            ip(&["-n", &name, "addr", "add", &address, "dev", "eth0", "nodad"])?;
        }
        Ok(site)
    }

    /// A command that runs a program in a namespace.
    fn command(&self, nth: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[nth]]).arg(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A command that runs this program in a namespace.
    fn lightseal(&self, nth: usize) -> Result<Command, Failure> {
        Ok(self.command(nth, std::env::current_exe().context("this program")?))
    }

    fn start(&mut self, mut command: Command) -> Result<(), Failure> {
        self.running.push(command.spawn().context("cannot start a program")?);
        Ok(())
    }

    /// Sends a request to the group from a namespace with an ordinary CoAP client, and returns the
    /// number of answers.
    fn request(&self, nth: usize) -> Result<usize, Failure> {
        let mut client = self.command(nth, CLIENT);
        client.args(["-N", "-w", "-B", LEISURE_SECONDS, "-m", "get"]);
        client.arg(format!("coap://[{ADDRESS}]/time"));
        let mut child = client.stdout(Stdio::piped()).spawn().context(CLIENT)?;
        let ended =
            self.wait_until(CLIENT, || child.try_wait().map(|code| code.is_some()).context(CLIENT));
        let _ = child.kill();
        let output = child.wait_with_output().context(CLIENT)?;
        ended?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter(|line| !line.trim().is_empty()).count())
    }

    /// Waits for `time`, unless the user asks for the end.
    fn pause(&self, time: Duration) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < time {
            self.interrupt.check()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn wait_until(
        &self,
        what: &str,
        mut is_so: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        while !is_so()? {
            self.interrupt.check()?;
            if began.elapsed() > PATIENCE {
                return Err(Failure::new(format_args!("{what}: not within 30 s")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for NamespaceSite {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.names {
            remove_namespace(name);
        }
    }
}

fn address(nth: usize) -> String {
    format!("fd6c:7365:616c::{nth}")
}

/// Runs `lightseal group admin`, which prints JSON.
fn admin(state: &Path, args: &[&str]) -> Result<Value, Failure> {
    let program = std::env::current_exe().context("this program")?;
    let mut command = Command::new(program);
    command.args(["group", "admin", "--json", "--state"]).arg(state).args(args);
    let output = command.stdin(Stdio::null()).output().context("admin")?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).context("admin")
}

/// The number of messages that a device has delivered to its applications, from its statistics.
fn delivered(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let stats: Value = serde_json::from_str(&text).unwrap_or_default();
    stats["delivered"].as_u64().unwrap_or_default() as usize
}

pub(super) async fn run(
    site: NamespaceSite,
    servers: usize,
    profile: &str,
    narration: Narration,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let profile = profile.to_owned();
    let interrupt = site.interrupt.clone();
    // Waiting for programs blocks, so it needs a thread of its own. If the thread fails, it ends
    // its children.
    let mut work =
        tokio::task::spawn_blocking(move || demonstrate(site, servers, &profile, narration));
    tokio::select! {
        // Ctrl-C in a terminal also ends the programs, and their failures would hide the reason.
        biased;
        () = interrupted(signals) => interrupt.request(),
        outcome = &mut work => return outcome.context("demonstration")?,
    }
    let outcome = work.await.context("demonstration")?;
    interrupt.check()?;
    outcome
}

fn demonstrate(
    site: NamespaceSite,
    servers: usize,
    profile: &str,
    narration: Narration,
) -> Result<Outcome, Failure> {
    let scratch = TempDir::make()?;
    // Its programs end before the directory is removed, to which they write.
    let mut site = site;
    let state = scratch.path().join("controller");
    let (controller, client, evicted) = (1, 2, servers + 2);
    narration.say(format_args!("{} namespaces on a bridge", servers + 2));

    let (group, reached) = (format!("[{ADDRESS}]:5684"), format!("[{}]:5780", address(controller)));
    let create = ["create", GROUP, "--address", &group, "--profile", profile];
    admin(&state, &[&create[..], &["--batch", "50ms", "--activation", "300ms"]].concat())?;
    let mut command = site.lightseal(controller)?;
    command.args(["group", "controller", "--listen", &reached, "--interface", "eth0", "--state"]);
    site.start({
        command.arg(&state);
        command
    })?;
    let runs = || Ok(state.join("admin.sock").exists());
    site.wait_until("the controller", runs)?;
    narration.say(format_args!("a controller at {reached}, group {GROUP} at {group}, {profile}"));

    let began = Instant::now();
    let stats = scratch.path().join("evicted.json");
    for nth in client..=evicted {
        let name = if nth == client { "client".to_owned() } else { format!("server {}", nth - 2) };
        let enrol = ["enrol", &name, "--sender", "--listener", "--controller", &reached];
        let token = admin(&state, &enrol)?;
        let file = scratch.path().join(format!("{nth}.token"));
        write_private(&file, token["token"].as_str().unwrap_or_default())?;
        let role = match nth {
            _ if nth == client => "sender",
            _ if nth == evicted => "both",
            _ => "listener",
        };
        let mut command = site.lightseal(nth)?;
        command.args([
            "group",
            "join",
            GROUP,
            "--interface",
            "eth0",
            "--tun",
            DEVICE,
            "--as",
            role,
        ]);
        command.arg("--state").arg(scratch.path().join(nth.to_string()));
        command.arg("--token").arg(&file);
        if nth == evicted {
            command.arg("--stubborn").arg("--stats-file").arg(&stats);
        }
        site.start(command)?;
    }
    let members = |state: &Path| Ok(admin(state, &["show", GROUP])?["members"].as_u64());
    site.wait_until("members", || Ok(members(&state)? == Some(servers as u64 + 1)))?;
    for nth in client..=evicted {
        let path = site.names[nth].clone();
        let is_up = || Ok(ip(&["-n", &path, "link", "show", DEVICE]).is_ok());
        site.wait_until("a TUN device", is_up)?;
    }
    let joined_ms = began.elapsed().as_millis() as u64;
    narration.say(format_args!("{} devices are in after {joined_ms} ms", servers + 1));
    for nth in client + 1..=evicted {
        let mut server = site.command(nth, SERVER);
        server.args(["-g", ADDRESS, "-G", DEVICE]);
        site.start(server)?;
    }
    site.pause(Duration::from_secs(1))?;
    narration.say(format_args!("{CLIENT} -N -m get coap://[{ADDRESS}]/time, unmodified:"));
    let answers = site.request(client)?;
    narration.say(format_args!("{answers} answers of {servers} times {SERVER}"));

    let last = format!("server {servers}");
    let answers_to_evicted = site.request(evicted)?;
    let (before, began) = (delivered_now(&site, evicted, &stats)?, Instant::now());
    admin(&state, &["evict", GROUP, &last])?;
    let evicted_ms = began.elapsed().as_millis() as u64;
    narration.say(format_args!("{last} is evicted, within {evicted_ms} ms"));
    site.pause(Duration::from_secs(1))?;
    let answers_after = site.request(client)?;
    narration.say(format_args!("the same request: {answers_after} answers"));
    // The device's own server would answer it without going through the group.
    if let Some(own) = site.running.last_mut() {
        let _ = own.kill();
        let _ = own.wait();
    }
    let evicted_answers = site.request(evicted)?;
    let evicted_read = delivered_now(&site, evicted, &stats)? - before;
    Ok(Outcome {
        form: "namespaces",
        servers,
        joined_ms,
        answers,
        answers_to_evicted,
        evicted_ms,
        answers_after,
        evicted_read,
        evicted_answers,
    })
}

/// Has a member write its statistics, and returns the number of messages that it delivered.
fn delivered_now(site: &NamespaceSite, nth: usize, stats: &Path) -> Result<usize, Failure> {
    let _ = std::fs::remove_file(stats);
    // `ip netns exec` replaces itself by the program, so the process ID is that of the member.
    let nth_member = nth - 1;
    let child = &site.running[nth_member];
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).context("a member")?;
    site.wait_until("statistics", || Ok(stats.exists()))?;
    Ok(delivered(stats))
}

fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).context(path.display())
}
