//! Boxes on the heap.
//!
//! Without the feature `alloc` the type has no values, so that structures which may contain a box,
//! such as a provider's suite, are the same in every build. The compiler leaves out the code that
//! would handle one.

#[cfg(feature = "alloc")]
pub use alloc::boxed::Box;
#[cfg(not(feature = "alloc"))]
pub use without::Box;

#[cfg(not(feature = "alloc"))]
mod without {
    use core::convert::Infallible;
    use core::marker::PhantomData;
    use core::ops::{Deref, DerefMut};

    /// A box, of which there are no values.
    #[derive(Debug)]
    pub struct Box<T: ?Sized>(Infallible, PhantomData<T>);

    impl<T: ?Sized> Deref for Box<T> {
        type Target = T;

        fn deref(&self) -> &T {
            match self.0 {}
        }
    }

    impl<T: ?Sized> DerefMut for Box<T> {
        fn deref_mut(&mut self) -> &mut T {
            match self.0 {}
        }
    }
}
