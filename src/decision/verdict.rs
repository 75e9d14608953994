use crate::algorithm::Action;

/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Denied,
    Refunded,
    NotRefunded,
    Renewed,
    NotRenewed,
    /// Would be denied without shadow mode.
    WouldDeny,
}

impl Verdict {
    #[inline(always)]
    pub(super) fn of(action: Action, passed: bool, shadow: bool) -> Self {
        match (action, passed) {
            (Action::Refund | Action::Keep, true) => Self::Refunded,
            (Action::Refund | Action::Keep, false) => Self::NotRefunded,
            (Action::Renew, true) => Self::Renewed,
            (Action::Renew, false) => Self::NotRenewed,
            (_, true) => Self::Allowed,
            (_, false) if shadow => Self::WouldDeny,
            (_, false) => Self::Denied,
        }
    }
}
