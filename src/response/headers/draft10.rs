//! `RateLimit` and `RateLimit-Policy`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{policy::item, shown::Shown};
use crate::{decision::Decision, response::seconds::ceil_secs};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const NAMES: [HeaderName; 2] = [RATELIMIT, RATELIMIT_POLICY];

/// Both fields, for the limits of one layer.
#[derive(Debug)]
pub(crate) struct Draft10 {
    policy: HeaderValue,
    state: HeaderValue,
}

impl Draft10 {
    /// Writes the fields for limits and their decisions, or returns `None` if there is nothing to show.
    #[inline]
    pub(super) fn new<'a>(decisions: impl Iterator<Item = Shown<'a>> + Clone) -> Option<Self> {
        let denied = decisions.clone().any(|shown| shown.denies());
        let (mut policy, mut state) = (None, None);
        for shown in decisions {
            let Some(quota) = shown.decision.quota() else {
                continue;
            };
            policy = Some(joined(policy, shown.policy.item(shown.limit, &quota)));
            if !denied || shown.denies() {
                let wait = quota.next.filter(|wait| *wait != Decision::NEVER);
                let parameters = [
                    ("\";r=", Some(quota.remaining.into())),
                    (";t=", wait.map(ceil_secs)),
                ];
                state = Some(joined(state, item(shown.limit, parameters)));
            }
        }
        let (policy, state) = policy.zip(state)?;
        Some(Self { policy, state })
    }

    /// Adds the fields to those of inner layers.
    pub(super) fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATELIMIT_POLICY, self.policy);
        headers.append(RATELIMIT, self.state);
    }
}

fn joined(items: Option<HeaderValue>, item: HeaderValue) -> HeaderValue {
    let Some(items) = items else {
        return item;
    };
    let joined = [items.as_bytes(), item.as_bytes()].join(&b", "[..]);
    HeaderValue::try_from(joined).expect("both were header values")
}
