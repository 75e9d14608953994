//! From transactions to the members of a batch.

use std::{borrow::Borrow, collections::HashSet};

use ahash::RandomState;

use super::{limiter_error::LimiterError, transactions::Transactions};
use crate::{
    algorithm::{Ask, Asked, Purpose},
    backend::{Backend, leasing},
    decision::WithoutBucket,
    id::Id,
    limit::{Limit, Limits, NamedLimit},
    transaction::{
        Algorithm, BucketKey, Claim, ClientFingerprint, Fingerprint, IdHash, LimitRef, Member,
        Mode, OnFailure, Operation, Receipt, RowCharge, Transaction,
    },
};

/// Looks transactions up: their limits, their buckets, and what they ask of them.
///
/// Errors are boxed here, so that the results of transactions without errors stay small.
#[derive(Clone, Copy)]
pub(crate) struct Lookups<'a> {
    pub(super) limits: &'a Limits,
    /// The backend, unless it is in memory, where no limit is leased.
    pub(super) store: Option<&'a dyn Backend>,
    pub(super) operation: Operation,
    /// Whether anybody needs the figures of charges that pass.
    pub(super) is_shown: bool,
}

/// The bucket of a transaction.
pub(super) struct BucketOf<'a> {
    named: &'a NamedLimit,
    algorithm: &'a Algorithm,
    fingerprint: Fingerprint,
    receipt: Option<&'a Receipt>,
    mode: Mode,
    shadow: bool,
}

impl<'a> Lookups<'a> {
    /// Lookups for decisions in memory.
    #[inline(always)]
    pub(super) const fn in_memory(
        limits: &'a Limits,
        operation: Operation,
        is_shown: bool,
    ) -> Self {
        Self {
            limits,
            store: None,
            operation,
            is_shown,
        }
    }

    /// Looks up what a transaction asks of its bucket, or why it has none. The result is large, so it is written where it
    /// stays.
    #[inline(always)]
    pub(super) fn claim(
        &self,
        transaction: &Transaction<'a>,
        claim: &mut Result<Claim<'a>, WithoutBucket>,
    ) -> Result<(), Box<LimiterError>> {
        let mut room = None;
        let (named, id) = self.named(transaction, &mut room)?;
        let bucket = match self.bucket(named, id, transaction)? {
            Ok(bucket) => bucket,
            Err(without) => {
                *claim = Err(without);
                return Ok(());
            }
        };
        *claim = Ok(Claim {
            fingerprint: bucket.fingerprint,
            algorithm: bucket.algorithm,
            ask: Ask {
                action: self.operation.action(bucket.mode, transaction.cost),
                cost: transaction.cost,
                min_cost: transaction.min_cost.unwrap_or(transaction.cost),
                joins_line: bucket.mode == Mode::CheckAndSpend && !transaction.declines_to_wait(),
                saturates: bucket.shadow || transaction.is_correction(),
                ago_us: 0,
                refund: Receipt::refund(bucket.receipt),
                is_shown: self.is_shown,
            },
            votes: bucket.mode.votes(),
            shadow: bucket.shadow,
        });
        Ok(())
    }

    /// Returns the charge of a transaction, if it is one of a bucket in a row, with a vote, that cannot wait in line, and is
    /// no error.
    #[inline(always)]
    pub(super) fn row_charge(&self, transaction: &Transaction<'_>) -> Option<RowCharge<'a>> {
        let Transaction { id, mode, cost, .. } = *transaction;
        let named = self.limits.find(transaction.limit)?;
        let is_canonical = transaction.is_canonical() || named.name.format().keeps(id);
        if self.operation != Operation::Spend
            || !is_canonical
            || mode != Mode::CheckAndSpend
            || transaction.min_cost.is_some()
        {
            return None;
        }
        let algorithm = match named.for_all() {
            Some(algorithm) => algorithm,
            None if self.limits.is_shadow(named) => return None,
            None => named.in_force(id)?.algorithm()?,
        };
        let key = algorithm.plain_key(cost)?;
        let client = transaction.fingerprint();
        let client = client.unwrap_or_else(|| named.seed().client(IdHash::of(id)));
        Some(RowCharge {
            fingerprint: client.bucket(key),
            algorithm: Some(algorithm),
            cost,
            joins_line: false,
        })
    }

    /// Returns the member for a transaction, or why there is none.
    pub(super) fn member(
        &self,
        transaction: &Transaction<'a>,
        room: &'a mut Option<Id>,
    ) -> Result<Result<Member<'a>, WithoutBucket>, LimiterError> {
        let (named, id) = self.named(transaction, room).map_err(|error| *error)?;
        let bucket = self
            .bucket(named, id, transaction)
            .map_err(|error| *error)?;
        Ok(bucket.map(|bucket| Member {
            key: BucketKey::new(named.name.key(), id).of(bucket.algorithm.key()),
            algorithm: bucket.algorithm,
            cost: transaction.cost,
            min_cost: transaction.min_cost.unwrap_or(transaction.cost),
            mode: bucket.mode,
            format: named.name.format(),
            on_failure: on_failure(transaction, bucket.named),
            floor: transaction.floor(),
            shadow: bucket.shadow,
            fingerprint: bucket.fingerprint,
            receipt: bucket.receipt,
            saturates: bucket.shadow || transaction.is_correction(),
            no_wait: transaction.declines_to_wait(),
            secret: self.limits.redacts_ids() || transaction.is_secret(),
            ago_us: 0,
        }))
    }

    /// Returns the error for a transaction whose bucket is also that of one before it.
    #[cold]
    pub(super) fn duplicate(
        &self,
        place: usize,
        transactions: &(impl Transactions<'a> + ?Sized),
    ) -> LimiterError {
        let is_secret = |place| transactions.at(place).borrow().is_secret();
        let has_secrets = (0..transactions.len()).any(is_secret);
        let mut room = None;
        match self.named(transactions.at(place).borrow(), &mut room) {
            Ok((named, id)) => {
                let key = BucketKey::new(named.name.key(), id);
                LimiterError::duplicate_bucket(key, has_secrets)
            }
            Err(error) => *error,
        }
    }

    /// Returns the limit of a transaction, and its id in the canonical form.
    #[inline(always)]
    fn named<'r>(
        &self,
        transaction: &Transaction<'r>,
        room: &'r mut Option<Id>,
    ) -> Result<(&'a NamedLimit, &'r str), Box<LimiterError>> {
        let Some(named) = self.limits.find(transaction.limit) else {
            return Err(unknown_limit(transaction.limit.as_str(), self.limits));
        };
        let id = canonical(named, transaction.id, transaction.is_canonical(), room)
            .map_err(|error| without_secret(error, transaction))?;
        Ok((named, id))
    }

    /// Returns the bucket of a transaction, or why there is none.
    #[inline(always)]
    fn bucket(
        &self,
        named: &'a NamedLimit,
        id: &str,
        transaction: &Transaction<'a>,
    ) -> Result<Result<BucketOf<'a>, WithoutBucket>, Box<LimiterError>> {
        let shadow = self.limits.is_shadow(named);
        let algorithm = match self.algorithm(named, id, transaction, shadow)? {
            Ok(algorithm) => algorithm,
            Err(other) => return Ok(Err(other)),
        };
        let (client, receipt) = self.client(named, id, transaction)?;
        let key = algorithm.key();
        Ok(Ok(BucketOf {
            named,
            algorithm,
            fingerprint: client.bucket(key),
            receipt,
            mode: match receipt {
                // The charge is in a bucket of another algorithm, which is no longer used.
                Some(receipt) if receipt.algorithm() != key => Mode::CheckOnly,
                _ if shadow => transaction.mode.silent(),
                _ => transaction.mode,
            },
            shadow,
        }))
    }

    /// Returns the algorithm for a client.
    #[inline(always)]
    fn algorithm(
        &self,
        named: &'a NamedLimit,
        id: &str,
        transaction: &Transaction<'_>,
        shadow: bool,
    ) -> Result<Result<&'a Algorithm, WithoutBucket>, Box<LimiterError>> {
        let Some(limit) = named.in_force(id) else {
            return Ok(Err(WithoutBucket::Off));
        };
        let votes = transaction.mode.votes() && !shadow;
        let refused = WithoutBucket::Refused { votes, shadow };
        let Some(algorithm) = limit.algorithm() else {
            let is_refused = limit.is_blocked() && self.operation != Operation::Reset;
            return Ok(Err(if is_refused {
                refused
            } else {
                WithoutBucket::Off
            }));
        };
        let is_permitted = permits(algorithm, self.operation, transaction)?;
        // Leases leave at least half of a limit to a single cost.
        if let Some(store) = self.store
            && transaction.cost > algorithm.max_cost().div_ceil(2)
            && let Some(left) = left_at(store, named, algorithm)
            && !permits(&left, self.operation, transaction)?
        {
            return too_costly(named, id, transaction, refused, left.max_cost());
        }
        match is_permitted {
            true => Ok(Ok(algorithm)),
            false => {
                let most = algorithm.max_cost();
                too_costly(named, id, transaction, refused, most)
            }
        }
    }

    /// Returns the fingerprint of a client, and the receipt of the charge to refund.
    #[inline(always)]
    fn client(
        &self,
        named: &NamedLimit,
        id: &str,
        transaction: &Transaction<'a>,
    ) -> Result<(ClientFingerprint, Option<&'a Receipt>), Box<LimiterError>> {
        let known = transaction.fingerprint();
        let client = known.unwrap_or_else(|| named.seed().client(IdHash::of(id)));
        let receipt = transaction.receipt();
        let uses_receipts = matches!(self.operation, Operation::Refund | Operation::Renew);
        let receipt = receipt.filter(|_| uses_receipts);
        match receipt.is_some_and(|receipt| !receipt.is_for(client)) {
            true => Err(foreign_receipt(transaction.limit)),
            false => Ok((client, receipt)),
        }
    }
}

/// Returns the part of a limit that leases leave to a single cost; `None` if it is not leased.
#[inline(never)]
fn left_at(store: &dyn Backend, named: &NamedLimit, algorithm: &Algorithm) -> Option<Algorithm> {
    leasing(store)?.part_of(named.name.key(), algorithm)
}

/// Returns the result of a cost that is above `most`: a refusal for a lenient transaction or in shadow mode, and otherwise
/// an error.
#[cold]
fn too_costly<'a>(
    named: &NamedLimit,
    id: &str,
    transaction: &Transaction<'_>,
    refused: WithoutBucket,
    most: u32,
) -> Result<Result<&'a Algorithm, WithoutBucket>, Box<LimiterError>> {
    if transaction.is_lenient() || matches!(refused, WithoutBucket::Refused { shadow: true, .. }) {
        return Ok(Err(refused));
    }
    let own = named.own(id).map(|own| own.id);
    let limit = named.in_force(id).unwrap_or(&Limit::UNLIMITED);
    let error = LimiterError::too_costly(named, own, transaction.cost, limit, most);
    Err(without_secret(Box::new(error), transaction))
}

#[cold]
fn unknown_limit(name: &str, limits: &Limits) -> Box<LimiterError> {
    Box::new(LimiterError::unknown_limit(name, limits))
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

/// Returns the place of a bucket that occurs at a place before. `bucket` returns that at a place, if there is one.
#[inline(always)]
pub(super) fn duplicate<'m>(
    len: usize,
    bucket: impl Fn(usize) -> Option<&'m Fingerprint>,
) -> Option<usize> {
    const FEW: usize = 16;
    if len > FEW {
        return duplicate_of_many(len, bucket);
    }
    for place in 1..len {
        let Some(one) = bucket(place) else { continue };
        for before in 0..place {
            if bucket(before).is_some_and(|other| other.low == one.low && other == one) {
                return Some(place);
            }
        }
    }
    None
}

#[inline(never)]
fn duplicate_of_many<'m>(
    len: usize,
    bucket: impl Fn(usize) -> Option<&'m Fingerprint>,
) -> Option<usize> {
    let mut seen = HashSet::with_capacity_and_hasher(len, RandomState::new());
    (0..len).find(|place| bucket(*place).is_some_and(|bucket| !seen.insert(*bucket)))
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
    let is_usual = transaction.min_cost.is_none() && operation != Operation::Renew;
    match is_usual && algorithm.permits_any(transaction.cost) {
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
        Operation::Renew => Purpose::Renew,
        Operation::Check | Operation::Spend => Purpose::Take,
    };
    let permitted = algorithm.permits(Asked {
        purpose,
        is_debit: transaction.mode == Mode::Debit,
        cost,
        min_cost,
    });
    let limit = transaction.limit.as_str();
    let permitted =
        permitted.map_err(|reason| Box::new(LimiterError::not_permitted(limit, cost, reason)))?;
    match operation == Operation::Renew && transaction.receipt().is_none() {
        true => Err(Box::new(LimiterError::receipt_required(limit))),
        false => Ok(permitted),
    }
}
