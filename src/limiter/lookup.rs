//! From transactions to the members of a batch.

use std::iter::zip;

use smallvec::SmallVec;

use super::{
    Transaction,
    decide::{Call, Failed, Members},
    error::LimiterError,
};
use crate::{
    algorithm::{Algorithm, AlgorithmKey, Ask, AskError, Charge, Verb},
    decision::Decision,
    id::{Id, MISSING},
    limit::{Limit, Limits, NamedLimit},
    transaction::{BucketKey, Fingerprint, Member, Mode, Operation, Receipt},
};

/// Why a transaction asks nothing of a bucket.
#[derive(Clone, Copy)]
pub(super) enum Without {
    /// No limit is configured.
    Limit,
    /// It cannot pass, in any state.
    Chance { votes: bool, is_shadow: bool },
}

/// The charge of a receipt.
#[derive(Clone, Copy, Default)]
struct ChargeOf<'a> {
    charge: Option<&'a Charge>,
    /// Whether this process has decided it alone.
    is_local: bool,
    /// What is asked instead, if the store does not have the charge.
    verb: Option<Verb>,
}

impl<'a> Call<'a> {
    /// Looks all transactions up. Those without a member have their decision then. If one of them denies the batch, the batch
    /// has no members.
    pub(super) fn look_up_all(
        &self,
        transactions: &[Transaction<'a>],
        folded: &'a mut [Option<Id>],
        members: &mut Members<'a>,
        decisions: &mut [Decision],
    ) -> Result<(), Failed> {
        let places = zip(transactions, folded).zip(&mut *decisions).enumerate();
        for (place, ((transaction, folded), decision)) in places {
            let before = members.len();
            let add = |member| members.push(member);
            let mut without = self.look_up(transaction, place, folded, add)?;
            if let Some(member) = members.get(before) {
                without = self.accept(transaction, member)?;
            }
            if let Some(without) = without {
                members.truncate(before);
                *decision = self.decision_without(without);
            }
        }
        if self.operation != Operation::Renew
            && let Some(member) = duplicate(members)
        {
            return Err(Box::new(LimiterError::duplicate_bucket(member)));
        }
        if decisions.iter().any(Decision::denies) {
            members.clear();
        }
        Ok(())
    }

    /// Looks up the limit of a transaction, folds and hashes its id, and adds a member, or says why there is none.
    #[inline]
    pub(super) fn look_up(
        &self,
        transaction: &Transaction<'a>,
        place: usize,
        folded: &'a mut Option<Id>,
        add: impl FnOnce(Member<'a>),
    ) -> Result<Option<Without>, Failed> {
        let Some(named) = transaction.named(self.limits) else {
            let name = transaction.limit;
            return Err(Box::new(LimiterError::unknown_limit(name, self.limits)));
        };
        let id = canonical(named, transaction, folded)?;
        let is_shadow = named.is_shadow();
        let mode = match is_shadow {
            true => transaction.mode.silent(),
            false => transaction.mode,
        };
        let limit = named.in_force(id, transaction.values);
        let Some(algorithm) = limit.and_then(Limit::algorithm) else {
            let is_blocked = limit.is_some_and(Limit::is_blocked);
            return Ok(Some(
                match is_blocked && self.operation != Operation::Reset {
                    true => without_a_chance(mode, is_shadow),
                    false => Without::Limit,
                },
            ));
        };
        let print = named.seed().fingerprint(algorithm.key(), id);
        let charge = match transaction.receipt {
            Some(receipt) => self.charge_of(receipt, transaction, algorithm.key(), print)?,
            None => ChargeOf::default(),
        };
        // It is made where it stays: copies take longer than the arithmetic.
        add(Member {
            key: BucketKey {
                limit: named.key(),
                algorithm: algorithm.key(),
                id,
            },
            algorithm,
            ask: Ask {
                verb: charge.verb.unwrap_or(self.operation.verb(mode)),
                cost: transaction.cost,
                min_cost: match transaction.min_cost {
                    Some(min_cost) if transaction.receipt.is_none() => min_cost,
                    _ => transaction.cost,
                },
                waits: mode == Mode::CheckAndSpend && !transaction.no_wait,
                saturates: is_shadow || transaction.is_correction,
                charge: charge.charge,
            },
            mode,
            format: named.format(),
            on_failure: transaction.on_failure.or(named.failure()),
            shadow: is_shadow,
            secret: transaction.is_secret || named.redacts_ids(),
            lease: named.lease(),
            is_local: charge.is_local,
            place,
            print,
        });
        Ok(None)
    }

    /// Checks that the algorithm of a member can answer at all, whatever the state of the bucket.
    #[inline]
    pub(super) fn accept(
        &self,
        transaction: &Transaction<'_>,
        member: &Member<'_>,
    ) -> Result<Option<Without>, Failed> {
        if transaction.values.is_some() {
            self.admit(transaction, member)?;
        }
        let ask = &member.ask;
        let verb = match self.operation {
            Operation::Reset => return Ok(None),
            // They are refused even if their mode asks nothing of the bucket.
            Operation::Renew => Verb::Renew,
            Operation::Refund if ask.charge.is_none() => Verb::Refund,
            // A peek asks what a spend would get.
            Operation::Peek => Verb::Spend,
            _ => ask.verb,
        };
        let asks_for_part = transaction.min_cost.is_some() && ask.charge.is_none();
        let accepted = match member.algorithm.accepts(&Ask { verb, ..*ask }) {
            Ok(()) | Err(AskError::TooCostly(_))
                if asks_for_part && !matches!(member.algorithm, Algorithm::Tiers(_)) =>
            {
                Err(AskError::Part)
            }
            accepted => accepted,
        };
        match accepted {
            Ok(()) => Ok(None),
            // A debit has no bound, and so its refund has none.
            Err(AskError::TooCostly(_)) if verb == Verb::Refund && member.mode == Mode::Debit => {
                Ok(None)
            }
            Err(AskError::TooCostly(_)) if transaction.is_lenient || member.shadow => {
                Ok(Some(without_a_chance(member.mode, member.shadow)))
            }
            Err(error) => {
                let (limit, cost) = (transaction.limit, transaction.cost);
                Err(Box::new(LimiterError::not_accepted(limit, cost, error)))
            }
        }
    }

    #[cold]
    pub(super) fn decision_without(&self, without: Without) -> Decision {
        match without {
            Without::Limit => Decision::NOT_LIMITED,
            Without::Chance { votes, is_shadow } => {
                Decision::refused(self.operation, votes, is_shadow)
            }
        }
    }

    /// Returns what a refund or a renewal of a receipt asks of the bucket.
    #[cold]
    fn charge_of(
        &self,
        receipt: &'a Receipt,
        transaction: &Transaction<'_>,
        algorithm: AlgorithmKey,
        print: Fingerprint,
    ) -> Result<ChargeOf<'a>, Failed> {
        if !matches!(self.operation, Operation::Refund | Operation::Renew) {
            return Ok(ChargeOf::default());
        }
        // The charge can be in a bucket of another algorithm, which is no longer used.
        let is_current = receipt.algorithm() == algorithm;
        if is_current && !receipt.is_for(print) {
            let limit = transaction.limit;
            return Err(Box::new(LimiterError::foreign_receipt(limit)));
        }
        let is_ours = is_current && !receipt.is_local();
        Ok(ChargeOf {
            charge: Some(receipt.charge()),
            is_local: is_current && receipt.is_local() && !receipt.is_elsewhere(),
            verb: (!is_ours).then_some(Verb::Peek),
        })
    }

    /// Checks that the backend can keep a bucket of a limit that the transaction has brought.
    fn admit(&self, transaction: &Transaction<'_>, member: &Member<'_>) -> Result<(), Failed> {
        let admitted = self.limiter.shared.backend.admits(member);
        admitted.map_err(|error| {
            let limit = transaction.limit;
            Box::new(LimiterError::unsupported(limit, error.to_string()))
        })
    }
}

/// Returns places for ids that have to be folded.
pub(super) fn rooms(transactions: &[Transaction<'_>]) -> SmallVec<[Option<Id>; 4]> {
    transactions.iter().map(|_| None).collect()
}

/// Returns the canonical form of an id.
#[inline]
pub(super) fn canonical<'i>(
    named: &NamedLimit,
    transaction: &Transaction<'i>,
    folded: &'i mut Option<Id>,
) -> Result<&'i str, Failed> {
    match transaction.id {
        None => Ok(MISSING),
        Some(id) if transaction.is_canonical || named.format().keeps(id) => Ok(id),
        Some(id) => fold(named, transaction, id, folded),
    }
}

#[inline(never)]
fn fold<'i>(
    named: &NamedLimit,
    transaction: &Transaction<'_>,
    id: &'i str,
    folded: &'i mut Option<Id>,
) -> Result<&'i str, Failed> {
    named.format().fold_into(id, folded).map_err(|source| {
        Box::new(LimiterError::InvalidId {
            limit: transaction.limit.to_owned(),
            source: source.secret_if(transaction.is_secret),
        })
    })
}

/// Returns the limit that holds for a client, if there is one.
pub(super) fn limit_of<'a>(
    limits: &'a Limits,
    transaction: &Transaction<'a>,
) -> Result<Option<&'a Limit>, LimiterError> {
    let Some(named) = transaction.named(limits) else {
        return Err(LimiterError::unknown_limit(transaction.limit, limits));
    };
    let mut folded = None;
    let id = canonical(named, transaction, &mut folded).map_err(|error| *error)?;
    Ok(named.in_force(id, transaction.values))
}

#[cold]
fn without_a_chance(mode: Mode, is_shadow: bool) -> Without {
    Without::Chance {
        votes: mode.votes(),
        is_shadow,
    }
}

/// Returns a member whose bucket is that of an earlier one, too.
fn duplicate<'m, 'a>(members: &'m [Member<'a>]) -> Option<&'m Member<'a>> {
    let is_same = |one: &Member<'_>, other: &Member<'_>| one.print.bucket == other.print.bucket;
    let mut places = members.iter().enumerate();
    let found =
        places.find(|(place, one)| members[..*place].iter().any(|other| is_same(one, other)));
    found.map(|(_, member)| member)
}
