//! A server with few session slots and more clients than slots: section IV of the paper on
//! duty-cycled networks.
//!
//! - [`Engset`]: how often all slots are taken, by formula;
//! - [`ClientPopulation`]: how often all slots are taken with the engine as clients and server, in
//!   virtual time.
//!
//! The paper's 17 % (3 slots, 5 clients, ρ = 0.5) are *time congestion*, the share of time in which
//! every slot is taken. The share of attempts that find every slot taken is smaller (*call
//! congestion*, 10 %), because fewer clients are idle during that time.

mod client;
mod engset;
mod population;
mod world;

pub use engset::Engset;
pub use population::{ClientPopulation, Measured};
