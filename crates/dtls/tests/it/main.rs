//! All integration tests of `lightseal-dtls`, in one program that is linked once.

mod adapt;
mod addresses;
mod attack;
mod attack_tags;
mod chaos;
mod connection_ids;
mod cuts;
mod data;
mod delivery;
mod dialogue;
mod dtls12;
mod half_rtt;
mod handshake;
mod hashes;
mod hostile;
mod hostile12;
mod hostile_server;
mod lengths;
mod liveness;
mod local_address;
mod lookups;
mod lossy;
mod masks;
#[cfg(feature = "passive")]
mod passive;
mod path_mtu;
mod regressions;
mod resumption;
mod schemes;
mod signatures;
mod slots;
mod suites;
mod suites12;
mod updates;
mod vectors;
