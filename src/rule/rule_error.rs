use thiserror::Error;

use crate::{
    check::Finding, id::IdFormat, limit::LimitsError, limiter::LimiterError,
    message::debug_is_message, transaction::Mode,
};

/// The error for a rule that does not fit the limits or the other rules of its layer. Returned by
/// [`RateLimitLayer::try_rule`](crate::RateLimitLayer::try_rule) and
/// [`try_limit`](crate::RateLimitLayer::try_limit).
#[derive(Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The limit is unknown, or the cost is above its burst.
    #[error(transparent)]
    Limiter(LimiterError),
    /// A limit of the layer itself is not valid, or has the name of another one.
    #[error(transparent)]
    Limits(LimitsError),
    /// The layer has no limits of its own to add one to.
    #[error(
        "`limit` is for layers of `RateLimitLayer::new`, before `shared`: otherwise, add the limit to the limiter's \
         `Limits`, and a `rule` to the layer"
    )]
    NotOwnLimits,
    /// The extractor cannot produce ids in the limit's format.
    #[error(
        "limit `{limit}` has ids in the format {format}, which the rule's extractor cannot produce: use \
         another extractor, or give the limit another format"
    )]
    Format {
        /// The limit.
        limit: String,
        /// The format of its ids.
        format: IdFormat,
    },
    /// The costs of all rules of one limit add up to more than its burst.
    #[error("rules of one limit can meet in one bucket, where their costs add up: {0}")]
    Sum(LimiterError),
    /// A [check](crate::check) has found a mistake, and the checks are strict.
    #[error(transparent)]
    Check(Finding),
    /// A limit has several rules, and at least one of them charges by outcome.
    #[error(
        "limit `{limit}` has several rules, and one of them charges by outcome, so their costs cannot be \
         added up: use one rule, or two limits"
    )]
    MixedCharging {
        /// The limit.
        limit: String,
    },
    /// A rule of a list of blocked clients has a cost, a mode or limits of its own, or charges by outcome.
    #[error(
        "limit `{limit}` is a list of blocked clients, which a rule only looks at: give it a rule of its own, without a cost, \
         a mode or a charge by outcome"
    )]
    Block {
        /// The limit.
        limit: String,
    },
    /// Two rules of one limit have different modes, so their charges cannot be added up.
    #[error(
        "two rules of limit `{limit}` have the modes {modes:?}: give them one mode, or use two limits"
    )]
    MixedModes {
        /// The limit.
        limit: String,
        /// The modes.
        modes: [Mode; 2],
    },
}

debug_is_message!(RuleError);
