//! All integration tests of `lightseal-group-host`, in one program that is linked once.

mod attack;
mod upgrade;
