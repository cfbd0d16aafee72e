//! Rekeying: a controller and its members, against a slow model and against those who must not
//! follow.

mod exhaustive;
mod histories;
mod hostile;
mod sizes;
mod vectors;
mod world;
