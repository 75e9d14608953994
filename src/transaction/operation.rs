use super::mode::Mode;
use crate::algorithm::Verb;

/// The operation of a [`Batch`](crate::backend::custom::Batch). A backend passes it on to
/// [`Batch::decide`](crate::backend::custom::Batch::decide); the page for [authors](crate::backend::custom) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Returns what [`Spend`](Self::Spend) would return, without charging.
    Check,
    /// Charges all members that spend, or none if a voting member is denied.
    Spend,
    /// Refunds the cost of each member independently, at most until its bucket is full.
    Refund,
    /// Renews the charges of the members' receipts, so that they count from now on. They are renewed one after the other, and
    /// several can be of one bucket.
    Renew,
    /// Returns the figures of the buckets as they are.
    Peek,
    /// Makes the buckets full.
    Reset,
}

impl Operation {
    /// Returns the question of a member with this mode to its bucket.
    #[inline]
    pub(crate) const fn verb(self, mode: Mode) -> Verb {
        match (self, mode) {
            (Self::Check | Self::Spend, Mode::Debit) => Verb::Debit,
            (Self::Check | Self::Spend, _) => Verb::Spend,
            (Self::Refund, mode) if mode.spends() => Verb::Refund,
            (Self::Renew, mode) if mode.spends() => Verb::Renew,
            _ => Verb::Peek,
        }
    }
}
