//! All integration tests of `lightseal-lab`, in one program that is linked once.

mod capture;
mod cli;
mod decrypt;
mod dissector;
mod figures;
mod program;
mod scenario;
