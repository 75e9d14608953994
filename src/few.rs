//! Lists whose length is known when they are compiled, up to four items, and others.

use std::{
    array,
    ops::{Deref, DerefMut},
};

use arrayvec::ArrayVec;
use smallvec::SmallVec;

/// A number of items. The code for up to four is compiled for each number, and keeps its lists on the stack.
pub(crate) trait Count {
    /// A list of as many items.
    type Of<T>: AsRef<[T]> + AsMut<[T]>;

    /// A list of at most as many items.
    type UpTo<T>: List<T>;

    /// Returns the number itself, which the compiler knows if it is fixed.
    fn len(len: usize) -> usize;

    /// Creates a list from the item for each place. For a fixed number, `len` must be that number.
    fn list<T>(len: usize, item: impl FnMut(usize) -> T) -> Self::Of<T>;

    /// Creates a list of the same items.
    fn fill<T: Copy>(len: usize, item: T) -> Self::Of<T>;

    /// Adds an item.
    ///
    /// # Panics
    ///
    /// If the number is fixed.
    fn grow<T>(list: &mut Self::Of<T>, item: T);
}

/// A list that items are added to.
pub(crate) trait List<T>: Default + DerefMut + Deref<Target = [T]> {
    fn add(&mut self, item: T);

    /// Removes the last item.
    fn remove_last(&mut self);
}

/// Exactly `N` items.
pub(crate) enum Exactly<const N: usize> {}

/// Any number of items.
pub(crate) enum Any {}

impl<const N: usize> Count for Exactly<N> {
    type Of<T> = [T; N];
    type UpTo<T> = ArrayVec<T, N>;

    #[inline(always)]
    fn len(len: usize) -> usize {
        debug_assert_eq!(len, N);
        N
    }

    #[inline(always)]
    fn list<T>(len: usize, item: impl FnMut(usize) -> T) -> [T; N] {
        debug_assert_eq!(len, N);
        array::from_fn(item)
    }

    #[inline(always)]
    fn fill<T: Copy>(len: usize, item: T) -> [T; N] {
        debug_assert_eq!(len, N);
        [item; N]
    }

    #[cold]
    fn grow<T>(_: &mut [T; N], _: T) {
        unreachable!("a fixed number of items is there from the start");
    }
}

impl Count for Any {
    type Of<T> = SmallVec<[T; 4]>;
    type UpTo<T> = SmallVec<[T; 4]>;

    fn len(len: usize) -> usize {
        len
    }

    fn list<T>(len: usize, item: impl FnMut(usize) -> T) -> SmallVec<[T; 4]> {
        (0..len).map(item).collect()
    }

    fn fill<T: Copy>(len: usize, item: T) -> SmallVec<[T; 4]> {
        SmallVec::from_elem(item, len)
    }

    fn grow<T>(list: &mut SmallVec<[T; 4]>, item: T) {
        list.push(item);
    }
}

impl<T, const N: usize> List<T> for ArrayVec<T, N> {
    #[inline(always)]
    fn add(&mut self, item: T) {
        self.push(item);
    }

    #[inline(always)]
    fn remove_last(&mut self) {
        self.pop();
    }
}

impl<T> List<T> for SmallVec<[T; 4]> {
    fn add(&mut self, item: T) {
        self.push(item);
    }

    fn remove_last(&mut self) {
        self.pop();
    }
}

/// Evaluates an expression for a length, with its [`Count`].
macro_rules! counted {
    ($len:expr, $count:ident => $body:expr) => {
        match $len {
            1 => counted!($count, $crate::few::Exactly::<1>, $body),
            2 => counted!($count, $crate::few::Exactly::<2>, $body),
            3 => counted!($count, $crate::few::Exactly::<3>, $body),
            4 => counted!($count, $crate::few::Exactly::<4>, $body),
            _ => counted!($count, $crate::few::Any, $body),
        }
    };
    ($count:ident, $this:ty, $body:expr) => {{
        type $count = $this;
        $body
    }};
}

pub(crate) use counted;
