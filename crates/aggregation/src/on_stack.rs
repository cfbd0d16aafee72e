//! A value in a local variable, for functions that make a value in memory of the caller's choice.

use core::ops::{Deref, DerefMut};

/// Memory on the stack.
pub(crate) struct OnStack<T>(pub(crate) T);

impl<T> Deref for OnStack<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for OnStack<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
