//! All integration tests of `lightseal-net`, in one program that is linked once.

mod addresses;
mod batch;
mod blocking;
mod host_sockets;
mod relay;
mod toy;
mod unreachable;
mod virtual_time;
