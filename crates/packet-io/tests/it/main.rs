//! All integration tests of `lightseal-packet-io`, in one program that is linked once.

mod af_packet;
#[cfg(target_os = "linux")]
mod namespace;
mod udp;
mod xdp;
