//! A small Linux in QEMU with real MACsec ends, and how it is told what to do.
//!
//! The kernel of a machine that tests run on often has no MACsec. The guest has Debian's kernel and
//! `wpa_supplicant`, and needs neither KVM nor a disk. Each of its ends is a network interface in a
//! namespace of the guest's own; the other side of the cable is a TAP device of this machine. Its
//! processor is emulated: what it says about correctness counts, what it says about speed does not.
//!
//! - [`image`]: what it boots;
//! - [`macsec`]: MACsec with static keys, and its counters;
//! - `mka`: MACsec with MKA;
//! - [`join`]: what joins the ends' cables, and what can happen to it;
//! - [`trials`]: what must go well, whatever that is;
//! - [`report`]: how it went.

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
/// How long it may take to boot; on an idle machine it takes three seconds.
const BOOT: Duration = Duration::from_secs(120);
/// How long an order may take if nothing else is said.
const PATIENCE: Duration = Duration::from_secs(60);

/// One end of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first.
    A,
    /// The second.
    B,
    /// The third, where [`Settings::ends`] is more than two.
    C,
    /// The fourth.
    D,
}

impl End {
    /// Every end there may be.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    /// The namespace in the guest.
    pub const fn name(self) -> &'static str {
        ["a", "b", "c", "d"][self as usize]
    }

    /// The TAP device on this machine.
    pub const fn tap(self) -> &'static str {
        ["tap-a", "tap-b", "tap-c", "tap-d"][self as usize]
    }

    /// Its hardware address.
    pub const fn address(self) -> [u8; 6] {
        [0x52, 0x54, 0x00, 0x4d, 0x53, 1 + self as u8]
    }

    /// [`Self::address`] as text.
    pub fn address_text(self) -> String {
        self.address().map(|byte| format!("{byte:02x}")).join(":")
    }

    /// Its IPv4 address behind MACsec, in a network of 24 bits.
    pub fn ip(self) -> String {
        format!("10.77.0.{}", 1 + self as u8)
    }
}

/// How a guest is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ends, 2 to 4.
    pub ends: usize,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// Our own program, for trials with a MACsec end of ours.
    pub lightseal: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ends: 2, memory_mib: 384, lightseal: gateways::program() }
    }
}

/// What an order has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit status, 0 where it went well.
    pub status: i32,
    /// What it said, on either channel.
    pub text: String,
}

/// A running guest; it is killed when this is dropped.
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
    /// Boots `image` and waits until it takes orders. Its TAP devices, which are up, come into a
    /// namespace of its own, [`Self::room`].
    ///
    /// # Errors
    /// [`Failure::NotHere`] without QEMU or the right to make TAP devices.
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
            // Frames as a cable has them: nothing left for the other side to check or to cut.
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
        // It ends with the guest.
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
                let last = last.unwrap_or("it said nothing");
                Err(Failure::Broken(format!("the guest does not start: {why}: {last}")))
            }
        }
    }

    /// How many ends it has.
    pub fn ends(&self) -> impl Iterator<Item = End> + use<> {
        End::ALL.into_iter().take(self.ends)
    }

    /// The namespace of this machine that its TAP devices came into.
    pub fn room(&self) -> &Namespace {
        &self.room
    }

    /// Our own program.
    pub fn lightseal(&self) -> &Path {
        &self.lightseal
    }

    /// Puts an end's TAP device into another namespace of this machine, where it is up.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn hand_over(&self, end: End, to: &Namespace) -> Result<(), Failure> {
        self.room.ip(&format!("link set {} netns {}", end.tap(), to.name()))?;
        to.ip(&format!("link set {} up", end.tap())).map(drop)
    }

    /// Joins all ends by a bridge of this machine, one that lets MKA through.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn join_by_bridge(&self) -> Result<(), Failure> {
        // Bit 3 is 01-80-C2-00-00-03, MKA's; of the 16 reserved addresses only three cannot be let
        // through (IEEE 802.1Q, 8.6.3).
        self.room.ip("link add lan type bridge mcast_snooping 0 group_fwd_mask 8")?;
        for end in self.ends() {
            self.room.ip(&format!("link set {} master lan", end.tap()))?;
        }
        self.room.ip("link set lan up").map(drop)
    }

    /// Runs a shell script in the guest, and waits until it has ended.
    ///
    /// # Errors
    /// When the guest is gone, or says nothing within a minute. That the script failed is no error.
    pub fn run(&mut self, script: &str) -> Result<Output, Failure> {
        self.run_for(script, PATIENCE)
    }

    /// [`Self::run`] of what may take long.
    ///
    /// # Errors
    /// When the guest is gone, or says nothing within `patience`.
    pub fn run_for(&mut self, script: &str, patience: Duration) -> Result<Output, Failure> {
        let order = Base64::encode_string(script.as_bytes());
        let sent = writeln!(self.orders, "{order}").and_then(|()| self.orders.flush());
        sent.map_err(|error| Failure::broken("the guest takes no orders", error))?;
        let line = self.answer(patience).map_err(|why| Failure::broken(script, why))?;
        read_answer(&line).ok_or_else(|| Failure::broken("the guest answers", line))
    }

    /// A shell script that must go well; what it said.
    ///
    /// # Errors
    /// When it fails, with what it said last.
    pub fn must(&mut self, script: &str) -> Result<String, Failure> {
        let Output { status, text } = self.run(script)?;
        if status == 0 {
            return Ok(text);
        }
        let last = text.trim().lines().next_back().unwrap_or("it said nothing");
        Err(Failure::Broken(format!("in the guest, {script}: status {status}: {last}")))
    }

    /// [`Self::must`] of one command at an end.
    ///
    /// # Errors
    /// When it fails, with what it said last.
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

/// `STATUS BASE64`.
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
