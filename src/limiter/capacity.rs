//! Storage for the decision of one transaction or of several: ids, members and decisions.

use std::{iter, slice};

use smallvec::SmallVec;

use super::{
    limiter_error::LimiterError,
    prepare::{Lookups, NoMember, refuse_duplicates},
    recorder::Recorded,
};
use crate::{
    decision::{BatchDecision, Decision, Decisions, Outcome},
    id::Id,
    transaction::{Batch, Member, Transaction},
};

/// The result of looking transactions up.
pub(crate) enum Prepared<'m, 'a, C: Capacity> {
    /// The backend decides these members. The others are decided without it.
    Members(&'m [Member<'a>], C::Others),
    /// Nothing: the backend is not needed.
    Decided(C::Decided),
}

/// The number of transactions that are decided together: one or many. Both take the same path, and a single transaction
/// costs no more than necessary.
///
/// Members are stored apart from everything else, because they are lent to the backend. The compiler has to assume that
/// the backend changes what is stored beside them.
pub(crate) trait Capacity: Sized + 'static {
    /// The transactions.
    type Transactions<'a>: Transactions<'a>;

    /// Room for the canonical forms of ids that were written in another form.
    type Ids: Default + 'static;

    /// The batch for the backend.
    type Members<'a>: Default;

    /// The transactions of the batch that are decided without the backend.
    type Others;

    /// The decisions.
    type Decided: Decisions;

    /// Looks the transactions up.
    fn prepare<'a, 'm, 't: 'a>(
        lookups: Lookups<'a>,
        transactions: Self::Transactions<'t>,
        ids: &'a mut Self::Ids,
        members: &'m mut Self::Members<'a>,
    ) -> Result<Prepared<'m, 'a, Self>, Box<LimiterError>>;

    /// Returns the decisions before any is made.
    fn nothing() -> Self::Decided;

    /// Returns the decision of the only transaction.
    fn of_one(decision: Decision) -> Self::Decided;

    /// Gathers the decisions in the order of the transactions, from the outcome and from those decided without the
    /// backend, into `decided`. Returns whether each answer is one to its member.
    fn gather(
        batch: &Batch<'_>,
        outcome: &Outcome,
        others: &Self::Others,
        decided: &mut Self::Decided,
    ) -> bool;
}

/// One transaction.
pub(crate) enum One {}

/// Any number of transactions; up to four are kept without an allocation.
pub(crate) enum Many {}

impl Capacity for One {
    type Transactions<'a> = &'a Transaction<'a>;
    type Ids = Option<Id>;
    type Members<'a> = Option<Member<'a>>;
    type Others = ();
    type Decided = Decision;

    #[inline(always)]
    fn prepare<'a, 'm, 't: 'a>(
        lookups: Lookups<'a>,
        transaction: &'t Transaction<'t>,
        room: &'a mut Option<Id>,
        members: &'m mut Option<Member<'a>>,
    ) -> Result<Prepared<'m, 'a, Self>, Box<LimiterError>> {
        Ok(match lookups.look_up(transaction, room, members)? {
            Ok(member) => Prepared::Members(slice::from_ref(member), ()),
            Err(other) => Prepared::Decided(other.decision(lookups.operation)),
        })
    }

    #[inline(always)]
    fn nothing() -> Decision {
        Decision::NOT_LIMITED
    }

    #[inline(always)]
    fn of_one(decision: Decision) -> Decision {
        decision
    }

    #[inline(always)]
    fn gather(batch: &Batch<'_>, outcome: &Outcome, (): &(), decided: &mut Decision) -> bool {
        let decision = outcome.decision(batch, 0, outcome.passes(batch));
        decision.map(|decision| *decided = decision).is_some()
    }
}

impl Capacity for Many {
    type Transactions<'a> = &'a [Transaction<'a>];
    type Ids = SmallVec<[Option<Id>; 4]>;
    type Members<'a> = SmallVec<[Member<'a>; 4]>;
    /// Each transaction with its place in the batch.
    type Others = SmallVec<[(usize, NoMember); 4]>;
    type Decided = BatchDecision;

    fn prepare<'a, 'm, 't: 'a>(
        lookups: Lookups<'a>,
        transactions: &'t [Transaction<'t>],
        ids: &'a mut Self::Ids,
        members: &'m mut Self::Members<'a>,
    ) -> Result<Prepared<'m, 'a, Self>, Box<LimiterError>> {
        ids.resize_with(transactions.len(), || None);
        let mut others = Self::Others::new();
        for (place, (transaction, room)) in transactions.iter().zip(ids).enumerate() {
            if let Err(other) = lookups.look_up(transaction, room, members)? {
                others.push((place, other));
            }
        }
        refuse_duplicates(members, transactions)?;
        let mut refused = others.iter();
        let is_refused = refused.any(|(_, other)| other.refuses(lookups.operation));
        if !is_refused && !members.is_empty() {
            return Ok(Prepared::Members(members, others));
        }
        let mut decided = BatchDecision::default();
        in_order(members.len(), &others, |part| {
            decided.push(match part {
                Ok(_) => Decision::NOT_LIMITED,
                Err(other) => other.decision(lookups.operation),
            });
        });
        Ok(Prepared::Decided(decided))
    }

    #[inline(always)]
    fn nothing() -> BatchDecision {
        BatchDecision::default()
    }

    fn of_one(decision: Decision) -> BatchDecision {
        let mut decided = BatchDecision::default();
        decided.push(decision);
        decided
    }

    #[inline(always)]
    fn gather(
        batch: &Batch<'_>,
        outcome: &Outcome,
        others: &Self::Others,
        decided: &mut BatchDecision,
    ) -> bool {
        let passes = outcome.passes(batch);
        let mut answers_all = true;
        in_order(batch.members.len(), others, |part| {
            let decision = match part {
                Ok(member) => outcome.decision(batch, member, passes),
                Err(other) => Some(other.decision(batch.operation)),
            };
            match decision {
                Some(decision) => decided.push(decision),
                None => answers_all = false,
            }
        });
        answers_all
    }
}

/// Merges members and others into the order of the transactions. Members are passed as their index, others as they are.
#[inline(always)]
fn in_order(
    members: usize,
    others: &[(usize, NoMember)],
    mut take: impl FnMut(Result<usize, NoMember>),
) {
    if others.is_empty() {
        return (0..members).for_each(|member| take(Ok(member)));
    }
    let mut next = others.iter().peekable();
    let mut left_out = 0;
    for place in 0..members + others.len() {
        match next.next_if(|(at, _)| *at == place) {
            Some((_, other)) => {
                take(Err(*other));
                left_out += 1;
            }
            None => take(Ok(place - left_out)),
        }
    }
}

/// Transactions that are decided together.
pub(crate) trait Transactions<'a>: Copy {
    /// The transaction, if there is only one.
    fn only(self) -> Option<&'a Transaction<'a>>;

    /// The recorded parts of the transactions.
    fn recorded(self) -> impl Iterator<Item = Recorded<'a>>;
}

impl<'a> Transactions<'a> for &'a Transaction<'a> {
    #[inline(always)]
    fn only(self) -> Option<&'a Transaction<'a>> {
        Some(self)
    }

    #[inline(always)]
    fn recorded(self) -> impl Iterator<Item = Recorded<'a>> {
        iter::once(Recorded::from(self))
    }
}

impl<'a> Transactions<'a> for &'a [Transaction<'a>] {
    #[inline]
    fn only(self) -> Option<&'a Transaction<'a>> {
        match self {
            [only] => Some(only),
            _ => None,
        }
    }

    #[inline]
    fn recorded(self) -> impl Iterator<Item = Recorded<'a>> {
        self.iter().map(Recorded::from)
    }
}
