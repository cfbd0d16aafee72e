//! What differs between operating systems, behind functions that every system has.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Where connection IDs name a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerByte {
    /// The offset in bytes, in the payload of a datagram whose first byte says `kind`.
    pub at: u8,
    /// The bits of the first byte that say so.
    pub mask: u8,
    /// What they say.
    pub kind: u8,
}
