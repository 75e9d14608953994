use crate::{decision::Decisions, transaction::Transaction};

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

/// Charges that are judged. Their decisions are large, and assembled only if they are needed.
pub(crate) trait JudgedCharges {
    /// Returns whether the charges are made.
    fn are_allowed(&self) -> bool;

    /// Writes the decisions.
    fn show(&self, decided: &mut impl Decisions);
}
