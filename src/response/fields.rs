//! The `RateLimit` and `RateLimit-Policy` fields.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::ceil_secs;
use crate::{decision::Decision, transaction::Algorithm};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Both fields, for the limits that one layer has decided.
#[derive(Debug)]
pub(crate) struct Fields {
    policy: HeaderValue,
    state: HeaderValue,
}

impl Fields {
    /// Writes the fields for limits with their decisions, or `None` if there is nothing to say.
    pub(crate) fn new<'a>(
        decisions: impl Iterator<Item = (&'a str, &'a Decision)> + Clone,
    ) -> Option<Self> {
        let denied = decisions.clone().any(|(_, decision)| !decision.allowed());
        let (mut policy, mut state) = (List::new(), List::new());
        for (limit, decision) in decisions {
            let Some((quota, window)) = decision.algorithm().map(quota) else {
                continue;
            };
            policy.item(limit, &[(";q=", quota), (";w=", window)]);
            if decision.allowed() && denied {
                continue;
            }
            let remaining = decision.remaining().map_or(0, u64::from);
            match decision.next_token_after() {
                Some(wait) => state.item(limit, &[(";r=", remaining), (";t=", ceil_secs(wait))]),
                None => state.item(limit, &[(";r=", remaining)]),
            }
        }
        Some(Self {
            policy: policy.finish()?,
            state: state.finish()?,
        })
    }

    /// Adds the fields to those of inner layers.
    pub(crate) fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATELIMIT_POLICY, self.policy);
        headers.append(RATELIMIT, self.state);
    }
}

/// How much passes at once, and the seconds in which an empty bucket fills.
fn quota(algorithm: &Algorithm) -> (u64, u64) {
    let Algorithm::Gcra(gcra) = algorithm;
    (
        gcra.burst().into(),
        ceil_secs(gcra.tolerance().ceil()).max(1),
    )
}

/// A list of structured field items (RFC 9651): strings with integer parameters.
struct List(String);

impl List {
    fn new() -> Self {
        Self(String::with_capacity(64))
    }

    /// Limit names need no escaping.
    fn item(&mut self, name: &str, parameters: &[(&str, u64)]) {
        self.0
            .push_str(if self.0.is_empty() { "\"" } else { ", \"" });
        self.0.push_str(name);
        self.0.push('"');
        for (key, value) in parameters {
            self.0.push_str(key);
            self.0.push_str(itoa::Buffer::new().format(*value));
        }
    }

    fn finish(self) -> Option<HeaderValue> {
        let value = HeaderValue::from_str(&self.0).expect("limit names are ASCII");
        (!value.is_empty()).then_some(value)
    }
}
