//! Tests that this machine cannot run say so, and why.
//!
//! Rust's test harness knows no test that is skipped while it runs: a test that returns early counts
//! as passed. A test that finds out that it lacks something calls [`test()`] and returns, and one that
//! runs without a part of itself calls [`part`]. A line on standard error, past what the harness
//! captures, says it to a person; a line in the file that `LIGHTSEAL_SKIPPED` names says it to
//! `cargo xtask test`, which counts the test as skipped and not as passed.
//!
//! ```no_run
//! if let Err(reason) = skip::ipv6() {
//!     return skip::test(reason);
//! }
//! ```
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The environment variable with the file that every skipped test is written to.
pub const FILE: &str = "LIGHTSEAL_SKIPPED";

/// The kind of a line: the harness counts the test as passed.
pub const COUNTED: &str = "counted";
/// The kind of a line: the harness does not count it.
pub const UNCOUNTED: &str = "uncounted";

/// The running test is skipped, and returns after this. A thread that it starts says it under the
/// test's name only if it is called [so](own_name).
pub fn test(reason: impl Display) {
    write(COUNTED, &own_name(), &reason.to_string());
}

/// A part of the running test is skipped; what remains of it counts as passed.
pub fn part(part: impl Display, reason: impl Display) {
    write(UNCOUNTED, &format!("{} ({part})", own_name()), &reason.to_string());
}

/// As [`test()`], for what has a name and no test of the usual harness, which counts it as nothing.
pub fn named(name: &str, reason: impl Display) {
    write(UNCOUNTED, name, &reason.to_string());
}

/// The name of the running test: the harness calls a test's thread after it.
pub fn own_name() -> String {
    thread::current().name().unwrap_or("a thread of a test").to_owned()
}

/// A line with kind, program, test and reason, tabs between them.
fn write(kind: &str, name: &str, reason: &str) {
    let program = program();
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    // The harness captures `eprintln!` and not what is written to the stream itself.
    let _ = writeln!(std::io::stderr(), "skipped: {program} {name}: {reason}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    let mut file = opened.unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display()));
    // One call, for tests write at the same time.
    let line = format!("{kind}\t{program}\t{name}\t{reason}\n");
    file.write_all(line.as_bytes()).expect("there is room for a line");
}

/// The package and the test program in it, as `packet-io af_packet`.
fn program() -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let path = std::env::current_exe().unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // Cargo puts a hash behind it.
    let name = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name);
    let is_own = name.replace('_', "-") == package.replace('_', "-");
    if is_own || package.is_empty() { name.to_owned() } else { format!("{package} {name}") }
}

/// Whether this program can be found in the search path.
///
/// # Errors
/// The program is missing; the package that has it on Debian is named.
pub fn program_there(program: &str, package: &str) -> Result<(), String> {
    let there = std::env::var_os("PATH").is_some_and(|paths| {
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    });
    there.then_some(()).ok_or_else(|| format!("no {program} (Debian's package {package})"))
}

/// Whether this thread has a right of root's, by its number (`CAP_NET_RAW` is 13).
///
/// # Errors
/// It does not; the right is named.
pub fn capability(number: u32, name: &str) -> Result<(), String> {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let field = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = field.and_then(|field| u64::from_str_radix(field.trim(), 16).ok()).unwrap_or(0);
    (set >> number & 1 == 1).then_some(()).ok_or_else(|| format!("needs root ({name})"))
}

/// Whether this process may have TUN and TAP devices.
///
/// # Errors
/// It may not, or there are none.
pub fn tun() -> Result<(), String> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    opened.map(drop).map_err(|error| format!("no TUN and TAP devices: /dev/net/tun: {error}"))
}

/// Whether the loopback interface has an IPv6 address.
///
/// # Errors
/// It has none.
pub fn ipv6() -> Result<(), String> {
    let bound = UdpSocket::bind("[::1]:0");
    bound.map(drop).map_err(|error| format!("no IPv6 on the loopback interface ({error})"))
}

/// Whether a datagram to an IPv4 group comes back on the loopback interface.
///
/// # Errors
/// It does not.
pub fn multicast() -> Result<(), String> {
    heard().map_err(|error| format!("no multicast on the loopback interface ({error})"))
}

fn heard() -> std::io::Result<()> {
    let group = Ipv4Addr::new(239, 255, 71, 4);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Sent and heard where the address is, whatever the routes say.
    socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    sender.send_to(b"heard", SocketAddr::from((group, port)))?;
    socket.recv(&mut [0; 16]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file is for the whole process: one test, which runs itself again.
    #[test]
    fn a_skipped_test_is_a_line_with_its_program_name_and_reason() {
        let ours = std::env::var_os("LIGHTSEAL_SKIP_TEST").is_some();
        if ours {
            part("IPv6", "none");
            return test("no root\n  here");
        }
        let path = std::env::temp_dir().join(format!("lightseal-skip-{}", std::process::id()));
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", &own_name()])
            .env("LIGHTSEAL_SKIP_TEST", "1")
            .env(FILE, &path)
            .output()
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let name = own_name();
        assert_eq!(
            text,
            format!("uncounted\tskip\t{name} (IPv6)\tnone\ncounted\tskip\t{name}\tno root here\n")
        );
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&format!("skipped: skip {name}: no root here")), "{said}");
    }
}
