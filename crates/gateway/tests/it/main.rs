//! All integration tests of `lightseal-gateway`, in one program that is linked once.

mod agreement;
mod derivations;
mod documented;
mod histories;
mod identifier;
mod roaming;
mod sealed;
mod vectors;
