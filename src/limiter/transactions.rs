use crate::transaction::Transaction;

/// Transactions to decide, which can be assembled when they are read.
pub(crate) trait Transactions<'a> {
    fn len(&self) -> usize;

    /// Reads the transaction at a place.
    fn read<R>(&self, place: usize, read: impl FnOnce(&Transaction<'a>) -> R) -> R;
}

impl<'a> Transactions<'a> for [Transaction<'a>] {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn read<R>(&self, place: usize, read: impl FnOnce(&Transaction<'a>) -> R) -> R {
        read(&self[place])
    }
}

/// One transaction.
impl<'a> Transactions<'a> for Transaction<'a> {
    #[inline(always)]
    fn len(&self) -> usize {
        1
    }

    #[inline(always)]
    fn read<R>(&self, _: usize, read: impl FnOnce(&Transaction<'a>) -> R) -> R {
        read(self)
    }
}
