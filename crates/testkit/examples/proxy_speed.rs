//! What two proxies cost, as JSON: processor time for each datagram that arrives, datagrams a second,
//! and memory for each flow.
//!
//! `proxy_speed PROGRAM [--flows N] [--turns N] [--memory] [--workers] [--socket-per-flow]` starts a
//! client proxy and a server proxy of PROGRAM on the loopback interface. Applications send through them to a service that counts,
//! in one direction, with a bounded number of datagrams on the way, so that none is lost. Each turn
//! measures every length of message, at full rate and at a tenth of it. nginx, if it is installed,
//! carries the same datagrams without DTLS between two processes of its own (`stream`), and wireguard-go
//! through a tunnel between two network namespaces. With
//! `--workers` it compares server proxies with one and with two workers, which get records that were
//! sealed beforehand.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "it measures programs in real time")]
#[path = "proxy_speed/linux.rs"]
mod linux;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("proxy_speed reads processor time from Linux's /proc");
    std::process::exit(2);
}
