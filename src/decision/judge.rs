//! What an action does to a bucket: the one place where that is decided, for every backend.

use super::{
    answer::{Answer, State},
    stored::BucketView,
};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Tat},
    tiers::{Grant, Tiers, View},
    transaction::{Action, Algorithm, Member},
};

/// What becomes of one member if the batch passes.
#[inline(always)]
pub(super) fn judge(
    action: Action,
    member: &Member<'_>,
    seen: &BucketView<'_>,
    now: Timestamp,
) -> Answer {
    match member.algorithm {
        _ if action == Action::Reset => Answer::new(State::MISSING, true),
        Algorithm::Gcra(gcra) => judge_gcra(action, member, gcra, seen.tat(), now),
        Algorithm::Tiers(tiers) => seen.with_view(tiers, now, |view| {
            judge_tiers(action, member, tiers, view.clone())
        }),
    }
}

#[inline(always)]
pub(crate) fn judge_gcra(
    action: Action,
    member: &Member<'_>,
    gcra: &Gcra,
    tat: Tat,
    now: Timestamp,
) -> Answer {
    let at = now.as_micros();
    let next = match action {
        Action::Probe | Action::Spend => {
            gcra.spend_within(tat, at, member.cost, member.max_wait_us(gcra))
        }
        Action::ProbeDebit | Action::Debit => Some(gcra.debit(tat, at, member.cost)),
        Action::Refund => gcra.refund_charge(tat, at, member.refund(gcra), member.own_tat()),
        Action::Keep => None,
        Action::Reset => return Answer::new(State::MISSING, true),
    };
    let probes = matches!(action, Action::Probe | Action::ProbeDebit);
    let state = State::Gcra(next.filter(|_| !probes).unwrap_or(tat));
    Answer::new(state, next.is_some())
}

/// The state is that of after the grant, whether it will be written or not: nobody can tell it later.
#[inline]
fn judge_tiers(action: Action, member: &Member<'_>, tiers: &Tiers, view: View<'_>) -> Answer {
    let asks = matches!(action, Action::Probe | Action::Spend);
    let least = member.min_cost.max(1);
    let grant = view.plan(tiers, least, member.cost).filter(|_| asks);
    let view = match grant {
        Some(grant) => view.after(tiers, grant),
        None => view,
    };
    let figures = view.figures(tiers, least, grant.unwrap_or_default());
    Answer::new(State::Tiers(figures), grant.is_some())
}

/// How the bucket of a member stands if nothing is taken from it.
#[inline(never)]
pub(super) fn untouched(member: &Member<'_>, seen: &BucketView<'_>, now: Timestamp) -> State {
    match member.algorithm {
        Algorithm::Gcra(_) => State::Gcra(seen.tat()),
        Algorithm::Tiers(tiers) => seen.with_view(tiers, now, |view| {
            let least = member.min_cost.max(1);
            State::Tiers(view.figures(tiers, least, Grant::default()))
        }),
    }
}
