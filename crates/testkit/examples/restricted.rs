//! Two proxies in restricted surroundings, as JSON: messages that were lost, what the proxies said about
//! slower ways, and the memory of an idle one.
//!
//! `restricted PROGRAM [--messages N]` starts a client proxy and a server proxy of PROGRAM under each
//! restriction, and sends messages through them to a service that answers each.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "it measures programs in real time")]
#[path = "restricted/linux.rs"]
mod linux;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("restricted uses what Linux has: mount namespaces and filters of system calls");
    std::process::exit(2);
}
