//! A controller and its members, as processes that can be killed.

use super::application::{Application, Service};
use crate::program::lightseal;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const GROUP: &str = "lights";
/// The members' port in the group.
const PORT: u16 = 5683;

/// A program that runs until it is killed, and has the same arguments at each start.
pub(crate) struct Process {
    pub(crate) name: &'static str,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    pub(crate) fn new(folder: &Path, name: &'static str, arguments: Vec<String>) -> Self {
        Self { name, arguments, log: folder.join(format!("{name}.log")), child: None }
    }

    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = lightseal(&arguments);
        command.env("LIGHTSEAL_LOG", "debug").stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether the process runs. A process that was never started, or was killed, does not run.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// The last line of its log.
    pub(crate) fn last_line(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().next_back().unwrap_or_default().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The directory and the addresses of a team.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    /// The first three bytes of its addresses.
    pub(crate) network: [u8; 3],
    pub(crate) group: String,
    pub(crate) controller_port: u16,
    pub(crate) profile: &'static str,
}

impl Place {
    fn address(&self, host: u8) -> String {
        let [a, b, c] = self.network;
        format!("{a}.{b}.{c}.{host}")
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    /// Asks the controller; `None` if the request was not acknowledged.
    pub(crate) fn admin(&self, words: &[&str]) -> Option<Value> {
        let state = self.path("controller");
        let words = [&["group", "admin", "--state", &state, "--json"], words].concat();
        let (status, said) = run(&words)?;
        status.success().then(|| serde_json::from_str(&said).unwrap_or(Value::Null))
    }

    /// Makes the guest leave the group. Returns whether that succeeded.
    pub(crate) fn guest_leaves(&self) -> bool {
        let state = self.path("guest");
        let done = run(&["group", "leave", GROUP, "--state", &state]);
        done.is_some_and(|(status, _)| status.success())
    }
}

/// Runs a command to its end; `None` if it had to be killed.
fn run(words: &[&str]) -> Option<(ExitStatus, String)> {
    let mut command = lightseal(words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    // The output is short, so the command does not wait for a reader.
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    let output = child.wait_with_output().unwrap();
    Some((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The names of the members, in the order of [`Team::members`].
pub(crate) const NAMES: [&str; 5] = ["switch", "both", "lamp1", "lamp2", "guest"];
pub(crate) const SWITCH: usize = 0;
pub(crate) const BOTH: usize = 1;
pub(crate) const LAMP1: usize = 2;
pub(crate) const LAMP2: usize = 3;
pub(crate) const GUEST: usize = 4;

/// A controller, two senders and three listeners (one member is both), and a guest that listens.
pub(crate) struct Team {
    pub(crate) place: Place,
    pub(crate) controller: Process,
    pub(crate) members: [Process; 5],
    /// The applications of the two senders.
    pub(crate) applications: [Application; 2],
    _services: Vec<Service>,
}

impl Team {
    /// Enrols all devices. No process runs yet.
    pub(crate) fn new(place: Place) -> Self {
        std::fs::create_dir_all(&place.folder).unwrap();
        let at = format!("{}:{}", place.address(1), place.controller_port);
        let [address, profile] = [&place.group, place.profile];
        let quick = ["--batch", "50ms", "--activation", "200ms", "--retention", "2s"];
        let create = ["create", GROUP, "--address", address, "--profile", profile];
        place.admin(&[&create[..], &quick].concat()).expect("a group can be made");
        let state = place.path("controller");
        let words = ["group", "controller", "--state", &state, "--listen", &at];
        let words = [&words[..], &["--interface", "lo"]].concat();
        let controller = Process::new(&place.folder, "controller", owned(&words));
        let mut services = Vec::new();
        let mut listens = Vec::new();
        let members = NAMES.map(|name| {
            let index = NAMES.iter().position(|other| *other == name).unwrap_or_default();
            let (sends, answers) = (index <= BOTH, index >= BOTH);
            let mut roles = Vec::new();
            roles.extend(sends.then_some("--sender"));
            roles.extend(answers.then_some("--listener"));
            let enrol = [&["enrol", name, "--controller", &at][..], &roles].concat();
            let token = place.admin(&enrol).expect("a device can be enrolled");
            let file = place.path(&format!("{name}.token"));
            std::fs::write(&file, token["token"].as_str().unwrap()).unwrap();
            owner_alone(&file);
            let (state, address) = (place.path(name), place.address(index as u8 + 2));
            let mut words = ["group", "join", GROUP, "--state", &state, "--token", &file].to_vec();
            words.extend(["--interface", "lo", "--address", &address]);
            let listen = format!("{}:{PORT}", place.address(index as u8 + 20));
            let service = answers.then(|| Service::start(name));
            let service_address = service.as_ref().map(|service| service.address.to_string());
            if sends {
                words.extend(["--listen", &listen]);
                listens.push(listen.clone());
            }
            if let Some(address) = &service_address {
                words.extend(["--service", address]);
            }
            services.extend(service);
            Process::new(&place.folder, name, owned(&words))
        });
        let applications = [0, 1].map(|n: usize| Application::new(&listens[n]));
        Self { place, controller, members, applications, _services: services }
    }

    /// The members of the group as the controller knows them; `None` if it cannot be asked now.
    pub(crate) fn roster(&self) -> Option<Vec<Seat>> {
        let shown = self.place.admin(&["show", GROUP])?;
        let seat = |member: &Value| Seat {
            device: member["device"].as_str().unwrap_or_default().to_owned(),
            ids: (member["listener_id"].as_u64(), member["sender_id"].as_u64()),
        };
        Some(shown["roster"].as_array()?.iter().map(seat).collect())
    }
}

/// A member in the controller's roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) device: String,
    /// ListenerID and SenderID.
    pub(crate) ids: (Option<u64>, Option<u64>),
}

fn owner_alone(file: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
