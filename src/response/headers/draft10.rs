//! `RateLimit` and `RateLimit-Policy`.

use std::sync::OnceLock;

use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::Shown;
use crate::{
    decision::{Decision, Quota},
    response::ceil_secs,
    transaction::Algorithm,
};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const NAMES: [HeaderName; 2] = [RATELIMIT, RATELIMIT_POLICY];

/// Both fields, for the limits that one layer has decided.
#[derive(Debug)]
pub(crate) struct Draft10 {
    policy: HeaderValue,
    state: HeaderValue,
}

impl Draft10 {
    /// Writes the fields for limits with their decisions, or `None` if there is nothing to say.
    #[inline]
    pub(super) fn new<'a>(decisions: impl Iterator<Item = Shown<'a>> + Clone) -> Option<Self> {
        let denied = decisions.clone().any(|shown| shown.denies());
        let (mut policy, mut state) = (None, List::default());
        for shown in decisions {
            let Shown {
                limit,
                decision,
                policy: known,
                ..
            } = shown;
            let Some(quota) = decision.quota() else {
                continue;
            };
            let item = known.value(limit, &quota);
            policy = Some(match policy {
                Some(items) => join(&items, &item),
                None => item,
            });
            if denied && !shown.denies() {
                continue;
            }
            state.name(limit);
            state.parameter(b";r=", quota.remaining.into());
            if let Some(wait) = quota.next.filter(|wait| *wait != Decision::NEVER) {
                state.parameter(b";t=", ceil_secs(wait));
            }
        }
        Some(Self {
            policy: policy?,
            state: state.finish(),
        })
    }

    /// Adds the fields to those of inner layers.
    pub(super) fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATELIMIT_POLICY, self.policy);
        headers.append(RATELIMIT, self.state);
    }
}

/// A limit's item of `RateLimit-Policy`, which is the same for all clients without an override, as long as they are in
/// the lowest tier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy(OnceLock<(Algorithm, HeaderValue)>);

impl Policy {
    #[inline]
    fn value(&self, limit: &str, quota: &Quota<'_>) -> HeaderValue {
        let Some(algorithm) = quota.algorithm().filter(|_| quota.tier == 0) else {
            return policy(limit, quota);
        };
        let (cached, value) = self.0.get_or_init(|| (algorithm, policy(limit, quota)));
        if quota.is_by(cached) {
            value.clone()
        } else {
            policy(limit, quota)
        }
    }
}

/// How much passes at once, and the seconds in which an empty bucket fills; of the tier in force, if there are tiers.
fn policy(limit: &str, quota: &Quota<'_>) -> HeaderValue {
    let (most, window) = quota.allowance();
    let mut list = List::default();
    list.name(limit);
    list.parameter(b";q=", most.into());
    if window != Decision::NEVER {
        list.parameter(b";w=", ceil_secs(window).max(1));
    }
    list.finish()
}

fn join(items: &HeaderValue, item: &HeaderValue) -> HeaderValue {
    let joined = [items.as_bytes(), item.as_bytes()].join(&b", "[..]);
    HeaderValue::try_from(joined).expect("both were header values")
}

/// A list of structured field items (RFC 9651): strings with integer parameters.
#[derive(Default)]
struct List(SmallVec<[u8; 128]>);

impl List {
    /// Begins an item. Limit names need no escaping.
    fn name(&mut self, name: &str) {
        self.0
            .extend_from_slice(if self.0.is_empty() { b"\"" } else { b", \"" });
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'"');
    }

    fn parameter(&mut self, key: &[u8; 3], value: u64) {
        self.0.extend_from_slice(key);
        self.0
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn finish(self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).expect("limit names are ASCII")
    }
}
