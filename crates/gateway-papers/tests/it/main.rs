//! All integration tests of `lightseal-gateway-papers`, in one program. The simulated sites are those
//! of the tests of `lightseal-gateway`.

mod attacks;
mod classifier;
mod histories;
#[path = "../../../gateway/tests/it/history.rs"]
mod history;
mod trials;
#[path = "../../../gateway/tests/it/vector_file.rs"]
mod vector_file;
mod vectors;
#[path = "../../../gateway/tests/it/world/mod.rs"]
mod world;
