//! Lets tests that this machine cannot run report that they are skipped, and
//! why.
//!
//! Rust's test harness cannot skip a test while it runs: a test that returns early counts as
//! passed. A test that finds that this machine lacks something calls [`test()`] and returns. A test
//! that runs without a part of itself calls [`part`]. A line on standard error, which the harness
//! does not capture, tells people. A line in the file that `LIGHTSEAL_SKIPPED` names tells `cargo
//! xtask test`, which counts the test as skipped and not as passed.
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
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

/// The environment variable that names the file to which skipped tests are written.
pub const FILE: &str = "LIGHTSEAL_SKIPPED";

/// A kind of line in that file: the harness counts the test as passed.
pub const COUNTED: &str = "counted";
/// A kind of line in that file: the harness does not count the test.
pub const UNCOUNTED: &str = "uncounted";

/// Reports that the running test is skipped. The test must return after this. A thread that the
/// test starts reports the test's name only if the thread has [that name](own_name).
pub fn test(reason: impl Display) {
    write(COUNTED, &own_name(), &reason.to_string());
}

/// Reports that a part of the running test is skipped. The rest of the test counts as passed.
pub fn part(part: impl Display, reason: impl Display) {
    write(UNCOUNTED, &format!("{} ({part})", own_name()), &reason.to_string());
}

/// Does what [`test()`] does for a test outside the usual harness, which is known only by its name.
pub fn named(name: &str, reason: impl Display) {
    write(UNCOUNTED, name, &reason.to_string());
}

/// The name of the running test: the harness gives the test's thread this name.
pub fn own_name() -> String {
    thread::current().name().unwrap_or("a thread of a test").to_owned()
}

/// Writes a line with kind, program, test and reason, separated by tabs.
fn write(kind: &str, name: &str, reason: &str) {
    let program = program();
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    // The harness captures `eprintln!`, but not what is written to the stream itself.
    let _ = writeln!(std::io::stderr(), "skipped: {program} {name}: {reason}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    let mut file = opened.unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display()));
    // The line is written by a single call, since several tests may write at the same time.
    let line = format!("{kind}\t{program}\t{name}\t{reason}\n");
    file.write_all(line.as_bytes()).expect("there is room for a line");
}

/// The package and the test program in it, such as `packet-io af_packet`.
fn program() -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let path = std::env::current_exe().unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // Cargo appends a hash to the program's name.
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

/// Whether this thread has a capability, by its number (`CAP_NET_RAW` is 13).
///
/// # Errors
/// The thread lacks the capability. The error names it.
pub fn capability(number: u32, name: &str) -> Result<(), String> {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let field = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = field.and_then(|field| u64::from_str_radix(field.trim(), 16).ok()).unwrap_or(0);
    (set >> number & 1 == 1).then_some(()).ok_or_else(|| format!("needs root ({name})"))
}

/// Whether this process may use TUN and TAP devices.
///
/// # Errors
/// The process may not use such devices, or there are none.
pub fn tun() -> Result<(), String> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    opened.map(drop).map_err(|error| format!("no TUN and TAP devices: /dev/net/tun: {error}"))
}

/// Whether the loopback interface has an IPv6 address.
///
/// # Errors
/// The interface has none.
pub fn ipv6() -> Result<(), String> {
    let bound = UdpSocket::bind("[::1]:0");
    bound.map(drop).map_err(|error| format!("no IPv6 on the loopback interface ({error})"))
}

/// Whether a datagram to an IPv4 multicast group comes back on the loopback interface.
///
/// # Errors
/// It does not come back.
pub fn multicast() -> Result<(), String> {
    heard().map_err(|error| format!("no multicast on the loopback interface ({error})"))
}

/// Whether this is another system than Wine, which lacks something that Windows has.
///
/// # Errors
/// This is Wine. The error says what it `lacks`.
pub fn wine(lacks: impl Display) -> Result<(), String> {
    static IS_WINE: LazyLock<bool> = LazyLock::new(|| {
        let windows = std::env::var_os("SystemRoot").filter(|_| cfg!(windows));
        let library = windows.map(|folder| Path::new(&folder).join("system32/ntdll.dll"));
        let library = library.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        // Wine exports this function; to call it would take unsafe code.
        let name = b"\0wine_get_version\0";
        library.windows(name.len()).any(|bytes| bytes == name)
    });
    if *IS_WINE { Err(format!("Wine lacks {lacks}")) } else { Ok(()) }
}

fn heard() -> std::io::Result<()> {
    let group = Ipv4Addr::new(239, 255, 71, 4);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // The group is joined on the loopback address, so that the datagram is sent and received there
    // whatever the routes are.
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

    /// The file's name is a variable of the whole process, so one test runs itself again as a
    /// process.
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
