//! `RateLimit` and `RateLimit-Policy`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    exact,
    item::{add_item, add_item_with, value},
    policy::PolicyList,
    shown::Shown,
};
use crate::decision::{Decision, ceil_secs};

pub(in crate::response) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(in crate::response) const RATELIMIT_POLICY: HeaderName =
    HeaderName::from_static("ratelimit-policy");
pub(super) const NAMES: [HeaderName; 2] = [RATELIMIT, RATELIMIT_POLICY];

/// Both fields, for the limits of one layer.
#[derive(Debug)]
pub(crate) struct Draft10 {
    pub(in crate::response) policy: HeaderValue,
    pub(in crate::response) state: HeaderValue,
}

impl Draft10 {
    /// Writes the fields for limits and their decisions, or returns `None` if there is nothing to show.
    #[inline]
    pub(super) fn new<'a, const EXACT: bool>(
        decisions: impl Iterator<Item = Shown<'a>>,
        denied: bool,
    ) -> Option<Self> {
        let mut policies = PolicyList::default();
        let mut state = Vec::new();
        for shown in decisions {
            let Some(quota) = shown.decision.figures() else {
                continue;
            };
            policies.add(shown.limit, shown.policy, &quota);
            if !denied || shown.denies() {
                let wait = quota.next.filter(|wait| *wait != Decision::NEVER);
                let remaining = ("\";r=", quota.remaining);
                let seconds = (";t=", wait.map(ceil_secs));
                match EXACT {
                    true => {
                        let us = wait.and_then(exact::wait_us);
                        add_item_with(
                            &mut state,
                            shown.limit,
                            remaining,
                            seconds,
                            (exact::WAIT, us),
                        );
                    }
                    false => add_item(&mut state, shown.limit, remaining, seconds),
                }
            }
        }
        let policy = policies.joined()?;
        let state = Some(state).filter(|state| !state.is_empty())?;
        Some(Self {
            policy,
            state: value(state),
        })
    }

    /// Adds the fields to those of inner layers.
    #[inline]
    pub(super) fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATELIMIT_POLICY, self.policy);
        headers.append(RATELIMIT, self.state);
    }
}
