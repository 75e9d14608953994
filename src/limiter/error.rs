use thiserror::Error;

use crate::{
    algorithm::AskError,
    backend::BackendError,
    batch::Member,
    id::IdError,
    limit::Limits,
    message::{debug_is_message, did_you_mean},
    transaction::BucketKey,
};

/// The error for a transaction that was not decided. A denial is not an error, but a [`Decision`](crate::Decision).
/// [`Limiter`](super::Limiter) has an example.
#[derive(Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// No limit has this name.
    #[error("no limit is named `{name}`: {hint}")]
    UnknownLimit {
        /// The name.
        name: String,
        /// A similar name, or all names that are known.
        hint: String,
    },
    /// The id is not in the limit's format.
    #[error("limit `{limit}`: {source}")]
    InvalidId {
        /// The limit.
        limit: String,
        /// The mistake in the id.
        source: IdError,
    },
    /// The cost could never pass.
    #[error(
        "cost {cost} is above the most that limit `{limit}` ever admits at once, {burst}: lower the cost, raise the limit, or make it a debit"
    )]
    CostAboveBurst {
        /// The limit.
        limit: String,
        /// The cost.
        cost: u32,
        /// The most that can pass at once: the burst of a token bucket. With leases, it is the part of the burst that they leave.
        burst: u32,
    },
    /// The limit cannot grant this cost in this way.
    #[error("limit `{limit}`: {reason}")]
    InvalidCost {
        /// The limit.
        limit: String,
        /// The reason, and what to change.
        reason: String,
    },
    /// The limit does not support the operation.
    #[error("limit `{limit}`: {reason}")]
    Unsupported {
        /// The limit.
        limit: String,
        /// The reason, and what to change.
        reason: String,
    },
    /// A receipt belongs to another bucket, or is missing where one is needed.
    #[error("limit `{limit}`: {reason}")]
    InvalidReceipt {
        /// The limit.
        limit: String,
        /// The reason, and what to change.
        reason: &'static str,
    },
    /// Two transactions of a batch are for one bucket.
    #[error("the bucket `{key}` appears twice in one batch: add up the costs")]
    DuplicateBucket {
        /// The bucket's key.
        key: String,
    },
    /// The backend has not decided.
    #[error(transparent)]
    Backend(BackendError),
}

debug_is_message!(LimiterError);

impl LimiterError {
    #[cold]
    pub(crate) fn unknown_limit(name: &str, limits: &Limits) -> Self {
        Self::UnknownLimit {
            name: name.to_owned(),
            hint: did_you_mean(name, &limits.names()),
        }
    }

    #[cold]
    pub(crate) fn unsupported(limit: &str, reason: impl Into<String>) -> Self {
        Self::Unsupported {
            limit: limit.to_owned(),
            reason: reason.into(),
        }
    }

    #[cold]
    pub(super) fn foreign_receipt(limit: &str) -> Self {
        Self::InvalidReceipt {
            limit: limit.to_owned(),
            reason: "the receipt belongs to another limit or another id: use those that were charged",
        }
    }

    #[cold]
    pub(super) fn duplicate_bucket(member: &Member<'_>) -> Self {
        let id = member.logged_id();
        let key = BucketKey {
            id: &id.shown(),
            ..member.key()
        };
        Self::DuplicateBucket {
            key: key.to_string(),
        }
    }

    /// Creates the error for a question that the algorithm of a limit cannot answer.
    #[cold]
    pub(super) fn not_accepted(limit: &str, cost: u32, error: AskError) -> Self {
        let limit = limit.to_owned();
        match error {
            AskError::TooCostly(burst) => Self::CostAboveBurst { limit, cost, burst },
            AskError::Part | AskError::Minimum(_) => Self::InvalidCost {
                limit,
                reason: error.to_string(),
            },
            AskError::RefundOfPermits => Self::InvalidReceipt {
                limit,
                reason: "it counts permits, and only a receipt says which of them are meant: use the receipt of the charge",
            },
            _ => Self::unsupported(&limit, error.to_string()),
        }
    }

    /// Creates the error for a batch that the backend has not decided.
    #[cold]
    pub(super) fn not_decided(error: BackendError, members: &[Member<'_>]) -> Self {
        let (index, most) = match error {
            BackendError::NoRoom { member } => (member, None),
            BackendError::TooCostly { member, most } => (member, Some(most)),
            error => return Self::Backend(error),
        };
        let mut asked = members.iter().filter(|member| member.has_bucket());
        let Some(member) = asked.nth(index) else {
            return Self::Backend(error);
        };
        let limit = member.limit.name().to_owned();
        match most {
            Some(burst) => Self::CostAboveBurst {
                limit,
                cost: member.ask.cost,
                burst,
            },
            None => Self::InvalidCost {
                limit,
                reason: error.to_string(),
            },
        }
    }
}
