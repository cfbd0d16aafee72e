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

        impl Part for $name {
            const IS_INCLUDED: bool = cfg!($included);
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
    /// Probes that show whether the peer is alive.
    Liveness if feature = "liveness";
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
    /// Whether this build contains the part.
    const IS_INCLUDED: bool;
}

/// What a part keeps about an association, in a box of its own from the first use on. Without the
/// part it stays empty.
pub(crate) struct PartState<P, T>(Option<(P, Box<T>)>);

impl<P: Part, T> PartState<P, T> {
    pub(crate) const EMPTY: Self = Self(None);

    pub(crate) fn get(&self) -> Option<&T> {
        // Code that is generic does not know that a part has no values.
        self.0.as_ref().filter(|_| P::IS_INCLUDED).map(|(_, state)| &**state)
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut().filter(|_| P::IS_INCLUDED).map(|(_, state)| &mut **state)
    }

    pub(crate) fn get_or_insert_with(&mut self, part: P, state: impl FnOnce() -> T) -> &mut T {
        &mut self.0.get_or_insert_with(|| (part, Box::new(state()))).1
    }

    pub(crate) fn set(&mut self, part: P, state: T) {
        self.0 = Some((part, Box::new(state)));
    }
}

impl<P: Part, T: fmt::Debug> fmt::Debug for PartState<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
