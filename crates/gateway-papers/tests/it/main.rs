//! All integration tests of `lightseal-gateway-papers`, in one program. The simulated sites are those
//! of the tests of `lightseal-gateway`.

mod attacks;
mod classifier;
mod histories;
mod vectors;
