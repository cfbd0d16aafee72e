//! All integration tests of `lightseal-group`, in one program that is linked once.

mod attack;
mod axiom;
mod clones;
mod compact_pairwise;
mod compact_records;
mod compact_vectors;
mod control_vectors;
mod controller;
mod direct;
mod eviction;
mod freshness;
mod member;
mod node;
mod pairs;
mod rekey;
mod source;
mod suspend;
mod symmetric;
