//! From transactions to the members of a batch.

use std::iter::zip;

use smallvec::SmallVec;

use super::{
    Transaction,
    decide::{Call, Failed, Members},
    error::LimiterError,
};
use crate::{
    algorithm::{Algorithm, Ask, AskError, Verb},
    decision::Decision,
    id::{Id, MISSING},
    limit::{Limit, Limits, NamedLimit},
    transaction::{BucketKey, Member, Mode, Operation, Receipt},
};

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
            if let Some(member) = members.get_mut(before) {
                without = self.accept(transaction, member)?;
            }
            if let Some(without) = without {
                members.truncate(before);
                *decision = without;
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
        self.check_line(transactions, members)
    }

    /// Rejects a batch that would hold permits while it waits in line.
    fn check_line(
        &self,
        transactions: &[Transaction<'_>],
        members: &[Member<'_>],
    ) -> Result<(), Failed> {
        let waits = |member: &&Member<'_>| member.ask.waits && member.algorithm.has_line();
        let has_permits = |member: &&Member<'_>| {
            member.algorithm.hold().is_some() && self.operation.writes(member)
        };
        let Some(line) = members.iter().find(waits) else {
            return Ok(());
        };
        let Some(permits) = members.iter().find(has_permits) else {
            return Ok(());
        };
        let reason = format!(
            "its permits would be held while the request waits in line for limit `{}`: take them in a batch of their own, when \
             it is the request's turn (in a layer inside of the one with the line), or do not wait (`no_wait`)",
            transactions[line.place].limit
        );
        let limit = transactions[permits.place].limit;
        Err(Box::new(LimiterError::unsupported(limit, reason)))
    }

    /// Looks up the limit of a transaction, folds and hashes its id, and adds a member, or returns the decision without one.
    #[inline]
    pub(super) fn look_up(
        &self,
        transaction: &Transaction<'a>,
        place: usize,
        folded: &'a mut Option<Id>,
        add: impl FnOnce(Member<'a>),
    ) -> Result<Option<Decision>, Failed> {
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
                    true => Decision::refused(self.operation, mode.votes(), is_shadow),
                    false => Decision::NOT_LIMITED,
                },
            ));
        };
        let verb = self.operation.verb(mode);
        // It is made where it stays: copies take longer than the arithmetic.
        add(Member {
            key: BucketKey {
                limit: named.key(),
                algorithm: algorithm.key(),
                id,
            },
            algorithm,
            ask: Ask {
                verb,
                cost: transaction.cost,
                min_cost: transaction.min_cost.unwrap_or(transaction.cost),
                waits: mode == Mode::CheckAndSpend && !transaction.no_wait,
                saturates: is_shadow || transaction.is_correction,
                charge: match verb {
                    Verb::Spend => algorithm.new_permits(transaction.cost),
                    _ => None,
                },
            },
            mode,
            format: named.format(),
            on_failure: transaction.on_failure.or(named.failure()),
            shadow: is_shadow,
            secret: transaction.is_secret || named.redacts_ids(),
            lease: named.lease(),
            is_local: false,
            place,
            print: named.seed().fingerprint(algorithm.key(), id),
        });
        Ok(None)
    }

    /// Checks that the algorithm of a member can answer at all, whatever the state of the bucket. Returns the decision if it
    /// always denies.
    #[inline]
    pub(super) fn accept(
        &self,
        transaction: &Transaction<'a>,
        member: &mut Member<'a>,
    ) -> Result<Option<Decision>, Failed> {
        if transaction.values.is_some() {
            self.admit(transaction, member)?;
        }
        if let Some(receipt) = transaction.receipt {
            self.ask_for_charge(receipt, transaction, member)?;
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
        let asks_for_part = transaction.min_cost.is_some() && transaction.receipt.is_none();
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
                let (votes, is_shadow) = (member.mode.votes(), member.shadow);
                Ok(Some(Decision::refused(self.operation, votes, is_shadow)))
            }
            Err(error) => {
                let (limit, cost) = (transaction.limit, transaction.cost);
                Err(Box::new(LimiterError::not_accepted(limit, cost, error)))
            }
        }
    }

    /// Lets a refund or a renewal be about the charge of a receipt.
    #[cold]
    fn ask_for_charge(
        &self,
        receipt: &'a Receipt,
        transaction: &Transaction<'_>,
        member: &mut Member<'a>,
    ) -> Result<(), Failed> {
        if !matches!(self.operation, Operation::Refund | Operation::Renew) {
            return Ok(());
        }
        // The charge can be in a bucket of another algorithm, which is no longer used.
        let is_current = receipt.algorithm() == member.key.algorithm;
        if is_current && !receipt.is_for(member.print) {
            return Err(Box::new(LimiterError::foreign_receipt(transaction.limit)));
        }
        member.ask.charge = Some(*receipt.charge());
        member.is_local = is_current && receipt.is_local() && !receipt.is_elsewhere();
        // The store does not have it.
        if !is_current || receipt.is_local() {
            member.ask.verb = Verb::Peek;
        }
        Ok(())
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
            source: source.secret_if(transaction.is_secret || named.redacts_ids()),
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

/// Returns a member whose bucket is that of another one, too.
fn duplicate<'m, 'a>(members: &'m [Member<'a>]) -> Option<&'m Member<'a>> {
    let buckets = members.iter().map(|member| member.print.bucket);
    let mut sorted: SmallVec<[u64; 8]> = buckets.collect();
    sorted.sort_unstable();
    let same = sorted.windows(2).find(|pair| pair[0] == pair[1])?;
    let mut latest = members.iter().rev();
    latest.find(|member| member.print.bucket == same[0])
}
