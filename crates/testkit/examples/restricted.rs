//! Two proxies in restricted surroundings, as JSON: messages that were lost, what the proxies said about
//! slower ways, and the memory of an idle one.
//!
//! `restricted PROGRAM [--messages N]` starts a client proxy and a server proxy of PROGRAM under each
//! restriction, and sends messages through them to a service that answers each.
#![forbid(unsafe_code)]

#[expect(clippy::disallowed_methods, reason = "it measures programs in real time")]
#[cfg(all(
    target_os = "linux",
    any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "x86_64")
))]
#[path = "restricted/linux.rs"]
mod measurement;

/// Other systems, and processors for which there are no filters of system calls.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "x86_64")
)))]
mod measurement {
    pub(super) fn main() {
        eprintln!("restricted needs mount namespaces and filters of system calls");
        std::process::exit(2);
    }
}

fn main() {
    measurement::main();
}
