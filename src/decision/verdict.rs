/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Denied,
    Refunded,
    NotRefunded,
    /// Would be denied without shadow mode.
    WouldDeny,
}

impl Verdict {
    #[inline(always)]
    pub(super) fn of(refunds: bool, passed: bool, shadow: bool) -> Self {
        match (refunds, passed) {
            (true, true) => Self::Refunded,
            (true, false) => Self::NotRefunded,
            (_, true) => Self::Allowed,
            (_, false) if shadow => Self::WouldDeny,
            (_, false) => Self::Denied,
        }
    }
}
