use thiserror::Error;

use crate::{
    algorithm::{Algorithm, NotPermitted},
    backend::BackendError,
    clock::InvalidNow,
    id::{Id, IdError, redacted},
    limit::{Limit, Limits, NamedLimit},
    message::debug_is_message,
    spelling::did_you_mean,
    transaction::{BucketKey, LimitRef, Transaction},
};

/// The error for a transaction that was not decided. A denial is not an error, but a [`Decision`](crate::Decision).
/// [`Limiter`](super::Limiter) has an example.
#[derive(Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// No limit has this name.
    #[error("no limit is named `{name}`: {}", hint(.name, .known))]
    UnknownLimit {
        /// The name.
        name: String,
        /// The names that are known, sorted.
        known: Vec<String>,
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
        "cost {cost} is above the {measure} of limit `{limit}`{}, {}, raise the {measure}, or make it a debit",
        overridden(.id), bound(*.burst, *.configured)
    )]
    CostAboveBurst {
        /// The limit.
        limit: String,
        /// The id of the override whose burst this is, or `None` for the default's burst.
        id: Option<String>,
        /// The cost.
        cost: u32,
        /// The limit's burst, or the most that it admits at once. With leases, it is the part that they leave.
        burst: u32,
        /// The same before leases took their part: equal to `burst` without leases.
        configured: u32,
        /// The exceeded measure, in words: `burst`, `units per window`, `quota`.
        measure: &'static str,
    },
    /// A group request for a limit without tiers.
    #[error(
        "limit `{limit}` has no tiers, and only tiers can grant part of a cost: remove the min_cost"
    )]
    NoTiers {
        /// The limit.
        limit: String,
    },
    /// A group request whose minimum is 0, or above its cost.
    #[error(
        "limit `{limit}` cannot grant {least} to {cost}: set min_cost to at least 1 and at most the cost"
    )]
    NoSuchGroup {
        /// The limit.
        limit: String,
        /// The requested cost.
        cost: u32,
        /// The requested minimum.
        least: u32,
    },
    /// A block on a limit that is not a list of blocked clients.
    #[error(
        "limit `{limit}` is not a list of blocked clients: define it with `LimitsBuilder::block`"
    )]
    NotABlock {
        /// The limit.
        limit: String,
    },
    /// An operation that tiers do not support.
    #[error(
        "limit `{limit}` has tiers, which cannot be {verb}: a grant may have entered a tier, which \
         cannot be undone; check first, or give the limit burst, count and period"
    )]
    NotWithTiers {
        /// The limit.
        limit: String,
        /// The operation.
        verb: &'static str,
    },
    /// A debit of permits.
    #[error("limit `{limit}` counts permits, which cannot be debited: spend them")]
    NoDebitOfPermits {
        /// The limit.
        limit: String,
    },
    /// A refund or a renewal of permits without a receipt.
    #[error(
        "limit `{limit}` counts permits, and only a receipt says which of them are meant: use the receipt of the charge"
    )]
    ReceiptRequired {
        /// The limit.
        limit: String,
    },
    /// A renewal on a limit whose charges are not renewed.
    #[error(
        "limit `{limit}` has no permits to renew: only a limit of what runs at once (`concurrent`) has them"
    )]
    NotRenewable {
        /// The limit.
        limit: String,
    },
    /// A debit of a window for which there is no room.
    #[error(
        "the window of limit `{limit}` remembers at most 4096 units, and has no room for a debit of {cost} more units: lower \
         the cost, or use a quota"
    )]
    NoRoomForDebit {
        /// The limit.
        limit: String,
        /// The cost, in units.
        cost: u32,
    },
    /// Two transactions of a batch are for one bucket.
    #[error("the bucket `{key}` appears twice in one batch: add up the costs")]
    DuplicateBucket {
        /// The bucket's key.
        key: String,
    },
    /// A receipt belongs to another bucket, or a text is not a receipt.
    #[error(
        "the receipt does not belong to limit `{limit}` and this id: use the limit and the id that were charged"
    )]
    ForeignReceipt {
        /// The limit.
        limit: String,
    },
    /// The clock shows an instant at which nothing can be decided.
    #[error(transparent)]
    InvalidNow(InvalidNow),
    /// The backend has not decided.
    #[error(transparent)]
    Backend(BackendError),
}

debug_is_message!(LimiterError);

impl LimiterError {
    pub(crate) fn unknown_limit(name: &str, limits: &Limits) -> Self {
        let known = limits.names().into_iter().map(Into::into).collect();
        Self::UnknownLimit {
            name: name.into(),
            known,
        }
    }

    #[cold]
    pub(super) fn invalid_id(limit: &str, source: IdError) -> Self {
        let limit = limit.into();
        Self::InvalidId { limit, source }
    }

    #[cold]
    pub(super) fn foreign_receipt(limit: LimitRef<'_>) -> Self {
        Self::ForeignReceipt {
            limit: limit.as_str().into(),
        }
    }

    #[cold]
    pub(super) fn no_room(transaction: &Transaction<'_>) -> Self {
        Self::NoRoomForDebit {
            limit: transaction.limit.to_string(),
            cost: transaction.cost,
        }
    }

    #[cold]
    pub(super) fn duplicate_bucket(key: BucketKey<'_>, is_secret: bool) -> Self {
        let id = Id::from(key.id).secret_if(is_secret);
        let key = BucketKey::new(key.limit, &id.shown()).to_string();
        Self::DuplicateBucket { key }
    }

    /// Creates the error for what the algorithm of a limit cannot do.
    #[cold]
    pub(super) fn not_permitted(limit: &str, cost: u32, reason: NotPermitted) -> Self {
        match reason {
            NotPermitted::Refund => Self::not_with_tiers(limit, "refunded"),
            NotPermitted::Debit => Self::not_with_tiers(limit, "debited"),
            NotPermitted::Renewal => Self::not_renewable(limit),
            NotPermitted::RefundOfPermits => Self::receipt_required(limit),
            NotPermitted::DebitOfPermits => Self::NoDebitOfPermits {
                limit: limit.into(),
            },
            NotPermitted::Part => Self::NoTiers {
                limit: limit.into(),
            },
            NotPermitted::Minimum(least) => Self::NoSuchGroup {
                limit: limit.into(),
                cost,
                least,
            },
        }
    }

    #[cold]
    pub(super) fn not_renewable(limit: &str) -> Self {
        let limit = limit.into();
        Self::NotRenewable { limit }
    }

    #[cold]
    pub(super) fn receipt_required(limit: &str) -> Self {
        let limit = limit.into();
        Self::ReceiptRequired { limit }
    }

    #[cold]
    pub(crate) fn not_with_tiers(limit: &str, verb: &'static str) -> Self {
        let limit = limit.into();
        Self::NotWithTiers { limit, verb }
    }

    /// Replaces the ids of clients in the error, which are secrets, by hashes.
    #[cold]
    pub(super) fn without_id(self) -> Self {
        match self {
            Self::InvalidId { limit, source } => Self::InvalidId {
                limit,
                source: source.secret_if(true),
            },
            Self::CostAboveBurst {
                limit,
                id,
                cost,
                burst,
                configured,
                measure,
            } => Self::CostAboveBurst {
                id: id.map(|id| redacted(&id).to_string()),
                limit,
                cost,
                burst,
                configured,
                measure,
            },
            other => other,
        }
    }

    /// Creates the error for a cost that is too high for a limit or, with an id, for the limit of its override. `most` is
    /// the highest cost that can pass, which leases can have lowered.
    #[cold]
    pub(super) fn too_costly(
        named: &NamedLimit,
        id: Option<&str>,
        cost: u32,
        limit: &Limit,
        most: u32,
    ) -> Self {
        let algorithm = limit.algorithm();
        Self::CostAboveBurst {
            limit: named.name.to_string(),
            id: id.map(Into::into),
            cost,
            burst: most,
            configured: algorithm.map_or(most, Algorithm::max_cost),
            measure: algorithm.map_or("burst", Algorithm::measure),
        }
    }
}

impl From<BackendError> for LimiterError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::InvalidNow(error) => Self::InvalidNow(error),
            error => Self::Backend(error),
        }
    }
}

/// Writes the bound on a cost, and what to lower.
fn bound(burst: u32, configured: u32) -> String {
    match configured.saturating_sub(burst) {
        0 => format!("{burst}: lower the cost"),
        leased => format!(
            "{burst} (it is {configured}, and leases reserve {leased} of it): lower the cost or the lease"
        ),
    }
}

fn overridden(id: &Option<String>) -> String {
    id.as_ref()
        .map_or_else(String::new, |id| format!(" for `{id}`"))
}

fn hint(name: &str, known: &[String]) -> String {
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    did_you_mean(name, &known)
}
