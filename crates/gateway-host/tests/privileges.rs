//! Privileges are dropped permanently. The test needs root and a process with one thread, so it has
//! no test harness.

use lightseal_gateway_host::check::check;
use lightseal_gateway_host::config::Config;
use lightseal_gateway_host::privileges::{User, drop_to};
use std::process::Command;

/// The environment variable that selects what this program does when it starts itself again.
const CHILD: &str = "LIGHTSEAL_TEST_PRIVILEGES";

fn main() {
    match std::env::var(CHILD).as_deref() {
        Ok("threads") => {
            let (_keep, wait) = std::sync::mpsc::channel::<()>();
            std::thread::spawn(move || wait.recv());
            let error = drop_to(None).unwrap_err().to_string();
            assert!(error.contains("before threads"), "{error}");
        }
        Ok("user") => become_nobody(),
        Ok("check") => miss_rights(),
        Ok("setuid") => {
            // Like a set-user-ID program of root that the user to become has started.
            have_ids([65534, 0, 0]);
            become_nobody();
        }
        Ok("stepped back") => {
            // The saved ids are root's, and without capabilities the process cannot drop them.
            have_ids([65534, 65534, 0]);
            drop_to(Some(User::named("65534").unwrap())).unwrap_err();
        }
        Ok(_) => stay_who_we_are(),
        Err(_) if cfg!(target_os = "linux") => parent(),
        Err(_) => skip::named("privileges", "they are Linux's"),
    }
}

fn parent() {
    // CAP_SETGID (6), CAP_SETUID (7), CAP_SETPCAP (8).
    let is_root = u64::from_str_radix(&status("CapEff:"), 16).unwrap() >> 6 & 7 == 7;
    let mut cases = vec!["threads", "same", "check"];
    if is_root {
        cases.extend(["user", "setuid", "stepped back"]);
    } else {
        skip::named("becoming another user", "needs root");
    }
    for case in cases {
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program).env(CHILD, case).output().unwrap();
        let errors = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{case}: {errors}");
        println!("privileges, {case}: ok");
    }
}

/// A field of /proc/self/status.
fn status(field: &str) -> String {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim().to_owned()
}

/// AF_XDP on either side needs more rights than packet sockets.
fn miss_rights() {
    drop_to(None).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let findings_of = |lan: &str, underlay: &str, gateway: &str| {
        let text = format!(
            "[gateway]\nname = \"a\"\nidentity = \"a.key\"\n{gateway}[lan]\n\
             interface = \"none0\"\nio = \"{lan}\"\n[underlay]\nlisten = \"127.0.0.1:8885\"\n\
             interface = \"none1\"\nio = \"{underlay}\"\n"
        );
        runtime.block_on(check(&Config::parse("a.toml", &text).unwrap()))
    };
    let told = |lan: &str, underlay: &str, gateway: &str| {
        let findings = findings_of(lan, underlay, gateway);
        let missing = findings.into_iter().find(|finding| finding.what.starts_with("no right to"));
        missing.unwrap().what
    };
    for (lan, underlay, is_xdp) in [
        ("packet", "udp", false),
        ("auto", "auto", false),
        ("xdp", "udp", true),
        ("xdp-native", "auto", true),
        ("packet", "xdp", true),
    ] {
        let told = told(lan, underlay, "");
        assert!(told.contains("CAP_NET_RAW"), "{told}");
        assert_eq!(told.contains("CAP_NET_ADMIN"), is_xdp, "{lan}, {underlay}: {told}");
        assert_eq!(told.contains("CAP_BPF"), is_xdp, "{lan}, {underlay}: {told}");
        assert!(!told.contains("CAP_SETUID"), "{told}");
    }
    let told = told("packet", "udp", "user = 12345\n");
    assert!(told.contains("CAP_SETUID"), "{told}");
    let is_root = status("Uid:").starts_with('0');
    for (user, warned) in [("", is_root), ("user = 12345\n", false)] {
        let findings = findings_of("packet", "udp", user);
        let stays =
            findings.iter().any(|finding| finding.what.starts_with("the gateway runs as root"));
        assert_eq!(stays, warned, "{user:?}: {findings:?}");
    }
}

/// Sets the real, effective and saved ids of user and group.
#[cfg(target_os = "linux")]
fn have_ids(ids: [u32; 3]) {
    use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
    let [real, effective, saved] = ids.map(Gid::from_raw);
    set_thread_res_gid(real, effective, saved).unwrap();
    let [real, effective, saved] = ids.map(Uid::from_raw);
    set_thread_res_uid(real, effective, saved).unwrap();
}

#[cfg(not(target_os = "linux"))]
fn have_ids(_: [u32; 3]) {}

fn become_nobody() {
    let user = User::named("65534").unwrap();
    drop_to(Some(user)).unwrap();
    let is_nobody = |ids: String| ids.split_whitespace().all(|id| id == "65534");
    assert!(is_nobody(status("Uid:")) && is_nobody(status("Gid:")));
    assert_eq!(status("Groups:"), "");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(u64::from_str_radix(&status(set), 16), Ok(0), "{set}");
    }
    assert_eq!(status("NoNewPrivs:"), "1");
    // The rights cannot be regained, in new threads either.
    std::thread::spawn(|| {
        assert!(is_nobody_now());
        assert!(std::fs::write("/proc/sys/kernel/hostname", "x").is_err());
    })
    .join()
    .unwrap();
    // Dropping privileges a second time is no error.
    drop_to(Some(user)).unwrap();
}

fn is_nobody_now() -> bool {
    status("Uid:").split_whitespace().all(|id| id == "65534") && status("CapPrm:").ends_with("000")
}

fn stay_who_we_are() {
    let uid = status("Uid:");
    drop_to(None).unwrap();
    assert_eq!(status("Uid:"), uid);
    assert_eq!(status("CapPrm:").trim_start_matches('0'), "");
    assert_eq!(status("NoNewPrivs:"), "1");
}
