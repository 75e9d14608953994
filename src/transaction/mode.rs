/// The role of a transaction in its batch. [`Limiter`](crate::Limiter) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Has a vote, and is charged if the whole batch passes.
    #[default]
    CheckAndSpend,
    /// Has a vote, and is never charged.
    CheckOnly,
    /// Has no vote. It is charged if the batch passes and the whole cost fits, and skipped otherwise.
    SpendOnly,
    /// Has no vote. It is charged if the batch passes, whatever the cost, even into debt.
    Debit,
    /// Has no vote, and is never charged. It only reports what would have been decided.
    Observe,
}

/// The policy for a limit's requests while its store does not answer. It requires a
/// [`FailurePolicy`](crate::backend::FailurePolicy). The guide to [rules](crate::guide::rules) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// This process decides, with its share of the limit.
    #[default]
    Local,
    /// Requests pass, as if the limit were off.
    Allow,
    /// Requests are refused: 503, or `UNAVAILABLE` over gRPC.
    Refuse,
}

impl Mode {
    /// Returns whether a denial of this member denies the batch.
    #[must_use]
    pub const fn votes(self) -> bool {
        matches!(self, Self::CheckAndSpend | Self::CheckOnly)
    }

    /// Returns whether this member is charged when the batch passes and its cost fits.
    #[must_use]
    pub const fn spends(self) -> bool {
        !matches!(self, Self::CheckOnly | Self::Observe)
    }

    /// Returns the mode that does the same without a vote.
    pub(crate) const fn silent(self) -> Self {
        match self {
            Self::CheckAndSpend => Self::SpendOnly,
            Self::CheckOnly => Self::Observe,
            mode => mode,
        }
    }
}

impl OnFailure {
    /// Returns the stricter of the two: `Refuse` is stricter than `Local`, and `Local` is stricter than `Allow`.
    pub(crate) const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Refuse, _) | (_, Self::Refuse) => Self::Refuse,
            (Self::Local, _) | (_, Self::Local) => Self::Local,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }
}
