//! Our own gateways as processes, for the rows of the comparison and for trials with real MACsec.

use crate::Failure;
use crate::daemon::{Daemon, Scratch, output};
use crate::namespace::Namespace;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long gateways may take until all are connected with each other.
const PATIENCE: Duration = Duration::from_secs(30);
/// The UDP port of the tunnel and the TCP port of the management channel.
pub(crate) const PORT: u16 = 8885;
/// The address at which a gateway offers its metrics.
pub const METRICS: &str = "127.0.0.1:9431";

/// The configuration that all gateways share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The scheme by which frames are sealed. Schemes of the tunnel paper run in `lightseal-lab`.
    pub scheme: &'static str,
    /// Whether packets of known flows have short headers.
    pub compress: bool,
    /// `xdp` or `packet`: how frames of the LAN are read and written.
    pub lan_io: &'static str,
    /// `xdp` or `udp`: how the tunnel's datagrams are read and written.
    pub underlay_io: &'static str,
    /// The largest IP packet between the gateways, in bytes; `None` lets them find it.
    pub mtu: Option<u32>,
    /// Seconds between two keys, at least 10; `None` for the program's default.
    pub rekey_seconds: Option<u32>,
    /// Whether each gateway offers its metrics at [`METRICS`] in its namespace.
    pub metrics: bool,
}

impl Setup {
    /// The scheme `sealed`, with all packets through the kernel's sockets.
    pub const SEALED: Self = Self {
        scheme: "sealed",
        compress: false,
        lan_io: "packet",
        underlay_io: "udp",
        mtu: None,
        rekey_seconds: None,
        metrics: false,
    };

    /// Whether the scheme is one of the tunnel paper, which no configuration can choose.
    fn is_of_paper(&self) -> bool {
        self.scheme.ends_with("-paper")
    }

    /// Checks that the program exists that has the scheme; `program` is the path of `lightseal`.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if not.
    pub fn require(&self, program: &Path) -> Result<(), Failure> {
        if !self.is_of_paper() {
            return Ok(());
        }
        output(Command::new(laboratory(program)).args(["gateway", "--help"]))
            .map(drop)
            .map_err(|why| Failure::not_here("no laboratory", why))
    }
}

/// The place of one gateway in the network.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The gateway's namespace.
    pub place: &'a Namespace,
    /// The interface to the gateway's LAN.
    pub lan: &'a str,
    /// The interface to the other gateways.
    pub wan: &'a str,
    /// The gateway's IP address on `wan`.
    pub address: &'a str,
}

/// The program `lightseal`: the one that `LIGHTSEAL_PROGRAM` names, or the one in the folder of the
/// running program.
pub fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("LIGHTSEAL_PROGRAM") {
        return program.into();
    }
    let own = std::env::current_exe().unwrap_or_default();
    // Test programs are in the folder `deps` below it.
    let folder = own.parent().unwrap_or(Path::new("."));
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    folder.join("lightseal")
}

/// The program `lightseal-lab` beside `lightseal`.
fn laboratory(program: &Path) -> PathBuf {
    program.with_file_name("lightseal-lab")
}

/// Checks that `program` exists and has the command `gateway`.
///
/// # Errors
/// [`Failure::NotHere`] if not.
pub fn require(program: &Path) -> Result<(), Failure> {
    output(Command::new(program).args(["gateway", "run", "--help"]))
        .map(drop)
        .map_err(|why| Failure::not_here("no gateway", why))
}

/// Starts a gateway at each post and waits until every one is connected with all others. Their
/// keys, configurations and logs are in `scratch`.
///
/// # Errors
/// A gateway ends, or they are not all connected within half a minute.
pub fn start(
    program: &Path,
    setup: &Setup,
    posts: &[Post<'_>],
    scratch: &Scratch,
) -> Result<Vec<Daemon>, Failure> {
    let keys = (0..posts.len())
        .map(|number| {
            let file = scratch.file(&key_file(number));
            let key = output(Command::new(program).args(["gateway", "keygen"]).arg(file))?;
            Ok(key.trim().to_owned())
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let mut running = Vec::new();
    for (number, post) in posts.iter().enumerate() {
        let file = scratch.file(&format!("{}.toml", name(number)));
        let text = configuration(setup, posts, &keys, number, scratch);
        fs::write(&file, text).map_err(|error| Failure::broken(file.display(), error))?;
        running.push(launch(program, setup, post, number, scratch)?);
    }
    for (number, daemon) in running.iter_mut().enumerate() {
        await_peers(program, daemon, number, posts.len() - 1, scratch)?;
    }
    Ok(running)
}

/// Waits until the gateway with this number is connected with `peers` peers.
///
/// # Errors
/// The gateway ends, or that takes longer than half a minute.
pub fn await_peers(
    program: &Path,
    daemon: &mut Daemon,
    number: usize,
    peers: usize,
    scratch: &Scratch,
) -> Result<(), Failure> {
    let state = scratch.file(&name(number));
    let connected = || {
        let mut status = Command::new(program);
        status.args(["gateway", "status", "--json", "--state"]).arg(&state);
        output(&mut status).is_ok_and(|text| peers_up(&text) == peers)
    };
    daemon.wait_until("gateways are connected", PATIENCE, connected)
}

/// Starts the gateway with this number again, with the files that [`start`] wrote for it.
///
/// # Errors
/// The gateway cannot be started.
pub fn launch(
    program: &Path,
    setup: &Setup,
    post: &Post<'_>,
    number: usize,
    scratch: &Scratch,
) -> Result<Daemon, Failure> {
    let file = scratch.file(&format!("{}.toml", name(number)));
    let mut command;
    if setup.is_of_paper() {
        command = post.place.command(laboratory(program));
        command.args(["gateway", "--scheme", setup.scheme]).arg(file);
    } else {
        command = post.place.command(program);
        command.args(["gateway", "run"]).arg(file);
    }
    Daemon::start(&mut command, &scratch.file(&format!("{}.log", name(number))))
}

/// The name of the gateway with this number, by which its peers know it.
pub fn name(number: usize) -> String {
    format!("gateway-{number}")
}

fn key_file(number: usize) -> String {
    format!("{}.key", name(number))
}

/// The configuration file of the gateway with this number.
fn configuration(
    setup: &Setup,
    posts: &[Post<'_>],
    keys: &[String],
    number: usize,
    scratch: &Scratch,
) -> String {
    let post = &posts[number];
    let scheme = if setup.is_of_paper() { "sealed" } else { setup.scheme };
    let mut text = format!(
        "[gateway]\nname = \"{}\"\nidentity = \"{}\"\nstate = \"{}\"\nscheme = \"{scheme}\"\n\
         nothing_is_protected = {}\ncompress = {}\n\n[lan]\ninterface = \"{}\"\nio = \"{}\"\n\n\
         [underlay]\nlisten = \"{}:{PORT}\"\nio = \"{}\"\n",
        name(number),
        scratch.file(&key_file(number)).display(),
        scratch.file(&name(number)).display(),
        scheme == "plain",
        setup.compress,
        post.lan,
        setup.lan_io,
        post.address,
        setup.underlay_io,
    );
    if setup.underlay_io == "xdp" {
        let _ = writeln!(text, "interface = \"{}\"", post.wan);
    }
    if let Some(mtu) = setup.mtu {
        let _ = writeln!(text, "mtu = {mtu}");
    }
    if let Some(seconds) = setup.rekey_seconds {
        let _ = write!(text, "\n[rekey]\nevery = \"{seconds}s\"\n");
    }
    if setup.metrics {
        let _ = write!(text, "\n[metrics]\nlisten = \"{METRICS}\"\n");
    }
    for (other, (place, key)) in posts.iter().zip(keys).enumerate() {
        if other != number {
            let _ = write!(
                text,
                "\n[[peer]]\nname = \"{}\"\npublic_key = \"{key}\"\nendpoint = \"{}:{PORT}\"\n",
                name(other),
                place.address
            );
        }
    }
    text
}

/// The number of peers that are up, from the output of `lightseal gateway status --json`.
fn peers_up(text: &str) -> usize {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    value["peers"].as_array().into_iter().flatten().filter(|peer| peer["up"] == true).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_are_up_are_counted() {
        let text = r#"{"peers":[{"name":"b","up":true},{"name":"c","up":false}]}"#;
        assert_eq!((peers_up(text), peers_up("no gateway")), (1, 0));
    }

    #[test]
    fn a_program_that_knows_no_gateways_is_told_apart() {
        for program in ["/no/such/lightseal", "false"] {
            assert!(matches!(require(Path::new(program)), Err(Failure::NotHere(_))));
        }
    }
}
