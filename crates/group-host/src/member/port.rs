//! Where a member's applications are.

use super::datagram::Datagram;
use group::SenderId;
use group::member::Listener;
use std::future::Future;
use std::io;

/// Where a datagram of an application goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To all listeners of the group.
    Group,
    /// To a sender, in answer.
    Sender(SenderId),
}

/// Who sent a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A sender, to the group.
    Sender(SenderId),
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

    /// Hands a datagram to the applications. What they have no room for is lost.
    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>);
}
