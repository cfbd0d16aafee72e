//! The parts that a build contains, each named by a feature of this crate.
//!
//! States, keys and configurations that only one part makes hold a value of that part's type.
//! Without the feature the type has no values. The compiler then knows that such a state never
//! exists, and leaves out all code that would handle it. Where a part begins, code asks for
//! `INCLUDED`; only constructors by which a program begins to use a part ask for the feature.

use alloc::boxed::Box;
use core::fmt;

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident if $included:meta;)+) => {$(
        $(#[$doc])*
        #[cfg($included)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        $(#[$doc])*
        #[cfg(not($included))]
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl $name {
            /// The part, if this build contains it.
            pub(crate) const INCLUDED: Option<Self> = {
                #[cfg($included)]
                let part = Some(Self(()));
                #[cfg(not($included))]
                let part = None;
                part
            };
        }

        #[cfg($included)]
        impl Part for $name {
            type Kept<T> = T;

            const IS_INCLUDED: bool = true;

            fn keep<T>(self, value: T) -> T {
                value
            }

            fn kept<T>(value: &T) -> &T {
                value
            }

            fn kept_mut<T>(value: &mut T) -> &mut T {
                value
            }
        }

        #[cfg(not($included))]
        impl Part for $name {
            type Kept<T> = core::convert::Infallible;

            const IS_INCLUDED: bool = false;

            fn keep<T>(self, _: T) -> core::convert::Infallible {
                match self {}
            }

            fn kept<T>(value: &core::convert::Infallible) -> &T {
                match *value {}
            }

            fn kept_mut<T>(value: &mut core::convert::Infallible) -> &mut T {
                match *value {}
            }
        }
    )+};
}

parts! {
    /// Handshakes as client.
    Client if feature = "client";
    /// Handshakes as server.
    Server if feature = "server";
    /// DTLS 1.2.
    Dtls12 if feature = "dtls12";
    /// Sending under shared tags, and the answers to a peer that requests another scheme.
    SharedSending if any(feature = "agg-sender", feature = "r2d2-sender");
    /// Receiving under shared tags.
    SharedReceiving if any(feature = "agg-receiver", feature = "r2d2-receiver");
    /// Probes that show whether the peer is alive.
    Liveness if feature = "liveness";
    /// Connection IDs, and peers whose address changes.
    ConnectionIds if feature = "connection-ids";
    /// Path MTU discovery.
    PathMtu if feature = "path-mtu";
    /// Requests that the peer sends under another scheme.
    SchemeChanges if all(
        feature = "scheme-changes",
        any(feature = "agg-receiver", feature = "r2d2-receiver"),
    );
    /// The choice of the scheme that a receiver requests by itself.
    Adaptation if all(
        feature = "adaptation",
        any(feature = "agg-receiver", feature = "r2d2-receiver"),
    );
    /// Measurements of the loss of received records, and loss reports in both directions.
    LossReports if feature = "loss-reports";
    /// Waiting times of messages under shared tags that follow the traffic.
    Pacing if all(feature = "pacing", any(feature = "agg-sender", feature = "r2d2-sender"));
}

/// Handshakes of DTLS 1.2 as client.
pub(crate) type Client12 = (Client, Dtls12);
/// Handshakes of DTLS 1.2 as server.
pub(crate) type Server12 = (Server, Dtls12);

/// A part of the engine.
pub(crate) trait Part: Copy {
    /// What an association keeps of type `T` for the part: without the part a type without values,
    /// so that it takes no memory.
    type Kept<T>;

    /// Whether this build contains the part.
    const IS_INCLUDED: bool;

    fn keep<T>(self, value: T) -> Self::Kept<T>;
    fn kept<T>(value: &Self::Kept<T>) -> &T;
    fn kept_mut<T>(value: &mut Self::Kept<T>) -> &mut T;
}

/// What a part keeps about an association once it is in use, in a box of its own. Without the part
/// it stays empty and takes no memory.
pub(crate) struct PartState<P: Part, T>(Option<P::Kept<Box<T>>>);

impl<P: Part, T> PartState<P, T> {
    pub(crate) const EMPTY: Self = Self(None);

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|state| &**P::kept(state))
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut().map(|state| &mut **P::kept_mut(state))
    }

    pub(crate) fn get_or_insert_with(&mut self, part: P, state: impl FnOnce() -> T) -> &mut T {
        let state = || part.keep(Box::new(state()));
        P::kept_mut::<Box<T>>(self.0.get_or_insert_with(state))
    }

    pub(crate) fn set(&mut self, part: P, state: T) {
        self.0 = Some(part.keep(Box::new(state)));
    }

    /// Gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

impl<P: Part, T: fmt::Debug> fmt::Debug for PartState<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
