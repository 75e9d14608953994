use std::borrow::Borrow;

use crate::transaction::Transaction;

/// Transactions to decide, which can be assembled when they are read.
pub(crate) trait Transactions<'a> {
    fn len(&self) -> usize;

    /// Returns the transaction at a place.
    fn at(&self, place: usize) -> impl Borrow<Transaction<'a>>;
}

impl<'a> Transactions<'a> for [Transaction<'a>] {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn at(&self, place: usize) -> impl Borrow<Transaction<'a>> {
        &self[place]
    }
}
