//! The measurement, on Linux.

#[path = "../proxies/mod.rs"]
mod proxies;

use proxies::{KEY, Proxy, Wrong, echo, exchange};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;
use testkit::program::TempDir;

/// A user without rights, which every system has.
const NOBODY: u32 = 65_534;

/// A restriction, and what is put before a program to run it so.
struct Restriction {
    name: &'static str,
    before: Vec<String>,
    /// Whether the program runs as another user, to whom the key must belong.
    as_nobody: bool,
}

/// All restrictions, and none to compare with.
fn restrictions() -> Vec<Restriction> {
    let own = std::env::current_exe().unwrap().display().to_string();
    let filtered = |filter: &str| vec![own.clone(), "--under".into(), filter.into()];
    let mounts = |script: &str| {
        let script = format!("{script} && exec \"$0\" \"$@\"");
        ["unshare", "--mount", "--propagation=private", "sh", "-c", &script]
            .map(String::from)
            .to_vec()
    };
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--no-new-privs",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ];
    let nobody = || nobody.map(String::from).to_vec();
    // Whatever else is mounted is writable no more either; what cannot be mounted anew is not a disk.
    let read_only = "for at in $(cut -d ' ' -f 2 /proc/self/mounts); do \
                     mount -o remount,bind,ro \"$at\" 2>/dev/null; done; \
                     ! touch /tmp/writable 2>/dev/null";
    let homeless = ["env", "-i", "HOME=/nonexistent", "TMPDIR=/nonexistent"].map(String::from);
    let row = |name, before| Restriction { name, before, as_nobody: false };
    vec![
        row("none", Vec::new()),
        row("read-only root", mounts(read_only)),
        Restriction { name: "no rights", before: nobody(), as_nobody: true },
        row("no IPv6", filtered("no-ipv6")),
        row("no /proc", mounts("mount -t tmpfs none /proc && [ ! -e /proc/self ]")),
        Restriction {
            name: "no writable home",
            before: [nobody(), homeless.to_vec()].concat(),
            as_nobody: true,
        },
        row("no batches", filtered("no-batches")),
    ]
}

/// A filter that has some system calls fail as if the kernel did not know them.
fn filter(name: &str) -> BpfProgram {
    use nix::libc::{AF_INET6, EAFNOSUPPORT, EPERM, SOL_UDP, UDP_GRO, UDP_SEGMENT};
    use nix::libc::{SYS_recvmmsg, SYS_sendmmsg, SYS_setsockopt, SYS_socket};
    let equals = |argument, value: i32| {
        let (length, value) = (SeccompCmpArgLen::Dword, value.cast_unsigned().into());
        SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value).unwrap()
    };
    let rule = |conditions| SeccompRule::new(conditions).unwrap();
    let option = |option| rule(vec![equals(1, SOL_UDP), equals(2, option)]);
    let (error, rules) = match name {
        "no-ipv6" => (EAFNOSUPPORT, vec![(SYS_socket, vec![rule(vec![equals(0, AF_INET6)])])]),
        _ => {
            let options = vec![option(UDP_SEGMENT), option(UDP_GRO)];
            let calls = vec![(SYS_recvmmsg, Vec::new()), (SYS_sendmmsg, Vec::new())];
            (EPERM, [calls, vec![(SYS_setsockopt, options)]].concat())
        }
    };
    let refuse = SeccompAction::Errno(error.cast_unsigned());
    let processor = std::env::consts::ARCH.try_into().unwrap();
    let rules = rules.into_iter().collect();
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, processor).unwrap().try_into().unwrap()
}

/// Resident memory of a process in bytes.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

fn measure(under: &Restriction, program: &str, messages: u32) -> Value {
    let (dir, name) = (TempDir::new(), under.name);
    let keys = dir.file("keys.psk", &format!("device:{KEY}\n"));
    if under.as_nobody {
        let owner = nix::unistd::Uid::from_raw(NOBODY);
        if let Err(error) = nix::unistd::chown(&*keys, Some(owner), None) {
            return json!({ "name": name, "refused": format!("chown: {}", error.desc()) });
        }
    }
    let line = || under.before.iter().map(String::as_str).chain([program]);
    let start = |role, to| Proxy::start(line(), role, to, &keys, &[]);
    let started = start("server", echo()).and_then(|server| {
        let between = server.address;
        Ok((server, start("client", between)?))
    });
    let (server, client) = match started {
        Ok(proxies) => proxies,
        Err(refused) => return json!({ "name": name, "refused": refused }),
    };
    let idle = resident(server.child.id()).max(resident(client.child.id()));
    let began = Instant::now();
    let Wrong { lost, other } = exchange(client.address, messages);
    let rate = f64::from(messages) / began.elapsed().as_secs_f64();
    let said: BTreeSet<_> = server.slower_ways().chain(client.slower_ways()).collect();
    json!({ "name": name, "lost": lost, "other": other, "rate": rate, "idle_bytes": idle, "said": said })
}

pub(super) fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().expect("the program of the proxies");
    if first == "--under" {
        let name = arguments.next().expect("the name of a filter");
        seccompiler::apply_filter(&filter(&name)).expect("filters of system calls");
        let error = Command::new(arguments.next().expect("a program")).args(arguments).exec();
        panic!("{error}");
    }
    let messages = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--messages"), Some(count)) => count.parse().expect("a number of messages"),
        _ => 10_000,
    };
    let rows = restrictions();
    let rows: Vec<_> = rows.iter().map(|under| measure(under, &first, messages)).collect();
    println!("{}", json!({ "messages": messages, "rows": rows }));
}
