//! From transactions and corrections to the members of a batch.

use smallvec::SmallVec;

use super::{
    Limiter, Transaction,
    charged::Correction,
    decide::{Failed, Members},
    error::LimiterError,
};
use crate::{
    algorithm::{Algorithm, Ask, AskError, Verb},
    batch::{Member, Needs, OwnedMember, Role},
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
    ) -> Result<Members<'a>, Failed> {
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

    /// Prepares the member of a transaction: looks up its limit, and folds and hashes its id. It is made where it stays, because
    /// copies take longer than the arithmetic.
    #[inline(always)]
    pub(super) fn prepare<'m, 'a>(
        &self,
        operation: Operation,
        limits: &'a Limits,
        transaction: &Transaction<'a>,
        folded: &'a mut Option<Id>,
        place: &'m mut Option<Member<'a>>,
    ) -> Result<&'m mut Member<'a>, Failed> {
        let limit = named(limits, transaction.limit)?;
        let id = canonical(limit, transaction, folded)?;
        let ask = Ask {
            min_cost: transaction.min_cost.unwrap_or(transaction.cost),
            waits: !transaction.no_wait,
            ..Ask::new(Verb::Peek, transaction.cost)
        };
        let role = Role {
            mode: transaction.mode,
            on_failure: transaction.on_failure,
            is_secret: transaction.is_secret,
            ..Role::default()
        };
        let id = (id, client_hash(id));
        let values = transaction.values;
        let member = place.insert(Member::prepared(operation, limit, id, values, ask, role));
        if let Some(receipt) = transaction.receipt {
            ask_for_charge(operation, receipt, member)?;
        }
        let asks_for_part = transaction.min_cost.is_some() && transaction.receipt.is_none();
        self.accept(operation, asks_for_part, member)?;
        Ok(member)
    }

    /// Prepares the correction of what a client was charged.
    pub(super) fn prepare_correction<'a>(
        &self,
        limits: &'a Limits,
        client: &'a OwnedMember,
        correction: &Correction<'_>,
    ) -> Result<Member<'a>, Failed> {
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

    /// Checks that the backend and the algorithm of a member can answer at all, whatever the state of the bucket. In shadow mode,
    /// a cost that can never pass is only denied.
    #[inline]
    pub(crate) fn accept(
        &self,
        operation: Operation,
        asks_for_part: bool,
        member: &mut Member<'_>,
    ) -> Result<(), Failed> {
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
            // They are refused even if their mode asks nothing of the bucket.
            Operation::Renew => Verb::Renew,
            Operation::Refund if ask.charge.is_none() => Verb::Refund,
            // A peek asks what a spend would get.
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
            // A debit has no bound, and so its refund has none.
            AskError::TooCostly(_) if verb == Verb::Refund && member.mode() == Mode::Debit => {
                Ok(())
            }
            AskError::TooCostly(_) if member.limit.is_shadow() => {
                member.role.needs = Needs::Refusal;
                Ok(())
            }
            error => {
                let error = LimiterError::not_accepted(limit, ask.cost, error);
                Err(Box::new(error))
            }
        }
    }
}

/// Lets a refund or a renewal be about the charge of a receipt.
#[cold]
fn ask_for_charge(
    operation: Operation,
    receipt: &Receipt,
    member: &mut Member<'_>,
) -> Result<(), Failed> {
    let is_asked = matches!(operation, Operation::Refund | Operation::Renew);
    if !is_asked || !member.has_bucket() {
        return Ok(());
    }
    // The charge can be in a bucket of another algorithm, which is no longer used.
    let is_current = receipt.algorithm() == member.algorithm().key();
    if is_current && !receipt.is_for(member.print) {
        let limit = member.limit.name();
        return Err(Box::new(LimiterError::foreign_receipt(limit)));
    }
    member.ask.charge = Some(*receipt.charge());
    member.role.is_local = is_current && receipt.is_local() && !receipt.is_elsewhere();
    // The store does not have it.
    if !is_current || receipt.is_local() {
        member.ask.verb = Verb::Peek;
    }
    Ok(())
}

#[inline]
fn named<'a>(limits: &'a Limits, name: &str) -> Result<&'a NamedLimit, Failed> {
    let found = limits.get(name);
    found.ok_or_else(|| Box::new(LimiterError::unknown_limit(name, limits)))
}

/// Returns the canonical form of an id.
#[inline]
fn canonical<'i>(
    limit: &NamedLimit,
    transaction: &Transaction<'i>,
    folded: &'i mut Option<Id>,
) -> Result<&'i str, Failed> {
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
) -> Result<&'i str, Failed> {
    limit.format().fold_into(id, folded).map_err(|source| {
        Box::new(LimiterError::InvalidId {
            limit: transaction.limit.to_owned(),
            source: source.secret_if(transaction.is_secret || limit.redacts_ids()),
        })
    })
}

/// Returns a member whose bucket is that of another one, too.
fn duplicate<'m, 'a>(members: &'m [Member<'a>]) -> Option<&'m Member<'a>> {
    let with_bucket = members.iter().filter(|member| member.has_bucket());
    let mut sorted: SmallVec<[u64; 8]> = with_bucket.map(|member| member.print.bucket).collect();
    sorted.sort_unstable();
    let same = sorted.windows(2).find(|pair| pair[0] == pair[1])?;
    let mut latest = members.iter().rev();
    latest.find(|member| member.print.bucket == same[0])
}

/// Rejects a batch that would hold permits while it waits in line.
pub(crate) fn check_line(operation: Operation, members: &[Member<'_>]) -> Result<(), Failed> {
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
