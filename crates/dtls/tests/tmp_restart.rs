//! x
#[path = "it/restart.rs"]
mod restart;
