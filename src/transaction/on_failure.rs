/// What is decided of a limit while the store that keeps its buckets does not answer.
///
/// A [`FailurePolicy`](crate::backend::FailurePolicy) does so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// What this process alone can tell, from what it has seen.
    #[default]
    Local,
    /// It is as if the limit were off.
    Allow,
    /// An error: 503, or `UNAVAILABLE` over gRPC.
    Refuse,
}

impl OnFailure {
    /// The one of the two that lets fewer requests pass: to refuse is stricter than to decide locally, and that is
    /// stricter than to allow.
    #[must_use]
    pub const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Refuse, _) | (_, Self::Refuse) => Self::Refuse,
            (Self::Local, _) | (_, Self::Local) => Self::Local,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }
}
