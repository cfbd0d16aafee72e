//! The interface between a member's host and its applications.

use super::datagram::Datagram;
use lightseal_core::Decode;
use lightseal_group::directory::{Lookup, Names};
use lightseal_group::member::{Delivery, Listener};
use lightseal_group::{ListenerId, SenderId};
use std::future::Future;
use std::io;
use std::net::Ipv6Addr;

/// The destination of an application's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// All listeners of the group.
    Group,
    /// A sender, in response to its last request to the group.
    Sender(SenderId),
    /// A sender, in response to its last direct request.
    DirectSender(SenderId),
    /// One listener, under keys that only it and this member have.
    Listener(ListenerId),
    /// An address of the group's inner network that does not belong to a member to which this
    /// member can send.
    Unreachable(Ipv6Addr),
}

/// The member that sent a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A sender, in a request to the group.
    Sender(SenderId),
    /// A sender, in a direct request to this member.
    DirectSender(SenderId),
    /// A listener, in a response.
    Listener(Listener),
}

/// The applications' side of a member's host: it supplies their datagrams and delivers datagrams to
/// them.
pub trait ApplicationPort: Send {
    /// Waits for a datagram of an application, writes it as an encoded [`Datagram`] to `buf`, and
    /// returns its destination and length. If the future is dropped while it waits, no datagram is
    /// lost.
    ///
    /// # Errors
    /// Datagrams of applications cannot be received any more. The member then stops.
    fn receive(
        &mut self,
        buf: &mut [u8],
    ) -> impl Future<Output = io::Result<(Destination, usize)>> + Send;

    /// Tells the application that its datagram cannot be delivered, if that is possible.
    fn refuse(&mut self, _: Destination, _: Datagram<'_>) {}

    /// Whether datagrams of applications may be buffered while the member waits for its controller.
    /// If false, [`Self::receive`] is not called before they can be sent.
    fn may_wait(&self) -> bool {
        true
    }

    /// A page of members whose names the applications want to know, each returned once.
    fn names_wanted(&mut self) -> Option<Lookup> {
        None
    }

    /// Takes the names of the devices in a page, as the controller sent them. They are valid until
    /// [`Self::rekeyed`] is called.
    fn learn_names(&mut self, _: Names) {}

    /// Tells that the group has a new epoch, in which IDs may belong to other devices than before.
    fn rekeyed(&mut self) {}

    /// Delivers a datagram to the applications. It is lost if they have no room for it.
    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>);
}

/// Delivers the content of an authentic record to the applications.
pub(super) fn hand_over(delivery: Delivery<'_>, port: &mut impl ApplicationPort) {
    let (origin, content) = match delivery {
        Delivery::Request { sender, content, .. } => (Origin::Sender(sender), content),
        Delivery::DirectRequest { sender, content, .. } => (Origin::DirectSender(sender), content),
        Delivery::Response { listener, content, .. } => (Origin::Listener(listener), content),
    };
    // The record is authentic, but the program that wrote it uses another payload format.
    match Datagram::decode(content) {
        Ok(datagram) => port.deliver(origin, datagram),
        Err(error) => tracing::debug!("the payload is not a datagram with ports: {error}"),
    }
}

/// Passes names to the applications, unless they are of another epoch than `newest`, the member's
/// newest one. A name of another epoch may be that of an ID's former or next owner.
pub(super) fn take_names(names: Names, newest: u64, port: &mut impl ApplicationPort) {
    if names.epoch == newest {
        port.learn_names(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Learner(Vec<Names>);

    impl ApplicationPort for Learner {
        async fn receive(&mut self, _: &mut [u8]) -> io::Result<(Destination, usize)> {
            std::future::pending().await
        }

        fn learn_names(&mut self, names: Names) {
            self.0.push(names);
        }

        fn deliver(&mut self, _: Origin, _: Datagram<'_>) {}
    }

    #[test]
    fn names_of_another_epoch_than_the_newest_are_dropped() {
        let mut learner = Learner::default();
        let lookup = Lookup::sender(SenderId(0));
        for epoch in [8, 9, 10] {
            let names = Names { lookup, epoch, names: vec![(3, "lamp".into())] };
            take_names(names, 9, &mut learner);
        }
        assert_eq!(learner.0.iter().map(|names| names.epoch).collect::<Vec<_>>(), [9]);
    }
}
