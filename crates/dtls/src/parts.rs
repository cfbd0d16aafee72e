//! The parts that a build contains, each named by a feature of this crate.
//!
//! States, keys and configurations that only one part makes hold a value of that part's type.
//! Without the feature the type has no values. The compiler then knows that such a state never
//! exists, and leaves out all code that would handle it. No other code asks for the feature.

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident = $feature:literal;)+) => {$(
        $(#[$doc])*
        #[cfg(feature = $feature)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        $(#[$doc])*
        #[cfg(not(feature = $feature))]
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl $name {
            /// The part, if this build contains it.
            pub(crate) const INCLUDED: Option<Self> = {
                #[cfg(feature = $feature)]
                let part = Some(Self(()));
                #[cfg(not(feature = $feature))]
                let part = None;
                part
            };
        }
    )+};
}

parts! {
    /// Handshakes as client.
    Client = "client";
    /// Handshakes as server.
    Server = "server";
    /// DTLS 1.2.
    Dtls12 = "dtls12";
}

/// Handshakes of DTLS 1.2 as client.
pub(crate) type Client12 = (Client, Dtls12);
/// Handshakes of DTLS 1.2 as server.
pub(crate) type Server12 = (Server, Dtls12);
