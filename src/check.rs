//! Checks: mistakes in the use of a limiter that only show while requests run.
//!
//! tollgate looks for each of them by default, and logs it once, as a warning with a code and a remedy. Responses do
//! not change. The first 10,000 requests are examined; after that, the checks cost nothing.
//!
//! | code | meaning |
//! |---|---|
//! | `forwarding-header-ignored` | a proxy header is sent, but the peer's address is the id: all clients of a proxy share one bucket |
//! | `one-id` | a thousand requests of many different user agents have the same id |
//! | `id-per-request` | five to ten thousand requests have no id twice: a client that can choose its id is not limited |
//! | `charged-twice` | one request was charged twice in one bucket, because two layers have the same rule |
//! | `layer-rebuilt` | a hundred limiters in a row were dropped after one request: each starts with full buckets |
//! | `everyone-trusted` | proxy headers are trusted from any peer |
//! | `rule-unmet` | none of ten thousand requests matched a rule: its `paths` or another predicate never held |
//! | `preflight-refused` | a CORS preflight request was refused, at any time: browsers report it as an error of CORS |
//! | `buckets-evicted` | the Redis server may evict buckets when its memory is full |
//! | `clock-skew` | the clocks of this machine and of the Redis server are seconds apart |
//!
//! [`Checks`] turns some of them off, or turns those that are known at startup into errors:
//!
//! ```
//! use tollgate::check::{Check, Checks};
//!
//! let checks = Checks::new().without(Check::OneId).strict();
//! // By its code, as in a configuration file.
//! let checks = checks.without("id-per-request".parse()?);
//! # let _ = checks;
//! # Ok::<_, tollgate::check::UnknownCheck>(())
//! ```
//!
//! Pass them to [`RateLimitLayer::checks`](crate::RateLimitLayer::checks) or `RedisBackendBuilder::checks`.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU16, Ordering},
};

use thiserror::Error;

use crate::message::debug_is_message;

/// A mistake that tollgate looks for. The [module docs](self) describe each, with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Check {
    /// A proxy header is sent, while the peer's address is the id.
    ForwardingHeaderIgnored,
    /// One id for requests of many different user agents.
    OneId,
    /// As many ids as requests.
    IdPerRequest,
    /// One request charged twice in one bucket.
    ChargedTwice,
    /// A rule whose predicates exclude all requests.
    RuleUnmet,
    /// A refused preflight request.
    PreflightRefused,
    /// Layers that are rebuilt for each request.
    LayerRebuilt,
    /// Proxy headers that are trusted from any peer.
    EveryoneTrusted,
    /// A Redis server that may evict buckets.
    BucketsEvicted,
    /// Clocks that differ.
    ClockSkew,
}

impl Check {
    /// All checks.
    pub const ALL: &'static [Self] = &[
        Self::ForwardingHeaderIgnored,
        Self::OneId,
        Self::IdPerRequest,
        Self::ChargedTwice,
        Self::RuleUnmet,
        Self::PreflightRefused,
        Self::LayerRebuilt,
        Self::EveryoneTrusted,
        Self::BucketsEvicted,
        Self::ClockSkew,
    ];

    /// The code of the check. It never changes.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::ForwardingHeaderIgnored => "forwarding-header-ignored",
            Self::OneId => "one-id",
            Self::IdPerRequest => "id-per-request",
            Self::ChargedTwice => "charged-twice",
            Self::RuleUnmet => "rule-unmet",
            Self::PreflightRefused => "preflight-refused",
            Self::LayerRebuilt => "layer-rebuilt",
            Self::EveryoneTrusted => "everyone-trusted",
            Self::BucketsEvicted => "buckets-evicted",
            Self::ClockSkew => "clock-skew",
        }
    }

    /// Returns the remedy.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::ForwardingHeaderIgnored => {
                "behind a proxy, use `ClientIp::behind(Proxies::trusted(..))`; if there is none, remove clients' \
                 headers, or turn this check off"
            }
            Self::OneId => {
                "behind a proxy, use `ClientIp::behind(..)`; if all clients should share a bucket, use `key::Everyone`"
            }
            Self::IdPerRequest => {
                "use an id that a client cannot change with each request, such as an account that is \
                 authenticated, or `ClientIp`"
            }
            Self::ChargedTwice => "add the layer, or the rule, in one place only",
            Self::RuleUnmet => {
                "write paths as the layer sees them, which is without the prefix inside `nest`, or remove the rule"
            }
            Self::PreflightRefused => {
                "put the CORS layer outside of this one, so that it answers preflight requests: in axum, add it after this one"
            }
            Self::LayerRebuilt => {
                "build the `Limiter` and its layer once, at startup, and clone them where needed"
            }
            Self::EveryoneTrusted => {
                "use `Proxies::trusted` or `Proxies::hops`, so that clients cannot choose their address"
            }
            Self::BucketsEvicted => {
                "set `maxmemory-policy noeviction` on the server, or use a separate server for buckets"
            }
            Self::ClockSkew => "synchronize the clocks of both machines with NTP",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code().fmt(f)
    }
}

impl FromStr for Check {
    type Err = UnknownCheck;

    fn from_str(code: &str) -> Result<Self, UnknownCheck> {
        let known = Self::ALL.iter().find(|check| check.code() == code);
        known
            .copied()
            .ok_or_else(|| UnknownCheck(crate::id::shortened(code)))
    }
}

/// The error for an unknown code. The [module docs](self) have an example.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not the code of a check: use one of {codes}", codes = codes())]
pub struct UnknownCheck(String);

fn codes() -> String {
    let codes: Vec<_> = Check::ALL.iter().map(|check| check.code()).collect();
    codes.join(", ")
}

/// Which mistakes tollgate looks for, and whether they are errors. The [module docs](self) have an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "they do nothing until a layer or a backend has them"]
pub struct Checks {
    off: u16,
    strict: bool,
}

impl Checks {
    /// All checks, which warn.
    pub const fn new() -> Self {
        Self {
            off: 0,
            strict: false,
        }
    }

    /// No checks.
    pub const fn none() -> Self {
        Self {
            off: u16::MAX,
            strict: false,
        }
    }

    /// Switches one off.
    pub const fn without(mut self, check: Check) -> Self {
        self.off |= check.bit();
        self
    }

    /// Turns mistakes that are known at startup into errors: `everyone-trusted` when a rule is added, and
    /// `buckets-evicted` and `clock-skew` when the connection of a backend is awaited.
    pub const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Returns whether tollgate looks for a mistake.
    #[must_use]
    pub const fn has(&self, check: Check) -> bool {
        self.off & check.bit() == 0
    }

    pub(crate) const fn is_strict(&self) -> bool {
        self.strict
    }
}

/// A mistake that was found: the check, and the details. With strict checks,
/// [`RateLimitLayer::try_rule`](crate::RateLimitLayer::try_rule) returns one.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{check}: {seen}: {}", .check.advice())]
#[non_exhaustive]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// The observation.
    pub seen: String,
}

debug_is_message!(UnknownCheck, Finding);

impl Finding {
    pub(crate) fn new(check: Check, seen: impl Into<String>) -> Self {
        let seen = seen.into();
        Self { check, seen }
    }
}

/// Reports each finding once.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    checks: Checks,
    told: AtomicU16,
}

impl Reporter {
    pub(crate) fn new(checks: Checks) -> Self {
        Self {
            checks,
            told: AtomicU16::new(0),
        }
    }

    pub(crate) fn checks(&self) -> Checks {
        self.checks
    }

    /// Returns whether a mistake is still looked for.
    #[inline]
    pub(crate) fn wants(&self, check: Check) -> bool {
        self.checks.has(check) && self.told.load(Ordering::Relaxed) & check.bit() == 0
    }

    #[cold]
    pub(crate) fn report(&self, finding: &Finding) {
        let Finding { check, seen } = finding;
        let before = self.told.fetch_or(check.bit(), Ordering::Relaxed);
        if self.checks.has(*check) && before & check.bit() == 0 {
            tracing::warn!(check = check.code(), seen, "{}", check.advice());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_they_are_written() {
        for check in Check::ALL {
            assert_eq!(check.code().parse(), Ok(*check));
            assert!(!Checks::new().without(*check).has(*check));
            assert!(Checks::new().has(*check) && !Checks::none().has(*check));
        }
        let error = "one_id".parse::<Check>().unwrap_err().to_string();
        assert!(
            error.contains("`one_id`") && error.contains("one-id, "),
            "{error}"
        );
    }
}
