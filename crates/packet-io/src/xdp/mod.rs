//! Frames and datagrams through AF_XDP: a program in the kernel hands what a gateway wants to it
//! before the kernel's network stack sees it, and passes on everything else.
//!
//! The memory that packets are received into is the [`Pool`](crate::Pool)'s, for all ports that were opened with it:
//! between a LAN and an underlay nothing is copied here (in generic mode the kernel copies).
//!
//! An [`Attachment`] is the program on an interface, with its counters; it goes with the last port
//! and attachment of the process, in whatever way that ends. A port is one socket on one receive
//! queue. An interface that spreads what it receives over several queues needs a port for each, or
//! one queue (`ethtool -L eth1 combined 1`): what comes on others passes to the kernel, and is
//! counted ([`Passed::unserved`]). [`Interface::receive_queues`](crate::Interface::receive_queues)
//! says how many there are.
//!
//! # Sizes
//!
//! A pool's frames have 4096 bytes at most here, of which the kernel leaves 256 free before what
//! it receives: packets of up to 3840 bytes. Longer ones (`too_long`) need packet sockets.
//!
//! # VLAN tags
//!
//! A program sees tags that are in the frame. Tags that a driver took out (`rxvlan`), or that a
//! sender on this machine never put in (`txvlan` of veth and bridges), are beside the frame, where
//! neither a program nor AF_XDP gets at them. Attaching turns `rxvlan` off where the driver can;
//! `txvlan` at the other end of a veth pair has to be turned off there.

mod assembler;
mod attachment;
mod headers;
mod lan;
mod neighbours;
mod port;
mod programs;
mod underlay;

/// As many EtherTypes as the program of a LAN takes.
pub const MOST_ETHERTYPES: usize = crate::ethertype::MAX;

pub use attachment::{Attachment, Mode, Passed};
pub use lan::XdpLan;
pub use port::Settings;
pub use underlay::XdpUnderlay;
