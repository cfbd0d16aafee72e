//! Groups whose controller and members are two programs, as JSON: messages that were lost, answers that
//! differ from what was sent, and epochs that began because stored state was not understood. The programs
//! may be for different processors.
//!
//! `mixed_groups MESSAGES PROGRAM [RUNNER...] OTHER` runs groups of both profiles, in a network of their
//! own. Their controller and members stop and go on as the other program with what they have stored, and
//! back again. RUNNER is what OTHER is run by, such as an emulator with its arguments.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
#[path = "mixed_groups/linux.rs"]
mod linux;
#[cfg(target_os = "linux")]
#[path = "proxies/mod.rs"]
#[expect(dead_code, reason = "groups need no proxies, only the messages and the service")]
mod proxies;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("mixed_groups uses what Linux has: network namespaces");
    std::process::exit(2);
}
