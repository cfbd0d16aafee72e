//! All integration tests of `lightseal-aggregation`, in one program that is linked once.

mod agg;
mod attack;
mod campaign;
mod choice;
mod in_order;
mod memory;
mod model;
mod progressive;
mod r2d2;
mod resume;
mod sliding;
mod small;
mod vectors;
mod world;
