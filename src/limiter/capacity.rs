use smallvec::SmallVec;

/// The number of transactions that are decided together. It selects the storage of their parts, so that a single one
/// costs no more than necessary, while all take the same path.
pub(crate) trait Capacity {
    /// A list with one item for each transaction.
    type List<T>: List<T>;
}

/// One transaction.
pub(crate) enum One {}

/// Any number of transactions; up to four are kept without an allocation.
pub(crate) enum Many {}

impl Capacity for One {
    type List<T> = Option<T>;
}

impl Capacity for Many {
    type List<T> = SmallVec<[T; 4]>;
}

/// A list with room for one item for each transaction.
pub(crate) trait List<T>: Default {
    fn push(&mut self, item: T);

    fn as_slice(&self) -> &[T];

    fn as_mut_slice(&mut self) -> &mut [T];
}

impl<T> List<T> for Option<T> {
    #[inline(always)]
    fn push(&mut self, item: T) {
        debug_assert!(self.is_none(), "there is room for one");
        *self = Some(item);
    }

    #[inline(always)]
    fn as_slice(&self) -> &[T] {
        self.as_slice()
    }

    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [T] {
        self.as_mut_slice()
    }
}

impl<T> List<T> for SmallVec<[T; 4]> {
    #[inline]
    fn push(&mut self, item: T) {
        self.push(item);
    }

    #[inline]
    fn as_slice(&self) -> &[T] {
        self
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }
}
