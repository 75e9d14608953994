//! `RateLimit` and `RateLimit-Policy`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    exact::add_wait,
    policy::{PolicyList, SEPARATOR},
    shown::Shown,
};
use crate::response::text::{ResponseText, value};

pub(in crate::response) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(in crate::response) const RATELIMIT_POLICY: HeaderName =
    HeaderName::from_static("ratelimit-policy");
pub(super) const NAMES: [HeaderName; 2] = [RATELIMIT, RATELIMIT_POLICY];

/// Both fields, for the limits of one layer.
#[derive(Debug)]
pub(crate) struct Draft11 {
    pub(in crate::response) policy: HeaderValue,
    pub(in crate::response) state: HeaderValue,
}

impl Draft11 {
    /// Writes the fields for limits and their decisions, or returns `None` if there is nothing to show. `exact` adds the
    /// parameters of our own.
    #[inline]
    pub(super) fn new<'a>(
        decisions: impl Iterator<Item = Shown<'a>>,
        denied: bool,
        exact: bool,
    ) -> Option<Self> {
        let mut policies = PolicyList::default();
        let mut state = ResponseText::default();
        for shown in decisions {
            let policy = shown.policy;
            let Some(figures) = shown.decision.figures() else {
                continue;
            };
            let Some((item, lead)) = policy.item(&figures, exact).zip(policy.state()) else {
                continue;
            };
            policies.add(policy, item);
            if denied && !shown.denies() {
                continue;
            }
            state.parameter(lead, figures.remaining);
            if let Some(us) = figures.next_us {
                state.parameter(";t=", us.div_ceil(1_000_000));
                if exact {
                    add_wait(&mut state, us);
                }
            }
        }
        let state = state.as_bytes().get(SEPARATOR.len()..)?;
        Some(Self {
            policy: policies.joined()?,
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
