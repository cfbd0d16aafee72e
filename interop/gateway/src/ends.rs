//! Our own MACsec endpoints at both hosts. They are the same in every row, so that TCP can also be
//! measured over rows that carry nothing but MACsec.

use crate::Failure;
use crate::daemon::{Daemon, Scratch, output};
use crate::frames::Side;
use crate::site::{LAN, Site};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The name of the endpoint's interface at either host.
const TAP: &str = "macsec0";
/// How long the interface may take to appear.
const PATIENCE: Duration = Duration::from_secs(10);

/// The keys, used packet numbers and logs of two endpoints. Endpoints that are started again
/// continue with the stored numbers, so that a flow's packet numbers never go back.
#[derive(Debug)]
pub struct Ends(Scratch);

/// Both endpoints, running until this value is dropped.
#[derive(Debug)]
pub struct Running {
    /// The endpoint of host A, then that of host B.
    pub programs: Vec<Daemon>,
}

/// Checks that `program` exists and has the command `macsec`.
///
/// # Errors
/// [`Failure::NotHere`] if not.
pub fn require(program: &Path) -> Result<(), Failure> {
    output(Command::new(program).args(["macsec", "--help"]))
        .map(drop)
        .map_err(|why| Failure::not_here("no MACsec endpoint", why))
}

/// An endpoint's IP address on its MACsec interface.
pub const fn address(side: Side) -> &'static str {
    match side {
        Side::A => "203.0.113.129",
        Side::B => "203.0.113.130",
    }
}

/// An endpoint's SCI. None of the flows made beforehand uses it.
const fn sci(side: Side) -> &'static str {
    match side {
        Side::A => "02:4d:53:01:00:0a/1",
        Side::B => "02:4d:53:01:00:0b/1",
    }
}

/// An endpoint's key. It protects nothing but a measurement.
const fn key(side: Side) -> &'static str {
    match side {
        Side::A => "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
        Side::B => "b0b1b2b3b4b5b6b7b8b9babbbcbdbebf",
    }
}

/// Makes a key file readable by its owner alone, since `lightseal` refuses other key files.
///
/// # Errors
/// The mode cannot be set.
pub fn owner_alone(keys: &Path) -> std::io::Result<()> {
    fs::set_permissions(keys, std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

impl Ends {
    /// Writes the key files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new() -> Result<Self, Failure> {
        let scratch = Scratch::new("ends")?;
        for (own, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
            let file = scratch.file(&format!("{own:?}.keys"));
            let text = format!("tx 0 1 {}\n{} 0 1 {}\n", key(own), sci(other), key(other));
            let written = fs::write(&file, text).and_then(|()| owner_alone(&file));
            written.map_err(|error| Failure::broken(file.display(), error))?;
        }
        Ok(Self(scratch))
    }

    /// Starts an endpoint at each host. Their interfaces have the MTU that they choose themselves:
    /// the LAN's less the SecTAG and the ICV.
    ///
    /// # Errors
    /// An endpoint ends, or its interface does not appear in time.
    pub fn start(&self, program: &Path, site: &Site) -> Result<Running, Failure> {
        let mut programs = Vec::new();
        for side in [Side::A, Side::B] {
            let host = site.host(side);
            let mut command = host.command(program);
            command.args(["macsec", "--interface", LAN, "--tap", TAP, "--sci", sci(side)]);
            command.args(["--replay-window", "64", "--key-file"]);
            let keys = self.0.file(&format!("{side:?}.keys"));
            command.arg(&keys);
            if !keys.with_extension("keys.numbers").exists() {
                command.arg("--first-use");
            }
            let log = self.0.file(&format!("{side:?}.log"));
            let mut daemon = Daemon::start(&mut command, &log)?;
            let is_up = || host.ip(&format!("link show {TAP} up")).is_ok_and(|it| !it.is_empty());
            daemon.wait_until("a MACsec interface", PATIENCE, is_up)?;
            host.ip(&format!("addr add {}/25 dev {TAP}", address(side)))?;
            programs.push(daemon);
        }
        Ok(Running { programs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_receives_with_what_the_other_sends_with() {
        let ends = Ends::new().unwrap();
        let [a, b] =
            ["A.keys", "B.keys"].map(|name| fs::read_to_string(ends.0.file(name)).unwrap());
        let line = |text: &str, number| text.lines().nth(number).unwrap().to_owned();
        for (one, other) in [(&a, &b), (&b, &a)] {
            let sent = line(one, 0);
            let key = sent.rsplit(' ').next().unwrap();
            assert!(line(other, 1).ends_with(key));
        }
        assert!(line(&a, 1).starts_with(sci(Side::B)) && line(&b, 1).starts_with(sci(Side::A)));
    }
}
