//! `RateLimit` and `RateLimit-Policy`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    exact,
    policy::{item, item_with},
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
        let (mut policy, mut state) = (None, None);
        for shown in decisions {
            let Some(quota) = shown.decision.figures() else {
                continue;
            };
            add(&mut policy, shown.policy.item(shown.limit, &quota));
            if !denied || shown.denies() {
                let wait = quota.next.filter(|wait| *wait != Decision::NEVER);
                let remaining = ("\";r=", quota.remaining);
                let seconds = (";t=", wait.map(ceil_secs));
                let item = match EXACT {
                    true => {
                        let us = wait.and_then(exact::wait_us);
                        item_with(shown.limit, remaining, seconds, (exact::WAIT, us))
                    }
                    false => item(shown.limit, remaining, seconds),
                };
                add(&mut state, item);
            }
        }
        let (policy, state) = policy.zip(state)?;
        Some(Self { policy, state })
    }

    /// Adds the fields to those of inner layers.
    #[inline]
    pub(super) fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATELIMIT_POLICY, self.policy);
        headers.append(RATELIMIT, self.state);
    }
}

/// Adds an item to those of a list.
#[inline]
fn add(items: &mut Option<HeaderValue>, item: HeaderValue) {
    *items = Some(match items {
        None => item,
        Some(items) => joined(items, &item),
    });
}

#[cold]
fn joined(items: &HeaderValue, item: &HeaderValue) -> HeaderValue {
    let joined = [items.as_bytes(), item.as_bytes()].join(&b", "[..]);
    HeaderValue::try_from(joined).expect("both were header values")
}
