//! From limit names and ids to a batch's members, and from a backend's answers to decisions.

use std::{collections::HashSet, iter};

use ahash::RandomState;
use smallvec::SmallVec;
use thiserror::Error;

use crate::{
    backend::BackendError,
    clock::{InvalidNow, Timestamp},
    decision::{BatchDecision, Decision, Outcome},
    id::{Id, IdError},
    limit::{Limit, Limits, NamedLimit},
    transaction::{Algorithm, Batch, BucketKey, Member, Mode, Operation, Transaction},
};

/// A batch's transactions, looked up.
pub(super) struct Resolved<'a> {
    members: SmallVec<[Member<'a>; 4]>,
    places: SmallVec<[Place; 8]>,
}

/// What a transaction has come to.
#[derive(Clone, Copy)]
enum Place {
    /// The next member.
    Member { votes: bool },
    /// No limit is configured.
    Off,
    /// It cannot pass, whatever is stored.
    Refused { votes: bool, shadow: bool },
}

/// A transaction, looked up.
pub(super) enum Found<'a> {
    Member(Member<'a>),
    Off,
    Refused { shadow: bool },
}

/// Room for the ids of a batch that are not as they were written.
pub(super) type Rooms = SmallVec<[Option<Id>; 4]>;

impl<'a> Resolved<'a> {
    pub(super) fn new(
        limits: &'a Limits,
        operation: Operation,
        transactions: &[Transaction<'a>],
        rooms: &'a mut Rooms,
    ) -> Result<Self, LimiterError> {
        let mut resolved = Self {
            members: SmallVec::new(),
            places: SmallVec::new(),
        };
        rooms.resize_with(transactions.len(), || None);
        for (transaction, room) in transactions.iter().zip(rooms) {
            let votes = transaction.mode.votes();
            let place = match look_up(limits, operation, transaction, room)? {
                Found::Off => Place::Off,
                Found::Refused { shadow } => Place::Refused {
                    votes: votes && !shadow,
                    shadow,
                },
                Found::Member(member) => {
                    let votes = member.mode.votes();
                    resolved.members.push(member);
                    Place::Member { votes }
                }
            };
            resolved.places.push(place);
        }
        match duplicate(&resolved.members) {
            Some(key) => Err(LimiterError::DuplicateBucket {
                key: key.to_string(),
            }),
            None => Ok(resolved),
        }
    }

    pub(super) fn batch(&self, operation: Operation, now: Option<Timestamp>) -> Batch<'_> {
        Batch::new(operation, &self.members).at(now)
    }

    /// The decision, if it takes no backend: nobody is limited, or somebody is blocked.
    pub(super) fn at_once(&self, operation: Operation) -> Option<BatchDecision> {
        let asks = matches!(operation, Operation::Check | Operation::Spend);
        let refuses = |place: &Place| matches!(place, Place::Refused { votes: true, .. });
        let is_refused = asks && self.places.iter().any(refuses);
        (is_refused || self.members.is_empty()).then(|| self.decide(operation, iter::empty()))
    }

    pub(super) fn conclude(
        &self,
        batch: &Batch<'_>,
        outcome: &Outcome,
    ) -> Result<BatchDecision, LimiterError> {
        ensure_complete(batch, outcome)?;
        Ok(self.decide(batch.operation, outcome.decisions(batch)))
    }

    fn decide(
        &self,
        operation: Operation,
        mut members: impl Iterator<Item = Decision>,
    ) -> BatchDecision {
        BatchDecision::new(self.places.iter().map(|place| match *place {
            Place::Member { votes } => match members.next() {
                Some(decision) => (decision, votes),
                None => (Decision::NOT_LIMITED, false),
            },
            Place::Off => (Decision::NOT_LIMITED, false),
            Place::Refused { votes, shadow } => (Decision::refused(operation, shadow), votes),
        }))
    }
}

/// Looks one transaction's limit up. There is `room` for its id, if that is not as it was written.
#[inline(always)]
pub(super) fn look_up<'a>(
    limits: &'a Limits,
    operation: Operation,
    transaction: &Transaction<'a>,
    room: &'a mut Option<Id>,
) -> Result<Found<'a>, LimiterError> {
    let Transaction {
        limit: name,
        id,
        cost,
        mode,
        ..
    } = *transaction;
    let Some(named) = limits.get(name) else {
        return Err(LimiterError::unknown_limit(name, limits));
    };
    let id = match named.name.format().fold(id) {
        _ if transaction.is_missing() => id,
        Ok(folded) => folded.keep_in(room),
        Err(error) => return Err(LimiterError::invalid_id(name, error)),
    };
    let Some(limit) = named.in_force(id) else {
        return Ok(Found::Off);
    };
    let shadow = limits.is_shadow(named);
    let Some(algorithm) = limit.algorithm() else {
        return Ok(match limit.is_blocked() && operation != Operation::Reset {
            true => Found::Refused { shadow },
            false => Found::Off,
        });
    };
    match permit(algorithm, operation, transaction)? {
        true => {}
        false if shadow || transaction.is_lenient() => return Ok(Found::Refused { shadow }),
        false => return Err(LimiterError::cost_above_burst(named, id, cost)),
    }
    let algorithm = transaction.algorithm(operation, algorithm);
    let key = BucketKey::new(named.name.key(), id);
    let member = Member::new(key, algorithm, cost, mode)
        .min_cost(transaction.min_cost.unwrap_or(cost))
        .format(named.name.format())
        .on_failure(transaction.on_failure.or(named.name.failure()));
    Ok(Found::Member(match shadow {
        true => member.in_shadow(),
        false => member,
    }))
}

/// Refuses what an algorithm cannot do, and says whether it could ever grant the cost.
#[inline(always)]
fn permit(
    algorithm: &Algorithm,
    operation: Operation,
    transaction: &Transaction<'_>,
) -> Result<bool, LimiterError> {
    match algorithm {
        _ if operation == Operation::Reset => Ok(true),
        Algorithm::Gcra(_) if transaction.min_cost.is_some() => {
            Err(LimiterError::no_tiers(transaction.limit))
        }
        Algorithm::Gcra(gcra) => {
            Ok(transaction.cost <= gcra.burst() || transaction.mode == Mode::Debit)
        }
        Algorithm::Tiers(_) => permit_tiers(operation, transaction).map(|()| true),
    }
}

/// Refuses what cannot be done to tiers. A cost above all their limits is denied, for ever.
fn permit_tiers(operation: Operation, transaction: &Transaction<'_>) -> Result<(), LimiterError> {
    let limit = || transaction.limit.into();
    let (cost, least) = (transaction.cost, transaction.min_cost);
    let least = least.unwrap_or(cost);
    match (operation, transaction.mode) {
        (Operation::Refund, _) => Err(LimiterError::not_with_tiers(transaction.limit, "refunded")),
        (_, Mode::Debit) => Err(LimiterError::not_with_tiers(transaction.limit, "debited")),
        _ if least == 0 || least > cost => Err(LimiterError::NoSuchGroup {
            limit: limit(),
            cost,
            least,
        }),
        _ => Ok(()),
    }
}

fn duplicate<'a>(members: &[Member<'a>]) -> Option<BucketKey<'a>> {
    const FEW: usize = 16;
    if members.len() <= FEW {
        let repeats = |(i, member): &(usize, &Member<'a>)| {
            members[..*i]
                .iter()
                .any(|earlier| earlier.key == member.key)
        };
        return members
            .iter()
            .enumerate()
            .find(repeats)
            .map(|(_, member)| member.key);
    }
    let mut seen = HashSet::with_capacity_and_hasher(members.len(), RandomState::new());
    members
        .iter()
        .map(|member| member.key)
        .find(|key| !seen.insert(*key))
}

#[inline(always)]
pub(super) fn only(batch: &Batch<'_>, outcome: &Outcome) -> Result<Decision, LimiterError> {
    ensure_complete(batch, outcome)?;
    Ok(outcome
        .decisions(batch)
        .next()
        .unwrap_or(Decision::NOT_LIMITED))
}

/// A backend that breaks its contract is an error, never a request let through.
#[inline]
fn ensure_complete(batch: &Batch<'_>, outcome: &Outcome) -> Result<(), BackendError> {
    let (members, answers) = (batch.members.len(), outcome.answers().len());
    if members == answers {
        return Ok(());
    }
    let broken = format!("the backend gave {answers} answers for {members} members");
    Err(BackendError::unavailable(broken))
}

/// Why a transaction was not decided.
#[derive(Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// No limit has this name.
    #[error("unknown limit `{name}`: {}", listed(.known))]
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
        /// What is wrong with the id.
        source: IdError,
    },
    /// The cost could never pass.
    #[error(
        "cost {cost} is above the burst of limit `{limit}`{}, {burst}: lower the cost, raise the \
         burst, or make it a debit", overridden(.id)
    )]
    CostAboveBurst {
        /// The limit.
        limit: String,
        /// The id as it was written in the override that the burst is of, if it is not the default's.
        id: Option<String>,
        /// The cost.
        cost: u32,
        /// The limit's burst.
        burst: u32,
    },
    /// A group request of a limit without tiers.
    #[error(
        "limit `{limit}` has no tiers, which alone grant a part of a cost: leave the min_cost out"
    )]
    NoTiers {
        /// The limit.
        limit: String,
    },
    /// A request for nothing, or for more than the most of it.
    #[error(
        "limit `{limit}` cannot grant {least} to {cost}: ask for at least 1, and for no min_cost above the cost"
    )]
    NoSuchGroup {
        /// The limit.
        limit: String,
        /// The most that was asked for.
        cost: u32,
        /// The least.
        least: u32,
    },
    /// What cannot be done to tiers.
    #[error(
        "limit `{limit}` has tiers, which cannot be {verb}: what they grant may have entered a tier, and that \
         cannot be undone; check first, or give the limit burst, count and period"
    )]
    NotWithTiers {
        /// The limit.
        limit: String,
        /// What cannot be done.
        verb: &'static str,
    },
    /// Two transactions of a batch are for one bucket.
    #[error("the bucket `{key}` is twice in one batch: add the costs up")]
    DuplicateBucket {
        /// The bucket's key.
        key: String,
    },
    /// The clock shows an instant at which nothing is decided.
    #[error(transparent)]
    InvalidNow(InvalidNow),
    /// The backend has not decided.
    #[error(transparent)]
    Backend(BackendError),
}

debug_as_read!(LimiterError);

impl LimiterError {
    pub(crate) fn unknown_limit(name: &str, limits: &Limits) -> Self {
        let known = limits.names().into_iter().map(Into::into).collect();
        Self::UnknownLimit {
            name: name.into(),
            known,
        }
    }

    #[cold]
    fn invalid_id(limit: &str, source: IdError) -> Self {
        let limit = limit.into();
        Self::InvalidId { limit, source }
    }

    #[cold]
    fn no_tiers(limit: &str) -> Self {
        let limit = limit.into();
        Self::NoTiers { limit }
    }

    #[cold]
    pub(crate) fn not_with_tiers(limit: &str, verb: &'static str) -> Self {
        let limit = limit.into();
        Self::NotWithTiers { limit, verb }
    }

    /// The error of a cost for the client with this folded id, which has a limit.
    #[cold]
    fn cost_above_burst(named: &NamedLimit, folded: &str, cost: u32) -> Self {
        Self::CostAboveBurst {
            limit: named.name.to_string(),
            id: named.own(folded).map(|own| own.id.into()),
            cost,
            burst: named
                .in_force(folded)
                .and_then(Limit::max_cost)
                .unwrap_or(0),
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

fn overridden(id: &Option<String>) -> String {
    id.as_ref()
        .map_or_else(String::new, |id| format!(" for `{id}`"))
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "no limits are defined".into(),
        names => format!("known are {}", names.join(", ")),
    }
}
