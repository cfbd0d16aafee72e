//! The settings of a membership.

use lightseal_group::control::{GroupName, RoleSet};
use lightseal_net::multicast::Interface;
use std::net::IpAddr;

/// What a device does after it was evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterEviction {
    /// It ends its membership.
    #[default]
    End,
    /// It continues with its old keys, to demonstrate that they have become useless.
    Continue,
}

/// What a device does if another instance of it has replaced this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenReplaced {
    /// It does not join.
    #[default]
    Refuse,
    /// It joins, and so excludes the other instance.
    JoinAnew,
}

/// What a member does until the controller has confirmed this start of its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UntilConfirmed {
    /// It receives only.
    #[default]
    Receive,
    /// It sends as well. If a copy of its state is running, both use the same keys and record
    /// numbers.
    Send,
}

/// The settings of a device's membership in a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The name of the group.
    pub group: GroupName,
    /// The roles that the device asks for.
    pub roles: RoleSet,
    /// The network interface of the group.
    pub interface: Interface,
    /// The address that the device sends from.
    pub address: IpAddr,
    /// The hop limit of its multicast datagrams.
    pub hops: u8,
    /// What the device does after it was evicted.
    pub after_eviction: AfterEviction,
    /// What the device does if another instance of it has replaced this one.
    pub when_replaced: WhenReplaced,
    /// What the device does until the controller has confirmed this start.
    pub until_confirmed: UntilConfirmed,
    /// Whether the device waits before its first request until other members have had time to enter
    /// its epoch. This is for programs that send only once.
    pub patient: bool,
}

impl Options {
    /// A membership with these roles, whose multicast datagrams no router forwards.
    pub fn new(group: GroupName, roles: RoleSet, interface: Interface, address: IpAddr) -> Self {
        Self {
            group,
            roles,
            interface,
            address,
            hops: 1,
            after_eviction: AfterEviction::default(),
            when_replaced: WhenReplaced::default(),
            until_confirmed: UntilConfirmed::default(),
            patient: false,
        }
    }
}
