//! [`Row`]: an array that has a default, however long it is.
//!
//! Arrays of more than 32 have none. With rows a table in shared memory derives its own: all zero.

use std::ops::{Deref, DerefMut};

/// An array of `N`, and laid out as one.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Row<T, const N: usize>(pub [T; N]);

impl<T: Default, const N: usize> Default for Row<T, N> {
    fn default() -> Self {
        Row(std::array::from_fn(|_| T::default()))
    }
}

impl<T, const N: usize> Deref for Row<T, N> {
    type Target = [T; N];
    fn deref(&self) -> &[T; N] {
        &self.0
    }
}

impl<T, const N: usize> DerefMut for Row<T, N> {
    fn deref_mut(&mut self) -> &mut [T; N] {
        &mut self.0
    }
}
