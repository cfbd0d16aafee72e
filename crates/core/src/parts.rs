//! Parts of an engine that a build may lack.
//!
//! Each part has a type, which [`parts!`](crate::parts!) declares. With the part's feature the type
//! has one value, without it none. States, keys and configurations that only one part makes hold a
//! value of that part's type. Without the feature the compiler then knows that they never exist,
//! and leaves out all code that would handle them. Where a part begins, code asks for `INCLUDED`.

use core::fmt;
use core::ops::{Deref, DerefMut};

/// A part of an engine.
pub trait Part: Copy {
    /// Whether this build contains the part.
    const IS_INCLUDED: bool;

    /// `T`, or without the part a type that has no values and no size.
    type Only<T>;

    /// A value that only the part has.
    fn only<T>(self, value: T) -> Self::Only<T>;

    /// The value.
    fn get<T>(only: &Self::Only<T>) -> &T;

    /// The value, to be changed.
    fn get_mut<T>(only: &mut Self::Only<T>) -> &mut T;

    /// The value itself.
    fn into<T>(only: Self::Only<T>) -> T;

    /// Another value that equals it.
    fn clone_only<T: Clone>(only: &Self::Only<T>) -> Self::Only<T>;
}

/// What a part keeps from its first use on. Without the part it stays empty, takes no memory, and
/// the compiler leaves out what would handle it, even where it is dropped.
pub struct PartState<P: Part, T>(Option<P::Only<T>>);

impl<P: Part, T> PartState<P, T> {
    /// Nothing is kept.
    pub const EMPTY: Self = Self(None);

    /// What `part` keeps; nothing if there is no part.
    pub fn new(part: Option<P>, state: impl FnOnce(P) -> T) -> Self {
        Self(part.map(|part| part.only(state(part))))
    }

    /// What is kept.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(P::get)
    }

    /// What is kept, to be changed.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut().map(P::get_mut)
    }

    /// What was kept.
    pub fn into_inner(self) -> Option<T> {
        self.0.map(P::into)
    }

    /// What is kept, which is made if there is nothing.
    pub fn get_or_insert_with(&mut self, part: P, state: impl FnOnce() -> T) -> &mut T {
        P::get_mut(self.0.get_or_insert_with(|| part.only(state())))
    }
}

impl<P: Part, T> Default for PartState<P, T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<P: Part, T: Clone> Clone for PartState<P, T> {
    fn clone(&self) -> Self {
        Self(self.0.as_ref().map(P::clone_only))
    }
}

impl<P: Part, T: fmt::Debug> fmt::Debug for PartState<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A value that only a part has, in a variant of its own. Without the part the variant has no size
/// either, and the compiler leaves out even the code that would drop it.
pub struct OfPart<P: Part, T>(P::Only<T>);

impl<P: Part, T> OfPart<P, T> {
    /// The value.
    pub fn new(part: P, value: T) -> Self {
        Self(part.only(value))
    }

    /// The value itself.
    pub fn into_inner(this: Self) -> T {
        P::into(this.0)
    }
}

impl<P: Part, T> Deref for OfPart<P, T> {
    type Target = T;

    fn deref(&self) -> &T {
        P::get(&self.0)
    }
}

impl<P: Part, T> DerefMut for OfPart<P, T> {
    fn deref_mut(&mut self) -> &mut T {
        P::get_mut(&mut self.0)
    }
}

impl<P: Part, T: Clone> Clone for OfPart<P, T> {
    fn clone(&self) -> Self {
        Self(P::clone_only(&self.0))
    }
}

impl<P: Part, T: fmt::Debug> fmt::Debug for OfPart<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
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

        #[cfg($included)]
        impl $crate::parts::Part for $name {
            const IS_INCLUDED: bool = true;
            type Only<T> = T;

            fn only<T>(self, value: T) -> T {
                value
            }

            fn get<T>(only: &T) -> &T {
                only
            }

            fn get_mut<T>(only: &mut T) -> &mut T {
                only
            }

            fn into<T>(only: T) -> T {
                only
            }

            fn clone_only<T: Clone>(only: &T) -> T {
                only.clone()
            }
        }

        #[cfg(not($included))]
        impl $crate::parts::Part for $name {
            const IS_INCLUDED: bool = false;
            type Only<T> = Self;

            fn only<T>(self, _: T) -> Self {
                self
            }

            fn get<T>(only: &Self) -> &T {
                match *only {}
            }

            fn get_mut<T>(only: &mut Self) -> &mut T {
                match *only {}
            }

            fn into<T>(only: Self) -> T {
                match only {}
            }

            fn clone_only<T: Clone>(only: &Self) -> Self {
                match *only {}
            }
        }
    )+};
}
