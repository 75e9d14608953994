//! A short list that is optimized for a single item.

use std::{
    mem,
    ops::{Deref, DerefMut},
    slice,
};

use smallvec::SmallVec;

/// A list on the stack, like a [`SmallVec`]. A single item is at a fixed place, which the compiler can use.
#[derive(Clone, Debug, Default)]
pub(crate) enum OneOrMany<T> {
    #[default]
    None,
    One(T),
    Many(SmallVec<[T; 4]>),
}

impl<T> OneOrMany<T> {
    /// Creates an empty list for a number of items.
    #[inline(always)]
    pub(crate) fn for_items(items: usize) -> Self {
        match items {
            0 | 1 => Self::None,
            _ => Self::Many(SmallVec::new()),
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) {
        match self {
            Self::None => *self = Self::One(item),
            _ => self.push_another(item),
        }
    }

    #[inline(never)]
    fn push_another(&mut self, item: T) {
        if let Self::Many(many) = self {
            many.push(item);
            return;
        }
        let mut many = SmallVec::new();
        if let Self::One(first) = mem::take(self) {
            many.push(first);
        }
        many.push(item);
        *self = Self::Many(many);
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(item) => slice::from_ref(item),
            Self::Many(many) => many,
        }
    }
}

impl<T> DerefMut for OneOrMany<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(item) => slice::from_mut(item),
            Self::Many(many) => many,
        }
    }
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::default();
        items.into_iter().for_each(|item| list.push(item));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order() {
        let mut list = OneOrMany::default();
        for len in 0..7 {
            assert!(list.iter().copied().eq(0..len), "{len}");
            assert_eq!(matches!(list, OneOrMany::One(_)), len == 1);
            list.push(len);
        }
        list.iter_mut().for_each(|item| *item += 1);
        let copied: OneOrMany<_> = list.iter().copied().collect();
        assert_eq!(*copied, [1, 2, 3, 4, 5, 6, 7]);
    }
}
