//! From transactions to the members of a batch.

use std::collections::HashSet;

use ahash::RandomState;
use smallvec::SmallVec;

use super::limiter_error::LimiterError;
use crate::{
    algorithm::{Asked, Purpose},
    decision::Decision,
    id::Id,
    limit::{Limits, NamedLimit},
    transaction::{
        Algorithm, BucketKey, ClientFingerprint, LeasedPart, LimitRef, Member, Mode, OnFailure,
        Operation, Receipt, Transaction,
    },
};

/// Looks transactions up: their limits, their buckets, and the members for the backend.
///
/// Errors are boxed here, so that the results of transactions without errors stay small. A transaction is passed on by
/// its parts, so that the compiler does not have to assemble it.
#[derive(Clone, Copy)]
pub(crate) struct Lookups<'a> {
    pub(super) limits: &'a Limits,
    pub(super) operation: Operation,
}

/// The result of a transaction without the backend.
#[derive(Clone, Copy)]
pub(crate) enum NoMember {
    /// No limit is configured.
    Off,
    /// It cannot pass, in any state.
    Refused { votes: bool, shadow: bool },
}

/// A list that members are added to.
pub(super) trait MemberList<'a> {
    fn add(&mut self, member: Member<'a>) -> &Member<'a>;
}

impl<'a> MemberList<'a> for Option<Member<'a>> {
    #[inline(always)]
    fn add(&mut self, member: Member<'a>) -> &Member<'a> {
        self.insert(member)
    }
}

impl<'a> MemberList<'a> for SmallVec<[Member<'a>; 4]> {
    #[inline]
    fn add(&mut self, member: Member<'a>) -> &Member<'a> {
        let place = self.len();
        self.push(member);
        &self[place]
    }
}

impl<'a> Lookups<'a> {
    /// Looks one transaction up. Adds it to `members`, or returns its result if the backend need not decide it.
    #[inline(always)]
    pub(super) fn look_up<'m>(
        self,
        transaction: &Transaction<'a>,
        room: &'a mut Option<Id>,
        members: &'m mut impl MemberList<'a>,
    ) -> Result<Result<&'m Member<'a>, NoMember>, Box<LimiterError>> {
        let Some(named) = self.limits.find(transaction.limit) else {
            return Err(unknown_limit(transaction.limit.as_str(), self.limits));
        };
        let id = canonical(named, transaction.id, transaction.is_canonical(), room)
            .map_err(|error| without_secret(error, transaction))?;
        let shadow = self.limits.is_shadow(named);
        let (algorithm, lease) = match self.terms(named, id, transaction, shadow)? {
            Ok(terms) => terms,
            Err(other) => return Ok(Err(other)),
        };
        let (client, receipt) = self.client(named, id, transaction)?;
        let key = BucketKey::new(named.name.key(), id).of(algorithm.key());
        Ok(Ok(members.add(Member {
            key,
            algorithm,
            cost: transaction.cost,
            min_cost: transaction.min_cost.unwrap_or(transaction.cost),
            mode: match (shadow, receipt) {
                // The charge is in a bucket of another algorithm, which is no longer used.
                (_, Some(receipt)) if receipt.algorithm() != key.algorithm => Mode::CheckOnly,
                (true, _) => transaction.mode.silent(),
                (false, _) => transaction.mode,
            },
            format: named.name.format(),
            on_failure: on_failure(transaction, named),
            floor: transaction.floor(),
            shadow,
            leased: lease.units,
            reserved: lease.reserved,
            fingerprint: client.bucket(key.algorithm),
            receipt,
            saturates: shadow || transaction.is_correction(),
            no_wait: transaction.declines_to_wait(),
            secret: self.limits.redacts_ids() || transaction.is_secret(),
            ago_us: 0,
        })))
    }

    /// Returns the algorithm for a client, and the part of the limit that leases take.
    #[inline(always)]
    fn terms(
        self,
        named: &'a NamedLimit,
        id: &str,
        transaction: &Transaction<'_>,
        shadow: bool,
    ) -> Result<Result<(&'a Algorithm, LeasedPart), NoMember>, Box<LimiterError>> {
        let Some(limit) = named.in_force(id) else {
            return Ok(Err(NoMember::Off));
        };
        let votes = transaction.mode.votes() && !shadow;
        let refused = NoMember::Refused { votes, shadow };
        let Some((algorithm, lease)) = limit.algorithm_and_lease() else {
            let is_refused = limit.is_blocked() && self.operation != Operation::Reset;
            return Ok(Err(if is_refused { refused } else { NoMember::Off }));
        };
        if permits(algorithm, self.operation, transaction)? {
            return Ok(Ok((algorithm, lease)));
        }
        match shadow || transaction.is_lenient() {
            true => Ok(Err(refused)),
            false => Err(cost_above_burst(named, id, transaction)),
        }
    }

    /// Returns the fingerprint of a client, and the receipt of the charge to refund.
    #[inline(always)]
    fn client(
        self,
        named: &NamedLimit,
        id: &str,
        transaction: &Transaction<'a>,
    ) -> Result<(ClientFingerprint, Option<&'a Receipt>), Box<LimiterError>> {
        let known = transaction.fingerprint();
        let client = known.unwrap_or_else(|| named.seed().client(id));
        let receipt = transaction.receipt();
        let receipt = receipt.filter(|_| self.operation == Operation::Refund);
        match receipt.is_some_and(|receipt| !receipt.is_for(client)) {
            true => Err(foreign_receipt(transaction.limit)),
            false => Ok((client, receipt)),
        }
    }
}

impl NoMember {
    /// Returns whether this result denies its batch.
    pub(super) fn refuses(self, operation: Operation) -> bool {
        let asks = matches!(operation, Operation::Check | Operation::Spend);
        asks && matches!(self, Self::Refused { votes: true, .. })
    }

    /// Returns the decision for this result.
    #[cold]
    pub(super) fn decision(self, operation: Operation) -> Decision {
        match self {
            Self::Off => Decision::NOT_LIMITED,
            Self::Refused { votes, shadow } => Decision::refused(operation, votes, shadow),
        }
    }
}

#[cold]
fn unknown_limit(name: &str, limits: &Limits) -> Box<LimiterError> {
    Box::new(LimiterError::unknown_limit(name, limits))
}

#[cold]
fn cost_above_burst(
    named: &NamedLimit,
    id: &str,
    transaction: &Transaction<'_>,
) -> Box<LimiterError> {
    let error = LimiterError::cost_above_burst(named, id, transaction.cost);
    without_secret(Box::new(error), transaction)
}

/// Removes a transaction's id from an error, if it is a secret.
#[cold]
fn without_secret(error: Box<LimiterError>, transaction: &Transaction<'_>) -> Box<LimiterError> {
    match transaction.is_secret() {
        true => Box::new(error.without_id()),
        false => error,
    }
}

#[cold]
fn foreign_receipt(limit: LimitRef<'_>) -> Box<LimiterError> {
    Box::new(LimiterError::foreign_receipt(limit))
}

/// Refuses two members for one bucket.
pub(super) fn refuse_duplicates(
    members: &[Member<'_>],
    transactions: &[Transaction<'_>],
) -> Result<(), Box<LimiterError>> {
    duplicate(members).map_or(Ok(()), |key| {
        let has_secrets = transactions.iter().any(Transaction::is_secret);
        let id = Id::from(key.id).secret_if(has_secrets);
        let key = BucketKey::new(key.limit, &id.shown()).to_string();
        Err(Box::new(LimiterError::DuplicateBucket { key }))
    })
}

fn duplicate<'a>(members: &[Member<'a>]) -> Option<BucketKey<'a>> {
    const FEW: usize = 16;
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

/// Returns the canonical form of the id.
#[inline(always)]
pub(super) fn canonical<'a>(
    named: &NamedLimit,
    id: &'a str,
    is_canonical: bool,
    room: &'a mut Option<Id>,
) -> Result<&'a str, Box<LimiterError>> {
    match is_canonical || named.name.format().keeps(id) {
        true => Ok(id),
        false => fold(named, id, room),
    }
}

#[inline(never)]
fn fold<'a>(
    named: &NamedLimit,
    id: &'a str,
    room: &'a mut Option<Id>,
) -> Result<&'a str, Box<LimiterError>> {
    match named.name.format().fold(id) {
        Ok(folded) => Ok(folded.keep_in(room)),
        Err(error) => {
            let error = LimiterError::invalid_id(named.name.as_str(), error);
            Err(Box::new(error))
        }
    }
}

/// Returns the failure policy of the transaction or of its limit, if there is one.
#[inline(always)]
fn on_failure(transaction: &Transaction<'_>, named: &NamedLimit) -> Option<OnFailure> {
    let stricter = |own: OnFailure| transaction.floor().map_or(own, |floor| floor.stricter(own));
    let of_limit = || named.name.failure().map(stricter);
    transaction.on_failure.or_else(of_limit)
}

/// Rejects operations that an algorithm does not support. Returns whether the algorithm could ever grant the cost.
#[inline(always)]
fn permits(
    algorithm: &Algorithm,
    operation: Operation,
    transaction: &Transaction<'_>,
) -> Result<bool, Box<LimiterError>> {
    match transaction.min_cost.is_none() && algorithm.permits_any(transaction.cost) {
        true => Ok(true),
        false => permits_some(algorithm, operation, transaction),
    }
}

#[inline(never)]
fn permits_some(
    algorithm: &Algorithm,
    operation: Operation,
    transaction: &Transaction<'_>,
) -> Result<bool, Box<LimiterError>> {
    let Transaction { cost, min_cost, .. } = *transaction;
    let purpose = match operation {
        Operation::Reset => return Ok(true),
        Operation::Refund if transaction.receipt().is_some() => return Ok(true),
        Operation::Refund => Purpose::GiveBack,
        Operation::Check | Operation::Spend => Purpose::Take,
    };
    let permitted = algorithm.permits(Asked {
        purpose,
        is_debit: transaction.mode == Mode::Debit,
        cost,
        min_cost,
    });
    permitted.map_err(|reason| {
        let limit = transaction.limit.as_str();
        Box::new(LimiterError::not_permitted(limit, cost, reason))
    })
}
