//! Where a member's applications are.

use super::datagram::Datagram;
use group::directory::{Lookup, Names};
use group::member::Listener;
use group::{ListenerId, SenderId};
use std::future::Future;
use std::io;
use std::net::Ipv6Addr;

/// Where a datagram of an application goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To all listeners of the group.
    Group,
    /// To a sender, in answer.
    Sender(SenderId),
    /// To one listener, under keys that only it and this member have.
    Listener(ListenerId),
    /// To an address of the group's network that is no member's to whom this member can speak.
    Nobody(Ipv6Addr),
}

/// Who sent a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A sender, to the group.
    Sender(SenderId),
    /// A sender, to this member alone.
    DirectSender(SenderId),
    /// A listener, in answer.
    Listener(Listener),
}

/// What a member's host carries datagrams from and to.
pub trait Port: Send {
    /// Waits for what the applications send, writes an encoded [`Datagram`] to `buf`, and returns
    /// where it goes and its length. Dropped while it waits, it has lost nothing.
    ///
    /// # Errors
    /// The applications cannot be heard any more: the member ends.
    fn receive(
        &mut self,
        buf: &mut [u8],
    ) -> impl Future<Output = io::Result<(Destination, usize)>> + Send;

    /// Tells the application that sent it that a datagram cannot be delivered, where there is a way
    /// to tell it.
    fn refuse(&mut self, _: Destination, _: Datagram<'_>) {}

    /// Whether what applications send may wait for the member's controller; else it is not taken from
    /// them before it can be sent.
    fn may_wait(&self) -> bool {
        true
    }

    /// A page of members whose names it wants to know and has not asked for yet.
    fn names_wanted(&mut self) -> Option<Lookup> {
        None
    }

    /// Takes the names of the devices in a page, as the controller knows them.
    fn learn_names(&mut self, _: Names) {}

    /// Hands a datagram to the applications. What they have no room for is lost.
    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>);
}
