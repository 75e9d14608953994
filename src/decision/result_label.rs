use super::{
    decision::{Decision, Verdict},
    outcome::Source,
};
use crate::transaction::Mode;

/// The result of a transaction, in the words of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultLabel {
    /// Charged, or checked and found to fit.
    Acquired,
    /// Denied, and with it the batch.
    Rejected,
    /// It would have been denied without shadow mode.
    ShadowRejected,
    /// Denied because the client is blocked.
    Blocked,
    /// Denied without asking the store.
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

    /// Returns the result of a member of a batch; `None` if it is not limited.
    pub(crate) fn of(decision: &Decision, mode: Mode, passes: bool) -> Option<Self> {
        if !decision.limited() {
            return None;
        }
        Some(match (decision.verdict(), decision.source()) {
            (Verdict::WouldDeny, _) => Self::ShadowRejected,
            (Verdict::Denied, _) if !passes && (decision.in_shadow() || !mode.votes()) => {
                Self::Withheld
            }
            (Verdict::Denied, _) if !mode.votes() => Self::Skipped,
            (Verdict::Denied, _) if decision.blocked() => Self::Blocked,
            (Verdict::Denied, Source::Store | Source::Lease) => Self::Rejected,
            (Verdict::Denied, Source::Cache) => Self::CacheRejected,
            (Verdict::Denied, Source::Local) => Self::FallbackRejected,
            _ if !passes => Self::Withheld,
            (_, Source::Local) => Self::FallbackAcquired,
            _ => Self::Acquired,
        })
    }

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
