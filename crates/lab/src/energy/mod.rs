//! The time and the energy that nodes spend.
//!
//! - [`Meter`]: how long radios and processors were in use, and for what;
//! - [`Device`]: currents and clock rates, read from files;
//! - [`Cpu`]: how long a device takes to compute.
//!
//! # A new device
//!
//! Add a file under `devices/` and a line to [`DEVICES`]. Scenarios may also name a device file of
//! their own.

mod cpu;
mod device;
mod meter;

pub use cpu::{Computation, Cpu};
pub use device::{Currents, DEVICES, Device, SlotCharges};
pub use meter::{Activity, Meter, ResourceUse, Timeslot};
