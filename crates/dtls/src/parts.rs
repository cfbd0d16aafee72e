//! The parts that a build contains, each named by a feature of this crate.
//!
//! [`lightseal_core::parts`] says how code without its feature is left out. Only constructors by
//! which a program begins to use a part ask for the feature.

use alloc::boxed::Box;
use core::fmt;
use lightseal_core::parts::Part;

lightseal_core::parts! {
    /// Handshakes as client.
    Client if feature = "client";
    /// Handshakes as server.
    Server if feature = "server";
    /// DTLS 1.2.
    Dtls12 if feature = "dtls12";
    /// Shared tags, in either direction and under any scheme, with changes of the scheme.
    SharedTags if any(
        feature = "agg-sender",
        feature = "agg-receiver",
        feature = "r2d2-sender",
        feature = "r2d2-receiver",
    );
    /// Probes that show whether the peer is alive.
    Liveness if feature = "liveness";
}

/// Handshakes of DTLS 1.2 as client.
pub(crate) type Client12 = (Client, Dtls12);
/// Handshakes of DTLS 1.2 as server.
pub(crate) type Server12 = (Server, Dtls12);

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
