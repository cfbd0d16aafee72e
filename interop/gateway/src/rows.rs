//! The rows of the comparison: ways to carry frames from one LAN to the other.
//!
//! A new row is a [`Row`] and a line in [`all`].

use crate::Failure;
use crate::daemon::{Daemon, Scratch, on_path, output};
use crate::ends::Ends;
use crate::frames::Side;
use crate::gateways::{self, Post, Setup};
use crate::namespace::Namespace;
use crate::site::{LAN, Mtu, Site, WAN, underlay_address};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a program may take to become ready.
const PATIENCE: Duration = Duration::from_secs(10);
/// VXLAN's UDP port (RFC 7348).
const VXLAN_PORT: u16 = 4789;
/// Bytes that WireGuard adds to a packet over IPv4: IP, UDP, its header and tag.
const WIREGUARD_BYTES: u32 = 60;

/// One way to join two LANs.
pub trait Row {
    /// A unique name of one word.
    fn name(&self) -> &'static str;

    /// The title in the table.
    fn title(&self) -> &'static str;

    /// Checks whether the row can run on this machine.
    ///
    /// # Errors
    /// This machine lacks something: what it is.
    fn require(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether frames other than MACsec's pass, so that TCP without MACsec can be measured.
    fn carries_plain(&self) -> bool {
        true
    }

    /// Lays the cables and starts the programs between them.
    ///
    /// # Errors
    /// The row cannot be built: why.
    fn build(&self, mtu: Mtu) -> Result<Ground, Failure>;
}

/// A site with everything that carries its frames. Everything ends when this value is dropped.
#[derive(Debug)]
pub struct Ground {
    /// Programs that carry frames. They are the first field, so that they end before their
    /// namespaces.
    pub programs: Vec<Daemon>,
    /// The namespaces and cables.
    pub site: Site,
    /// Whether there is a network between two gateways.
    pub has_underlay: bool,
    /// The state of the hosts' MACsec endpoints, once they have been started.
    pub ends: Option<Ends>,
    scratch: Option<Scratch>,
}

impl Ground {
    /// The ground of a site and its programs. `scratch` has their configurations and logs.
    pub fn new(site: Site, programs: Vec<Daemon>, scratch: Option<Scratch>) -> Self {
        Self { programs, site, has_underlay: true, ends: None, scratch }
    }

    /// Checks that all programs are still running.
    ///
    /// # Errors
    /// A program has ended; the text has the last line of its output.
    pub fn runs(&mut self) -> Result<(), Failure> {
        self.programs.iter_mut().try_for_each(Daemon::runs)
    }

    /// The directory of configurations and logs.
    pub fn scratch(&self) -> Option<&Scratch> {
        self.scratch.as_ref()
    }
}

/// Every row, in the order of the table. `tools` is the folder of programs that no system package
/// has, and `lightseal` the path of our own program.
pub fn all(tools: &Path, lightseal: &Path) -> Vec<Box<dyn Row>> {
    let mut rows: Vec<Box<dyn Row>> = vec![
        Box::new(Cable),
        Box::new(Bridge),
        Box::new(Vxlan),
        Box::new(OverWireguard { kind: Wireguard::Boringtun(tools.join("bin/boringtun-cli")) }),
        Box::new(OverWireguard { kind: Wireguard::Go }),
    ];
    for (name, title, setup) in OURS {
        rows.push(Box::new(OurGateways { name, title, setup: *setup, program: lightseal.into() }));
    }
    rows
}

/// Our gateways with AF_XDP on both sides.
const fn xdp(scheme: &'static str, compress: bool) -> Setup {
    Setup { scheme, compress, lan_io: "xdp", underlay_io: "xdp", ..Setup::SEALED }
}

/// Our gateways with packet sockets and UDP sockets.
const fn sockets(scheme: &'static str, compress: bool) -> Setup {
    Setup { scheme, compress, ..Setup::SEALED }
}

/// The name, the title and the setup of each row of ours.
const OURS: &[(&str, &str, Setup)] = &[
    ("plain", "plain, AF_XDP", xdp("plain", false)),
    ("identifier", "identifier, AF_XDP", xdp("identifier", false)),
    ("identifier-paper", "identifier-paper, AF_XDP", xdp("identifier-paper", false)),
    ("encryption-paper", "encryption-paper, AF_XDP", xdp("encryption-paper", false)),
    ("sealed", "sealed, AF_XDP", xdp("sealed", false)),
    ("sealed-compressed", "sealed, compressed, AF_XDP", xdp("sealed", true)),
    ("plain-packet", "plain, AF_PACKET", sockets("plain", false)),
    ("identifier-packet", "identifier, AF_PACKET", sockets("identifier", false)),
    ("sealed-packet", "sealed, AF_PACKET", sockets("sealed", false)),
    ("sealed-compressed-packet", "sealed, compressed, AF_PACKET", sockets("sealed", true)),
];

/// A pair of our gateways.
struct OurGateways {
    name: &'static str,
    title: &'static str,
    setup: Setup,
    program: PathBuf,
}

impl Row for OurGateways {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn require(&self) -> Result<(), Failure> {
        gateways::require(&self.program)?;
        self.setup.require(&self.program)
    }

    fn carries_plain(&self) -> bool {
        false
    }

    fn build(&self, mtu: Mtu) -> Result<Ground, Failure> {
        let site = Site::build(mtu)?;
        let scratch = Scratch::new(self.name)?;
        let posts = [Side::A, Side::B].map(|side| Post {
            place: site.gateway(side),
            lan: LAN,
            wan: WAN,
            address: underlay_address(side),
        });
        let programs = gateways::start(&self.program, &self.setup, &posts, &scratch)?;
        Ok(Ground::new(site, programs, Some(scratch)))
    }
}

/// A single cable from host to host.
struct Cable;

impl Row for Cable {
    fn name(&self) -> &'static str {
        "cable"
    }

    fn title(&self) -> &'static str {
        "a cable (what measuring takes)"
    }

    fn build(&self, mtu: Mtu) -> Result<Ground, Failure> {
        let mut ground = Ground::new(Site::one_cable(mtu)?, Vec::new(), None);
        ground.has_underlay = false;
        Ok(ground)
    }
}

/// The kernel's bridge at both gateways, so that the network between is part of the LAN.
struct Bridge;

impl Row for Bridge {
    fn name(&self) -> &'static str {
        "bridge"
    }

    fn title(&self) -> &'static str {
        "bridge"
    }

    fn build(&self, mtu: Mtu) -> Result<Ground, Failure> {
        let site = Site::build(mtu)?;
        for side in [Side::A, Side::B] {
            bridge(site.gateway(side), WAN)?;
        }
        Ok(Ground::new(site, Vec::new(), None))
    }
}

/// Bridges the LAN with another interface of a gateway.
fn bridge(gateway: &Namespace, other: &str) -> Result<(), Failure> {
    gateway.ip("link add joint type bridge mcast_snooping 0 group_fwd_mask 8")?;
    for port in [LAN, other] {
        gateway.ip(&format!("link set {port} master joint"))?;
    }
    gateway.ip("link set joint up").map(drop)
}

/// The kernel's VXLAN, bridged with the LAN.
struct Vxlan;

impl Row for Vxlan {
    fn name(&self) -> &'static str {
        "vxlan"
    }

    fn title(&self) -> &'static str {
        "VXLAN (kernel)"
    }

    fn build(&self, mtu: Mtu) -> Result<Ground, Failure> {
        let site = Site::build(mtu)?;
        for side in [Side::A, Side::B] {
            let other = if side == Side::A { Side::B } else { Side::A };
            let ends = [underlay_address(side), underlay_address(other)];
            vxlan(site.gateway(side), ends, mtu)?;
        }
        Ok(Ground::new(site, Vec::new(), None))
    }
}

/// Makes a VXLAN device between two addresses, own and other. It is not bound to an interface, so
/// that its MTU may be the LAN's: IP fragments packets that are too long.
fn vxlan(gateway: &Namespace, [own, other]: [&str; 2], mtu: Mtu) -> Result<(), Failure> {
    gateway.ip(&format!(
        "link add vx type vxlan id 7 local {own} remote {other} dstport {VXLAN_PORT}"
    ))?;
    gateway.ip(&format!("link set vx mtu {} up", mtu.lan))?;
    bridge(gateway, "vx")
}

/// An implementation of WireGuard in user space.
enum Wireguard {
    /// boringtun: Cloudflare's, in Rust.
    Boringtun(PathBuf),
    /// wireguard-go: the WireGuard project's, in Go.
    Go,
}

impl Wireguard {
    fn command(&self, gateway: &Namespace, device: &str) -> Command {
        match self {
            Self::Boringtun(program) => {
                let mut command = gateway.command(program);
                // It must stay root to have access to its namespace.
                command.args(["--foreground", "--disable-drop-privileges", device]);
                command
            }
            Self::Go => {
                let mut command = gateway.command("wireguard-go");
                command.args(["--foreground", device]);
                command
            }
        }
    }
}

/// The kernel's VXLAN in a WireGuard tunnel.
struct OverWireguard {
    kind: Wireguard,
}

impl Row for OverWireguard {
    fn name(&self) -> &'static str {
        match self.kind {
            Wireguard::Boringtun(_) => "boringtun",
            Wireguard::Go => "wireguard-go",
        }
    }

    fn title(&self) -> &'static str {
        match self.kind {
            Wireguard::Boringtun(_) => "VXLAN + WireGuard (boringtun)",
            Wireguard::Go => "VXLAN + WireGuard (wireguard-go)",
        }
    }

    fn require(&self) -> Result<(), Failure> {
        let missing = match &self.kind {
            Wireguard::Boringtun(program) if !program.is_file() => Some("boringtun-cli"),
            Wireguard::Go if !on_path("wireguard-go") => Some("wireguard-go"),
            _ if !on_path("wg") => Some("wg"),
            _ => None,
        };
        missing.map_or(Ok(()), |name| Err(Failure::NotHere(format!("{name} is missing"))))
    }

    fn build(&self, mtu: Mtu) -> Result<Ground, Failure> {
        let site = Site::build(mtu)?;
        let scratch = Scratch::new(self.name())?;
        let mut programs = Vec::new();
        let secrets = [wg(&["genkey"], "")?, wg(&["genkey"], "")?];
        for (side, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
            let gateway = site.gateway(side);
            let device = device();
            let log = scratch.file(&format!("{side:?}.log"));
            let mut program = Daemon::start(&mut self.kind.command(gateway, &device), &log)?;
            // Both implementations are configured through a socket that is named after the device.
            let socket = Path::new("/var/run/wireguard").join(format!("{device}.sock"));
            program.wait_until("WireGuard's socket", PATIENCE, || socket.exists())?;
            let key = scratch.file(&format!("{side:?}.key"));
            let failed = |error: std::io::Error| Failure::broken(key.display(), error);
            std::fs::write(&key, &secrets[side as usize]).map_err(failed)?;
            let peer = wg(&["pubkey"], &secrets[other as usize])?;
            let endpoint = format!("{}:51820", underlay_address(other));
            gateway.run(
                "wg",
                &format!(
                    "set {device} listen-port 51820 private-key {} peer {} allowed-ips \
                     203.0.113.0/24 endpoint {endpoint}",
                    key.display(),
                    peer.trim()
                ),
            )?;
            let own = ["203.0.113.1", "203.0.113.2"];
            let inside = mtu.underlay - WIREGUARD_BYTES - padding(mtu);
            gateway.ip(&format!("addr add {}/24 dev {device}", own[side as usize]))?;
            gateway.ip(&format!("link set {device} mtu {inside} up"))?;
            vxlan(gateway, [own[side as usize], own[other as usize]], mtu)?;
            programs.push(program);
        }
        Ok(Ground::new(site, programs, Some(scratch)))
    }
}

/// Bytes that WireGuard usually leaves free for an underlay of IPv6 (its usual MTU is 1420).
const fn padding(mtu: Mtu) -> u32 {
    if mtu.underlay <= 1500 { 20 } else { 40 }
}

/// A device name that no other run uses, since the sockets of all devices are in one directory.
fn device() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("w{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Runs `wg` with `input` on its standard input, and returns its output.
fn wg(words: &[&str], input: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::not_here("wg", error);
    let mut command = Command::new("wg");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    // `wg pubkey` waits for the end of its input.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() || !matches!(written, Some(Ok(()))) {
        return Err(Failure::Broken(format!("wg {}: {}", words.join(" "), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The versions of the measured programs, for the record.
pub fn versions(tools: &Path) -> Vec<(&'static str, String)> {
    let boringtun = tools.join("bin/boringtun-cli");
    let said = |command: &mut Command| {
        let text = output(command).unwrap_or_default();
        text.lines().next().unwrap_or("unknown").trim().to_owned()
    };
    vec![
        ("kernel", said(Command::new("uname").arg("-sr"))),
        ("boringtun", said(Command::new(boringtun).arg("--version"))),
        ("wireguard-go", said(Command::new("wireguard-go").arg("--version"))),
        ("iperf3", said(Command::new("iperf3").arg("--version"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_devices_short_enough() {
        let rows = all(Path::new("x"), Path::new("y"));
        for (i, row) in rows.iter().enumerate() {
            assert!(rows[..i].iter().all(|other| other.name() != row.name()));
        }
        assert!(device().len() <= 15 && device() != device());
    }

    #[test]
    fn a_full_frame_fits_under_vxlan_and_wireguard() {
        let mtu = Mtu::ROOMY;
        let inside = mtu.underlay - WIREGUARD_BYTES - padding(mtu);
        // The sum is of the headers of Ethernet, VXLAN, UDP and IP, and of padding.
        assert!(mtu.lan + 14 + 8 + 8 + 20 + 15 < inside);
        assert_eq!(Mtu::TIGHT.underlay - WIREGUARD_BYTES - padding(Mtu::TIGHT), 1420);
    }
}
