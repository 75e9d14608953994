/// How a transaction takes part in its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Votes, and is charged if the whole batch passes.
    #[default]
    CheckAndSpend,
    /// Votes, and is never charged.
    CheckOnly,
    /// Never votes; charged if the batch passes and the cost fits, else skipped whole.
    SpendOnly,
    /// Never votes; charged if the batch passes, even into debt, whatever the cost.
    Debit,
    /// Never votes, and is never charged: says what would have been decided.
    Observe,
}

impl Mode {
    /// Whether a denial of this member denies the batch.
    #[must_use]
    pub const fn votes(self) -> bool {
        matches!(self, Self::CheckAndSpend | Self::CheckOnly)
    }

    /// Whether this member is charged when the batch passes and its cost fits.
    #[must_use]
    pub const fn spends(self) -> bool {
        !matches!(self, Self::CheckOnly | Self::Observe)
    }

    /// The mode in which a member does the same without a vote.
    pub(crate) const fn silent(self) -> Self {
        match self {
            Self::CheckAndSpend => Self::SpendOnly,
            Self::CheckOnly => Self::Observe,
            mode => mode,
        }
    }
}
