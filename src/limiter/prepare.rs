//! Turns transactions and corrections into the members of a batch.

use smallvec::SmallVec;

use super::{
    Limiter, Transaction,
    correction::Correction,
    decide::{BoxedLimiterError, Members},
    error::LimiterError,
};
use crate::{
    algorithm::{Algorithm, Ask, AskError, Verb},
    batch::{DecisionBasis, Member, MemberRole, OwnedMember},
    id::{Id, MISSING, client_hash},
    limit::{Limits, NamedLimit},
    transaction::{Mode, Operation, Receipt},
};

impl Limiter {
    /// Prepares the members of transactions.
    pub(super) fn prepare_all<'a>(
        &self,
        operation: Operation,
        limits: &'a Limits,
        transactions: &[Transaction<'a>],
        folded: &'a mut [Option<Id>],
    ) -> Result<Members<'a>, BoxedLimiterError> {
        let mut members = Members::new();
        for (transaction, folded) in transactions.iter().zip(folded) {
            let mut member = None;
            self.prepare(operation, limits, transaction, folded, &mut member)?;
            members.extend(member);
        }
        if operation != Operation::Renew
            && let Some(member) = duplicate(&members)
        {
            return Err(Box::new(LimiterError::duplicate_bucket(member)));
        }
        check_line(operation, &members)?;
        Ok(members)
    }

    /// Prepares the member of a transaction: looks up its limit, and folds and hashes its id. The member is written to its slot,
    /// because moving it would take longer than the arithmetic.
    #[inline(always)]
    pub(super) fn prepare<'m, 'a>(
        &self,
        operation: Operation,
        limits: &'a Limits,
        transaction: &Transaction<'a>,
        folded: &'a mut Option<Id>,
        slot: &'m mut Option<Member<'a>>,
    ) -> Result<&'m mut Member<'a>, BoxedLimiterError> {
        let limit = named(limits, transaction.limit)?;
        let id = canonical(limit, transaction, folded)?;
        let ask = Ask {
            min_cost: transaction.min_cost.unwrap_or(transaction.cost),
            waits: !transaction.no_wait,
            ..Ask::new(Verb::Peek, transaction.cost)
        };
        let role = MemberRole {
            mode: transaction.mode,
            on_failure: transaction.on_failure,
            is_secret: transaction.is_secret,
            ..MemberRole::default()
        };
        let id = (id, client_hash(id));
        let values = transaction.values;
        let member = slot.insert(Member::prepared(operation, limit, id, values, ask, role));
        if let Some(receipt) = transaction.receipt {
            ask_for_charge(operation, receipt, member)?;
        }
        let asks_for_part = transaction.min_cost.is_some() && transaction.receipt.is_none();
        self.accept(operation, asks_for_part, member)?;
        Ok(member)
    }

    /// Prepares the correction of a charge.
    pub(super) fn prepare_correction<'a>(
        &self,
        limits: &'a Limits,
        client: &'a OwnedMember,
        correction: &Correction<'_>,
    ) -> Result<Member<'a>, BoxedLimiterError> {
        let limit = named(limits, client.limit().name())?;
        let cost = correction.receipt.map_or(correction.cost, Receipt::cost);
        let ask = Ask {
            min_cost: correction.min_cost.unwrap_or(cost),
            ..Ask::new(Verb::Peek, cost)
        };
        let mut member = client.corrected(correction.operation, limit, ask, correction.mode);
        if let Some(receipt) = correction.receipt {
            ask_for_charge(correction.operation, receipt, &mut member)?;
        }
        let asks_for_part = correction.min_cost.is_some();
        self.accept(correction.operation, asks_for_part, &mut member)?;
        Ok(member)
    }

    /// Checks that the backend and the algorithm of a member can answer its question at all, whatever the state of the bucket. In
    /// shadow mode, a cost that can never pass is a denial, not an error.
    #[inline]
    pub(crate) fn accept(
        &self,
        operation: Operation,
        asks_for_part: bool,
        member: &mut Member<'_>,
    ) -> Result<(), BoxedLimiterError> {
        if !member.has_bucket() {
            return Ok(());
        }
        member.name_permits();
        let limit = member.limit.name();
        if member.role.is_brought {
            let admitted = self.shared.backend.admits(member);
            admitted.map_err(|error| LimiterError::unsupported(limit, error.to_string()))?;
        }
        let ask = &member.ask;
        let algorithm = member.algorithm();
        let verb = match operation {
            Operation::Reset => return Ok(()),
            // Renewals are checked even if their mode does not use the bucket.
            Operation::Renew => Verb::Renew,
            Operation::Refund if ask.charge.is_none() => Verb::Refund,
            // A peek shows what a spend would get.
            Operation::Peek => Verb::Spend,
            _ => ask.verb,
        };
        let error = match algorithm.accepts(&Ask { verb, ..*ask }) {
            Ok(()) | Err(AskError::TooCostly(_))
                if asks_for_part && !matches!(algorithm, Algorithm::Tiers(_)) =>
            {
                AskError::Part
            }
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match error {
            // The cost of a debit has no bound, so neither has that of its refund.
            AskError::TooCostly(_) if verb == Verb::Refund && member.mode() == Mode::Debit => {
                Ok(())
            }
            AskError::TooCostly(_) if member.limit.is_shadow() => {
                member.role.basis = DecisionBasis::Block;
                Ok(())
            }
            error => {
                let error = LimiterError::not_accepted(limit, ask.cost, error);
                Err(Box::new(error))
            }
        }
    }
}

/// Makes a refund or a renewal refer to the charge of a receipt.
#[cold]
fn ask_for_charge(
    operation: Operation,
    receipt: &Receipt,
    member: &mut Member<'_>,
) -> Result<(), BoxedLimiterError> {
    let is_asked = matches!(operation, Operation::Refund | Operation::Renew);
    if !is_asked || !member.has_bucket() {
        return Ok(());
    }
    // The algorithm of the limit may have changed since the charge, whose bucket is then no longer used.
    let is_current = receipt.algorithm() == member.algorithm().key();
    if is_current && !receipt.is_for(member.print) {
        let limit = member.limit.name();
        return Err(Box::new(LimiterError::foreign_receipt(limit)));
    }
    member.ask.charge = Some(*receipt.charge());
    member.role.is_local = is_current && receipt.is_local() && !receipt.is_elsewhere();
    // The store does not have this charge.
    if !is_current || receipt.is_local() {
        member.ask.verb = Verb::Peek;
    }
    Ok(())
}

#[inline]
fn named<'a>(limits: &'a Limits, name: &str) -> Result<&'a NamedLimit, BoxedLimiterError> {
    let found = limits.get(name);
    found.ok_or_else(|| Box::new(LimiterError::unknown_limit(name, limits)))
}

/// Returns the canonical form of an id.
#[inline]
fn canonical<'i>(
    limit: &NamedLimit,
    transaction: &Transaction<'i>,
    folded: &'i mut Option<Id>,
) -> Result<&'i str, BoxedLimiterError> {
    match transaction.id {
        None => Ok(MISSING),
        Some(id) if limit.format().keeps(id) => Ok(id),
        Some(id) => fold(limit, transaction, id, folded),
    }
}

#[inline(never)]
fn fold<'i>(
    limit: &NamedLimit,
    transaction: &Transaction<'_>,
    id: &'i str,
    folded: &'i mut Option<Id>,
) -> Result<&'i str, BoxedLimiterError> {
    limit.format().fold_into(id, folded).map_err(|source| {
        Box::new(LimiterError::InvalidId {
            limit: transaction.limit.to_owned(),
            source: source.secret_if(transaction.is_secret || limit.redacts_ids()),
        })
    })
}

/// Returns a member that has the same bucket as an earlier one.
fn duplicate<'m, 'a>(members: &'m [Member<'a>]) -> Option<&'m Member<'a>> {
    let with_bucket = members.iter().filter(|member| member.has_bucket());
    let mut sorted: SmallVec<[u64; 8]> = with_bucket.map(|member| member.print.bucket).collect();
    sorted.sort_unstable();
    let same = sorted.windows(2).find(|pair| pair[0] == pair[1])?;
    let mut latest = members.iter().rev();
    latest.find(|member| member.print.bucket == same[0])
}

/// Rejects a batch that would hold permits while it waits in line.
pub(crate) fn check_line(
    operation: Operation,
    members: &[Member<'_>],
) -> Result<(), BoxedLimiterError> {
    let Some(line) = members.iter().find(|member| member.may_wait()) else {
        return Ok(());
    };
    let has_permits = |member: &&Member<'_>| {
        let is_held = member.has_bucket() && member.algorithm().hold().is_some();
        is_held && member.writes(operation)
    };
    let Some(permits) = members.iter().find(has_permits) else {
        return Ok(());
    };
    let reason = format!(
        "its permits would be held while the request waits in line for limit `{}`: take them in a batch of their own, when it is \
         the request's turn (in a layer inside of the one with the line), or do not wait (`no_wait`)",
        line.limit.name()
    );
    let error = LimiterError::unsupported(permits.limit.name(), reason);
    Err(Box::new(error))
}
