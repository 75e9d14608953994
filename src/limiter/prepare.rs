//! From transactions to a batch, and from its outcome to decisions.

use std::collections::HashSet;

use ahash::RandomState;

use super::{
    capacity::{Capacity, List},
    limiter_error::LimiterError,
};
use crate::{
    backend::BackendError,
    clock::Timestamp,
    decision::{Decision, Decisions, Outcome},
    id::Id,
    limit::{Limits, NamedLimit},
    transaction::{Algorithm, Batch, BucketKey, Member, Mode, OnFailure, Operation, Transaction},
};

/// Transactions whose limits have been looked up, ready for the backend.
///
/// It is large, so it is filled and read where it is, and never moved.
pub(super) struct Prepared<'a, C: Capacity> {
    operation: Operation,
    members: C::List<Member<'a>>,
    lookups: C::List<Lookup>,
}

/// The result of looking up a transaction.
#[derive(Clone, Copy)]
pub(super) enum Lookup {
    /// The next member.
    Member { votes: bool },
    /// No limit is configured.
    Off,
    /// It cannot pass, in any state.
    Refused { votes: bool, shadow: bool },
}

/// Room for the canonical forms of ids with other spellings.
pub(super) struct CanonicalIds<C: Capacity>(C::List<Option<Id>>);

impl<C: Capacity> CanonicalIds<C> {
    #[inline(always)]
    pub(super) fn new(len: usize) -> Self {
        let mut ids = C::List::default();
        for _ in 0..len {
            ids.push(None);
        }
        Self(ids)
    }
}

impl<'a, C: Capacity> Prepared<'a, C> {
    #[inline(always)]
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation,
            members: C::List::default(),
            lookups: C::List::default(),
        }
    }

    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        limits: &'a Limits,
        transactions: &'a [Transaction<'a>],
        ids: &'a mut CanonicalIds<C>,
    ) -> Result<(), LimiterError> {
        for (transaction, id) in transactions.iter().zip(ids.0.as_mut_slice()) {
            self.add(limits, transaction, id)?;
        }
        self.refuse_duplicates()
    }

    #[inline(always)]
    fn add(
        &mut self,
        limits: &'a Limits,
        transaction: &'a Transaction<'a>,
        room: &'a mut Option<Id>,
    ) -> Result<(), LimiterError> {
        let Some(named) = limits.find(transaction.limit) else {
            return Err(LimiterError::unknown_limit(
                transaction.limit.as_str(),
                limits,
            ));
        };
        let id = canonical(named, transaction, room)?;
        let Some(limit) = named.in_force(id) else {
            self.lookups.push(Lookup::Off);
            return Ok(());
        };
        let shadow = limits.is_shadow(named);
        let refused = Lookup::Refused {
            votes: transaction.mode.votes() && !shadow,
            shadow,
        };
        let Some(algorithm) = limit.algorithm() else {
            let is_refused = limit.is_blocked() && self.operation != Operation::Reset;
            self.lookups
                .push(if is_refused { refused } else { Lookup::Off });
            return Ok(());
        };
        if !permits(algorithm, self.operation, transaction)? {
            if !shadow && !transaction.is_lenient() {
                return Err(LimiterError::cost_above_burst(named, id, transaction.cost));
            }
            self.lookups.push(refused);
            return Ok(());
        }
        let mut member = member_of(self.operation, named, algorithm, transaction, id, shadow)?;
        member.leased = limit.leased_units();
        let votes = member.mode.votes();
        self.members.push(member);
        self.lookups.push(Lookup::Member { votes });
        Ok(())
    }

    /// Returns the batch for the backend.
    #[inline(always)]
    pub(super) fn batch(&self, now: Option<Timestamp>) -> Batch<'_> {
        Batch::new(self.operation, self.members.as_slice()).at(now)
    }

    /// Returns whether the backend has to decide. It does not if no member is limited, or if one is blocked.
    #[inline(always)]
    pub(super) fn needs_backend(&self) -> bool {
        let asks = matches!(self.operation, Operation::Check | Operation::Spend);
        let refuses = |lookup: &Lookup| matches!(lookup, Lookup::Refused { votes: true, .. });
        let (members, lookups) = (self.members.as_slice(), self.lookups.as_slice());
        let is_refused = asks && lookups.len() > members.len() && lookups.iter().any(refuses);
        !is_refused && !members.is_empty()
    }

    /// Gathers the decisions without a backend.
    #[cold]
    pub(super) fn finish_alone(&self, decisions: &mut impl Decisions) {
        self.gather(|_| Decision::NOT_LIMITED, decisions);
    }

    /// Gathers the decisions that follow from the backend's outcome. A backend that breaks its contract is an error, and
    /// never lets a request through.
    #[inline(always)]
    pub(super) fn finish(
        &self,
        batch: &Batch<'_>,
        outcome: &Outcome,
        decisions: &mut impl Decisions,
    ) -> Result<(), LimiterError> {
        let (members, answers) = (batch.members.len(), outcome.answers().len());
        if members != answers {
            return Err(broken_contract(members, answers));
        }
        if let Some(member) = outcome.no_room().and_then(|i| batch.members.get(i)) {
            return Err(LimiterError::no_room(member));
        }
        let passes = outcome.passes(batch);
        self.gather(|i| outcome.decision(batch, i, passes), decisions);
        Ok(())
    }

    #[inline(always)]
    fn gather(&self, member: impl Fn(usize) -> Decision, decisions: &mut impl Decisions) {
        let mut members = 0;
        for lookup in self.lookups.as_slice() {
            match *lookup {
                Lookup::Member { votes } => {
                    decisions.push(member(members), votes);
                    members += 1;
                }
                Lookup::Off => decisions.push(Decision::NOT_LIMITED, false),
                Lookup::Refused { votes, shadow } => {
                    decisions.push(Decision::refused(self.operation, shadow), votes);
                }
            }
        }
    }

    #[inline(always)]
    fn refuse_duplicates(&self) -> Result<(), LimiterError> {
        match self.members.as_slice().len() {
            0 | 1 => Ok(()),
            _ => self.duplicate().map_or(Ok(()), |key| {
                let key = key.to_string();
                Err(LimiterError::DuplicateBucket { key })
            }),
        }
    }

    fn duplicate(&self) -> Option<BucketKey<'a>> {
        const FEW: usize = 16;
        let members = self.members.as_slice();
        if members.len() <= FEW {
            let repeats = |(i, member): &(usize, &Member<'a>)| {
                members[..*i].iter().any(|earlier| {
                    earlier.fingerprint == member.fingerprint && earlier.key == member.key
                })
            };
            let mut numbered = members.iter().enumerate();
            return numbered.find(repeats).map(|(_, member)| member.key);
        }
        let mut seen = HashSet::with_capacity_and_hasher(members.len(), RandomState::new());
        let mut keys = members.iter().map(|member| member.key);
        keys.find(|key| !seen.insert(*key))
    }
}

#[cold]
fn broken_contract(members: usize, answers: usize) -> LimiterError {
    let broken = format!("the backend gave {answers} answers for {members} members");
    BackendError::unavailable(broken).into()
}

/// Creates the member for a bucket.
#[inline(always)]
fn member_of<'a>(
    operation: Operation,
    named: &'a NamedLimit,
    algorithm: &'a Algorithm,
    transaction: &'a Transaction<'a>,
    id: &'a str,
    shadow: bool,
) -> Result<Member<'a>, LimiterError> {
    let fingerprint = transaction
        .fingerprint()
        .unwrap_or_else(|| named.seed().bucket(id));
    let receipt = transaction
        .receipt()
        .filter(|_| operation == Operation::Refund);
    if receipt.is_some_and(|receipt| !receipt.is_for(fingerprint)) {
        return Err(LimiterError::foreign_receipt(transaction.limit));
    }
    Ok(Member {
        key: BucketKey::new(named.name.key(), id),
        algorithm,
        cost: transaction.cost,
        min_cost: transaction.min_cost.unwrap_or(transaction.cost),
        mode: match shadow {
            true => transaction.mode.silent(),
            false => transaction.mode,
        },
        format: named.name.format(),
        on_failure: on_failure(transaction, named),
        floor: transaction.floor(),
        shadow,
        leased: 0,
        fingerprint,
        receipt,
        saturates: shadow || transaction.is_correction(),
        no_wait: transaction.declines_to_wait(),
    })
}

/// Returns the canonical form of the id.
#[inline(always)]
pub(super) fn canonical<'a>(
    named: &NamedLimit,
    transaction: &Transaction<'a>,
    room: &'a mut Option<Id>,
) -> Result<&'a str, LimiterError> {
    if transaction.is_canonical() {
        return Ok(transaction.id);
    }
    match named.name.format().fold(transaction.id) {
        Ok(folded) => Ok(folded.keep_in(room)),
        Err(error) => Err(LimiterError::invalid_id(named.name.as_str(), error)),
    }
}

/// Returns the failure policy of the transaction or of its limit, if there is one.
#[inline(always)]
fn on_failure(transaction: &Transaction<'_>, named: &NamedLimit) -> Option<OnFailure> {
    let stricter = |own: OnFailure| transaction.floor().map_or(own, |floor| floor.stricter(own));
    let of_limit = || named.name.failure().map(stricter);
    transaction.on_failure.or_else(of_limit)
}

/// Rejects what an algorithm cannot do, and returns whether it could ever grant the cost.
#[inline(always)]
fn permits(
    algorithm: &Algorithm,
    operation: Operation,
    transaction: &Transaction<'_>,
) -> Result<bool, LimiterError> {
    match algorithm {
        _ if operation == Operation::Reset => Ok(true),
        _ if operation == Operation::Refund && transaction.receipt().is_some() => Ok(true),
        Algorithm::Tiers(_) => permits_tiers(operation, transaction).map(|()| true),
        _ if transaction.min_cost.is_some() => {
            Err(LimiterError::no_tiers(transaction.limit.as_str()))
        }
        _ if transaction.mode == Mode::Debit => Ok(true),
        Algorithm::Gcra(gcra) => Ok(transaction.cost <= gcra.burst()),
        _ if operation == Operation::Refund => Ok(true),
        Algorithm::Window(window) => Ok(transaction.cost <= window.limit()),
        Algorithm::Quota(quota) => Ok(transaction.cost <= quota.quota()),
    }
}

/// Rejects what cannot be done to tiers. A cost above all their limits is always denied.
fn permits_tiers(operation: Operation, transaction: &Transaction<'_>) -> Result<(), LimiterError> {
    let limit = transaction.limit.as_str();
    let cost = transaction.cost;
    let least = transaction.min_cost.unwrap_or(cost);
    match (operation, transaction.mode) {
        (Operation::Refund, _) => Err(LimiterError::not_with_tiers(limit, "refunded")),
        (_, Mode::Debit) => Err(LimiterError::not_with_tiers(limit, "debited")),
        _ if least == 0 || least > cost => Err(LimiterError::NoSuchGroup {
            limit: limit.into(),
            cost,
            least,
        }),
        _ => Ok(()),
    }
}
