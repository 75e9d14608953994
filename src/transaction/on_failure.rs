/// The policy for a limit's requests while its store does not answer. It requires a
/// [`FailurePolicy`](crate::backend::FailurePolicy). The guide to [rules](crate::guide::rules) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// This process decides, by the charges that it has seen.
    #[default]
    Local,
    /// Requests pass, as if the limit were off.
    Allow,
    /// Requests are refused: 503, or `UNAVAILABLE` over gRPC.
    Refuse,
}

impl OnFailure {
    /// Returns the stricter of the two: `Refuse` is stricter than `Local`, and `Local` is stricter than `Allow`.
    #[must_use]
    pub const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Refuse, _) | (_, Self::Refuse) => Self::Refuse,
            (Self::Local, _) | (_, Self::Local) => Self::Local,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }
}
