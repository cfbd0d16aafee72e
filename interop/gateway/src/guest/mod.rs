//! A small Linux in QEMU with real MACsec endpoints, and the channel that controls it.
//!
//! The kernels of machines on which tests run often have no MACsec. The guest has Debian's kernel
//! and `wpa_supplicant`, and needs neither KVM nor a disk. Each of its endpoints is a network
//! interface in a namespace of the guest; the other side of its cable is a TAP device of this
//! machine. The guest's processor is emulated, so its results show correctness and not speed.
//!
//! - [`image`]: the kernel and root file system that it boots;
//! - [`macsec`]: MACsec with static keys, and its counters;
//! - `mka`: MACsec with MKA;
//! - [`join`]: ways to join the endpoints' cables, and to disturb what joins them;
//! - [`trials`]: what must work between endpoints, whatever joins them;
//! - [`report`]: the outcome of trials.

mod between;
pub mod image;
pub mod join;
pub mod macsec;
mod mka;
pub mod report;
pub mod trials;

use crate::Failure;
use crate::daemon::{Scratch, on_path};
use crate::gateways;
use crate::namespace::Namespace;
use base64ct::{Base64, Encoding};
use image::Image;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The emulator.
const QEMU: &str = "qemu-system-x86_64";
/// How long the guest may take to boot; on an idle machine it takes three seconds.
const BOOT: Duration = Duration::from_secs(120);
/// How long an order may take by default.
const PATIENCE: Duration = Duration::from_secs(60);

/// One MACsec endpoint of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first endpoint.
    A,
    /// The second endpoint.
    B,
    /// The third endpoint, if [`Settings::ends`] is more than two.
    C,
    /// The fourth endpoint.
    D,
}

impl End {
    /// Every possible endpoint.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    /// The name of the endpoint's namespace in the guest.
    pub const fn name(self) -> &'static str {
        ["a", "b", "c", "d"][self as usize]
    }

    /// The name of the endpoint's TAP device on this machine.
    pub const fn tap(self) -> &'static str {
        ["tap-a", "tap-b", "tap-c", "tap-d"][self as usize]
    }

    /// The endpoint's hardware address.
    pub const fn address(self) -> [u8; 6] {
        [0x52, 0x54, 0x00, 0x4d, 0x53, 1 + self as u8]
    }

    /// [`Self::address`] as text.
    pub fn address_text(self) -> String {
        self.address().map(|byte| format!("{byte:02x}")).join(":")
    }

    /// The endpoint's IPv4 address on its MACsec interface, in a /24 network.
    pub fn ip(self) -> String {
        format!("10.77.0.{}", 1 + self as u8)
    }
}

/// The settings of a guest.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of endpoints, 2 to 4.
    pub ends: usize,
    /// Memory of the guest in MiB.
    pub memory_mib: u32,
    /// The path of the program `lightseal`, for trials with one of our own MACsec endpoints.
    pub lightseal: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ends: 2, memory_mib: 384, lightseal: gateways::program() }
    }
}

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit status, 0 on success.
    pub status: i32,
    /// The script's standard output and standard error.
    pub text: String,
}

/// A running guest. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    ends: usize,
    room: Namespace,
    lightseal: PathBuf,
    _scratch: Scratch,
}

impl Guest {
    /// Boots `image` and waits until the guest takes orders. Its TAP devices are made in a network
    /// namespace of this machine, [`Self::room`], and are up.
    ///
    /// # Errors
    /// [`Failure::NotHere`] without QEMU or the permission to make TAP devices.
    pub fn boot(image: &Image, settings: &Settings) -> Result<Self, Failure> {
        if !on_path(QEMU) {
            return Err(Failure::NotHere(format!("{QEMU} is missing")));
        }
        let room = Namespace::new("room")?;
        let scratch = Scratch::new("guest")?;
        let console = scratch.file("console");
        let errors = scratch.file("errors");
        let mut qemu = room.command(QEMU);
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-M", "q35", "-no-reboot"]);
        qemu.args(["-nodefaults", "-nographic", "-m", &settings.memory_mib.to_string()]);
        qemu.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
        qemu.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
        qemu.arg("-serial").arg(format!("file:{}", console.display()));
        qemu.args(["-chardev", "stdio,id=control,signal=off", "-device", "virtio-serial-pci"]);
        qemu.args(["-device", "virtserialport,chardev=control,name=control"]);
        for end in &End::ALL[..settings.ends] {
            room.ip(&format!("tuntap add dev {} mode tap", end.tap()))
                .map_err(|why| Failure::not_here("no TAP device", why))?;
            room.ip(&format!("link set {} up", end.tap()))?;
            let name = end.name();
            qemu.arg("-netdev");
            qemu.arg(format!("tap,id={name},ifname={},script=no,downscript=no", end.tap()));
            qemu.arg("-device");
            // No offloads: frames must be as on a cable, with nothing left for the other side to
            // complete.
            qemu.arg(format!(
                "virtio-net-pci,netdev={name},mac={},romfile=,csum=off,gso=off,guest_csum=off,\
                 guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,\
                 host_tso6=off,host_ecn=off,host_ufo=off",
                end.address_text()
            ));
        }
        let said = fs::File::create(&errors).map_err(|error| Failure::broken(QEMU, error))?;
        qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        let mut child = qemu.spawn().map_err(|error| Failure::not_here(QEMU, error))?;
        let orders = child.stdin.take().expect("it was piped");
        let stdout = child.stdout.take().expect("it was piped");
        let (sender, answers) = channel();
        // The thread ends with the guest.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let guest = Self {
            child,
            orders,
            answers,
            ends: settings.ends,
            room,
            lightseal: settings.lightseal.clone(),
            _scratch: scratch,
        };
        match guest.answer(BOOT) {
            Ok(line) if line == "ready" => Ok(guest),
            Ok(line) => Err(Failure::Broken(format!("the guest began with: {line}"))),
            Err(why) => {
                let said = [errors, console].map(|log| fs::read_to_string(log).unwrap_or_default());
                let last = said.iter().find_map(|said| said.trim().lines().next_back());
                let last = last.unwrap_or("it printed nothing");
                Err(Failure::Broken(format!("the guest does not start: {why}: {last}")))
            }
        }
    }

    /// The guest's endpoints.
    pub fn ends(&self) -> impl Iterator<Item = End> + use<> {
        End::ALL.into_iter().take(self.ends)
    }

    /// The namespace of this machine in which the TAP devices are made.
    pub fn room(&self) -> &Namespace {
        &self.room
    }

    /// The path of the program `lightseal`.
    pub fn lightseal(&self) -> &Path {
        &self.lightseal
    }

    /// Moves an endpoint's TAP device into another namespace of this machine and brings it up.
    ///
    /// # Errors
    /// The command `ip` fails; the text has the last line of its output.
    pub fn hand_over(&self, end: End, to: &Namespace) -> Result<(), Failure> {
        self.room.ip(&format!("link set {} netns {}", end.tap(), to.name()))?;
        to.ip(&format!("link set {} up", end.tap())).map(drop)
    }

    /// Joins all endpoints by a bridge of this machine that forwards MKA's frames.
    ///
    /// # Errors
    /// The command `ip` fails; the text has the last line of its output.
    pub fn join_by_bridge(&self) -> Result<(), Failure> {
        // Bit 3 is the address 01-80-C2-00-00-03 of MKA. Only three of the 16 reserved addresses
        // cannot be forwarded (IEEE 802.1Q, 8.6.3).
        self.room.ip("link add lan type bridge mcast_snooping 0 group_fwd_mask 8")?;
        for end in self.ends() {
            self.room.ip(&format!("link set {} master lan", end.tap()))?;
        }
        self.room.ip("link set lan up").map(drop)
    }

    /// Runs a shell script in the guest and waits for its end. A script that fails is no error.
    ///
    /// # Errors
    /// The guest has ended, or does not answer within a minute.
    pub fn run(&mut self, script: &str) -> Result<Output, Failure> {
        self.run_for(script, PATIENCE)
    }

    /// [`Self::run`] for a script that may take longer.
    ///
    /// # Errors
    /// The guest has ended, or does not answer within `patience`.
    pub fn run_for(&mut self, script: &str, patience: Duration) -> Result<Output, Failure> {
        let order = Base64::encode_string(script.as_bytes());
        let sent = writeln!(self.orders, "{order}").and_then(|()| self.orders.flush());
        sent.map_err(|error| Failure::broken("the guest takes no orders", error))?;
        let line = self.answer(patience).map_err(|why| Failure::broken(script, why))?;
        read_answer(&line).ok_or_else(|| Failure::broken("the guest answers", line))
    }

    /// Runs a shell script in the guest that must succeed, and returns its output.
    ///
    /// # Errors
    /// The script fails; the text has the last line of its output.
    pub fn must(&mut self, script: &str) -> Result<String, Failure> {
        let Output { status, text } = self.run(script)?;
        if status == 0 {
            return Ok(text);
        }
        let last = text.trim().lines().next_back().unwrap_or("it printed nothing");
        Err(Failure::Broken(format!("in the guest, {script}: status {status}: {last}")))
    }

    /// Runs one command in an endpoint's namespace as [`Self::must`] does.
    ///
    /// # Errors
    /// The command fails; the text has the last line of its output.
    pub fn at(&mut self, end: End, command: &str) -> Result<String, Failure> {
        self.must(&format!("ip netns exec {} {command}", end.name()))
    }

    fn answer(&self, patience: Duration) -> Result<String, String> {
        self.answers.recv_timeout(patience).map_err(|why| match why {
            RecvTimeoutError::Timeout => format!("no answer within {patience:?}"),
            RecvTimeoutError::Disconnected => "the guest has ended".into(),
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads an answer of the form `STATUS BASE64`.
fn read_answer(line: &str) -> Option<Output> {
    let (status, text) = line.split_once(' ')?;
    let text = Base64::decode_vec(text).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Some(Output { status: status.parse().ok()?, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_a_status_and_text() {
        let read = |line| read_answer(line).map(|output| (output.status, output.text));
        assert_eq!(read("0 aGk="), Some((0, "hi".into())));
        assert_eq!(read("127 "), Some((127, String::new())));
        for bad in ["", "0", "x aGk=", "0 aGk", "0 a?k="] {
            assert_eq!(read_answer(bad), None, "{bad}");
        }
    }

    #[test]
    fn ends_have_addresses_of_their_own() {
        assert_eq!(End::B.address_text(), "52:54:00:4d:53:02");
        assert_eq!((End::B.name(), End::B.tap(), End::B.ip()), ("b", "tap-b", "10.77.0.2".into()));
    }
}
