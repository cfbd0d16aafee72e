//! Tests of rekeying: a controller and its members are compared with a slow model, and former
//! members must not be able to follow.

mod exhaustive;
mod histories;
mod hostile;
mod sizes;
mod vectors;
mod world;
