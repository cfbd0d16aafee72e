//! What nodes spend.
//!
//! - [`Meter`]: how long radios and processors did what;
//! - [`Device`]: currents and clocks, from files;
//! - [`Cpu`]: how long a device computes.
//!
//! # A new device
//!
//! One file under `devices/` and one line in [`DEVICES`]; scenarios may also name a file of their
//! own.

mod cpu;
mod device;
mod meter;

pub use cpu::{Cpu, Work};
pub use device::{Currents, DEVICES, Device, SlotCharges};
pub use meter::{Meter, Slot, Spent, Use};
