//! Ports for frames and datagrams through AF_XDP. A program in the kernel takes the packets that a
//! gateway wants before the kernel's network stack sees them, and passes on all others.
//!
//! Packets are received into the memory of the [`Pool`](crate::Pool), which all ports opened with
//! it share. Between a LAN and an underlay this process copies nothing (in generic mode the kernel
//! copies).
//!
//! An [`Attachment`] is the program on an interface, with its counters. It is removed with the last
//! port and attachment of the process, however the process ends. A port is one socket on one
//! receive queue. An interface that spreads received packets over several queues needs a port for
//! each, or a single queue (`ethtool -L eth1 combined 1`): packets on other queues pass to the
//! kernel and are counted ([`PassedCounters::unserved`]).
//! [`Interface::receive_queues`](crate::Interface::receive_queues) returns the number of queues.
//!
//! # Sizes
//!
//! For AF_XDP a pool's frames have 4096 bytes at most. The kernel leaves 256 of them free before a
//! received packet, so packets may have up to 3840 bytes. Longer ones are dropped and counted
//! (`too_long`); they need packet sockets.
//!
//! # VLAN tags
//!
//! A program sees VLAN tags that are in the frame. Tags that a driver removed (`rxvlan`), or that a
//! sender on this machine never inserted (`txvlan` of veth and bridges), are in metadata that
//! neither a program nor AF_XDP can read. Attaching turns `rxvlan` off if the driver can; `txvlan`
//! must be turned off at the other end of a veth pair.

mod assembler;
mod attachment;
mod headers;
mod lan;
mod next_hops;
mod port;
mod programs;
mod underlay;

/// The largest number of EtherTypes in the program of a LAN.
pub const MOST_ETHERTYPES: usize = crate::ethertype::MAX;

pub use attachment::{Attachment, Mode, PassedCounters};
pub use lan::XdpLan;
pub use port::XdpSettings;
pub use underlay::XdpUnderlay;
