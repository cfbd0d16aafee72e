//! All integration tests of `lightseal-packet-io`, in one program that is linked once.

mod af_packet;
mod udp;
mod xdp;
