/// The result of a transaction, in the words of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultLabel {
    /// Charged, or checked and found to fit.
    Acquired,
    /// Denied, so that the batch is denied.
    Rejected,
    /// It would have been denied without shadow mode.
    ShadowRejected,
    /// Denied because the client is blocked.
    Blocked,
    /// Denied by a cache, without the store.
    CacheRejected,
    /// Charged in this process, because the store did not answer.
    FallbackAcquired,
    /// Denied in this process, because the store did not answer.
    FallbackRejected,
    /// It would have passed, but another member of its batch was denied.
    Withheld,
    /// It has no vote, and did not fit.
    Skipped,
    /// It was not decided.
    Error,
}

impl ResultLabel {
    /// All results, in order.
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 10] = [
        Self::Acquired,
        Self::Rejected,
        Self::ShadowRejected,
        Self::Blocked,
        Self::CacheRejected,
        Self::FallbackAcquired,
        Self::FallbackRejected,
        Self::Withheld,
        Self::Skipped,
        Self::Error,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Rejected => "rejected",
            Self::ShadowRejected => "shadow_rejected",
            Self::Blocked => "blocked",
            Self::CacheRejected => "cache_rejected",
            Self::FallbackAcquired => "fallback_acquired",
            Self::FallbackRejected => "fallback_rejected",
            Self::Withheld => "withheld",
            Self::Skipped => "skipped",
            Self::Error => "error",
        }
    }
}
