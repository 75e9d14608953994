use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering},
};

/// A reference to a limit: its name, or a [handle](crate::limiter::LimitHandle) that has already looked it up.
/// [`Transaction::new`](crate::Transaction::new) takes one.
///
/// Two are equal if they name the same limit.
#[derive(Clone, Copy)]
pub struct LimitRef<'a> {
    name: &'a str,
    place: Option<&'a LimitPlace>,
}

impl<'a> LimitRef<'a> {
    /// Creates a reference that remembers its last index.
    #[inline]
    pub(crate) fn remembered(name: &'a str, place: &'a LimitPlace) -> Self {
        Self {
            name,
            place: Some(place),
        }
    }

    /// The limit's name.
    #[must_use]
    pub fn as_str(&self) -> &'a str {
        self.name
    }

    #[inline]
    pub(crate) fn place(&self) -> Option<&'a LimitPlace> {
        self.place
    }
}

/// A name as text.
impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for LimitRef<'a> {
    fn from(name: &'a T) -> Self {
        Self {
            name: name.as_ref(),
            place: None,
        }
    }
}

impl PartialEq for LimitRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LimitRef<'_> {}

impl Hash for LimitRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for LimitRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.name, f)
    }
}

impl fmt::Display for LimitRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// The index at which a name was found last, and the generation of the limits that it was found in.
///
/// An index is only valid for the limits of its generation. Both are in one word, so that no reader sees the index of
/// one generation with the number of another.
#[derive(Debug, Default)]
pub(crate) struct LimitPlace(AtomicU64);

impl LimitPlace {
    const INDEX_BITS: u32 = 20;

    /// Returns the index in the limits of this generation, if it is known.
    #[inline]
    pub(crate) fn within(&self, generation: u64) -> Option<u32> {
        let place = self.0.load(Ordering::Relaxed);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the index is in the low bits"
        )]
        let index = place as u32 & ((1 << Self::INDEX_BITS) - 1);
        (place >> Self::INDEX_BITS == generation).then_some(index)
    }

    /// Remembers an index. One that is too large for the word is looked up by name each time.
    #[cold]
    pub(crate) fn remember(&self, generation: u64, index: u32) {
        if index < 1 << Self::INDEX_BITS {
            let place = generation << Self::INDEX_BITS | u64::from(index);
            self.0.store(place, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_only_good_for_its_generation() {
        let place = LimitPlace::default();
        assert_eq!(place.within(1), None);
        place.remember(1, 7);
        assert_eq!((place.within(1), place.within(2)), (Some(7), None));
        place.remember(2, 0);
        assert_eq!((place.within(1), place.within(2)), (None, Some(0)));
        place.remember(3, 1 << 20);
        assert_eq!(place.within(3), None, "too large to remember");
    }
}
