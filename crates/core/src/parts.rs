//! Parts of an engine that a build may lack.
//!
//! Each part has a type, which [`parts!`](crate::parts!) declares. With the part's feature the type
//! has one value, without it none. States, keys and configurations that only one part makes hold a
//! value of that part's type. Without the feature the compiler then knows that they never exist,
//! and leaves out all code that would handle them. Where a part begins, code asks for `INCLUDED`.

/// A part of an engine.
pub trait Part: Copy {
    /// Whether this build contains the part.
    const IS_INCLUDED: bool;
}

/// Declares the types of parts, each with the condition under which a build of the calling crate
/// contains the part.
///
/// ```
/// lightseal_core::parts! {
///     /// What every build contains.
///     Always if not(any());
///     /// What no build contains.
///     Never if any();
/// }
/// assert!(Always::INCLUDED.is_some() && Never::INCLUDED.is_none());
/// ```
#[macro_export]
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident if $included:meta;)+) => {$(
        $(#[$doc])*
        #[cfg($included)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(());

        $(#[$doc])*
        #[cfg(not($included))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

        impl $crate::parts::Part for $name {
            const IS_INCLUDED: bool = cfg!($included);
        }
    )+};
}
