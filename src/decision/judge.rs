//! The effect of an action on a bucket. All backends use this one implementation.

use super::{
    answer::{Answer, State, TakenPart},
    stored::BucketView,
};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Tat, Ticks},
    quota::{Quota, Usage},
    tiers::{Grant, TierView, Tiers},
    transaction::{Action, Algorithm, Member, StoredCharge},
    window::{Change, Window, WindowView},
};

/// Returns the answer for one member if the batch passes.
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
            judge_tiers(action, member, tiers, &mut view.clone())
        }),
        Algorithm::Window(window) => judge_window(action, member, window, &seen.window(now)),
        Algorithm::Quota(quota) => judge_quota(action, member, quota, seen.usage(), now),
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
        Action::ProbeDebit | Action::Debit => return debit_gcra(action, member, gcra, tat, at),
        Action::Refund => gcra.refund_charge(tat, at, member.refund(gcra), member.own_tat()),
        Action::Keep => None,
        Action::Reset => return Answer::new(State::MISSING, true),
    };
    let state = State::Gcra(next.filter(|_| action != Action::Probe).unwrap_or(tat));
    Answer::new(state, next.is_some())
}

#[inline(never)]
fn debit_gcra(action: Action, member: &Member<'_>, gcra: &Gcra, tat: Tat, at: u64) -> Answer {
    let next = gcra.debit(tat, at, member.cost);
    let part = gcra.taken_part(tat, next, at, member.cost);
    let state = match action {
        Action::Debit => next,
        _ => tat,
    };
    Answer {
        taken: part.map(|(cost, short)| TakenPart { cost, short }),
        ..Answer::new(State::Gcra(state), true)
    }
}

#[inline(always)]
pub(crate) fn judge_quota(
    action: Action,
    member: &Member<'_>,
    quota: &Quota,
    usage: Usage,
    now: Timestamp,
) -> Answer {
    let (at, cost) = (now.as_micros(), member.cost);
    let next = match action {
        Action::Probe | Action::Spend => quota.spend(usage, at, cost),
        Action::ProbeDebit | Action::Debit => return debit_quota(action, member, quota, usage, at),
        Action::Refund => match member.receipt {
            None => quota.refund(usage, at, cost),
            Some(receipt) => match receipt.stored_charge() {
                Some(StoredCharge::Quota { start_us }) => {
                    quota.refund_in(usage, at, start_us, cost)
                }
                _ => None,
            },
        },
        Action::Keep => None,
        Action::Reset => return Answer::new(State::MISSING, true),
    };
    let after = next.filter(|_| action != Action::Probe);
    let state = after.unwrap_or_else(|| quota.current(usage, at));
    Answer::new(State::Quota(state), next.is_some())
}

#[inline(never)]
fn debit_quota(
    action: Action,
    member: &Member<'_>,
    quota: &Quota,
    usage: Usage,
    at: u64,
) -> Answer {
    let (before, next) = (
        quota.current(usage, at),
        quota.debit(usage, at, member.cost),
    );
    let cost = next.used - before.used;
    let short = Ticks::default();
    let state = match action {
        Action::Debit => next,
        _ => before,
    };
    Answer {
        taken: (cost < member.cost).then_some(TakenPart { cost, short }),
        ..Answer::new(State::Quota(state), true)
    }
}

/// The answer has the state after the change even if the change is not written, because it cannot be computed later. A
/// debit fails if the window has no room for it.
#[inline]
pub(crate) fn judge_window(
    action: Action,
    member: &Member<'_>,
    window: &Window,
    view: &WindowView<'_>,
) -> Answer {
    let cost = member.cost;
    if member.ago_us > 0 && matches!(action, Action::Debit | Action::ProbeDebit) {
        let at = view.ago(member.ago_us);
        let figures = view.figures_at(window, cost, view.debit_at(window, at, cost), at);
        return Answer::new(State::Window(figures), true);
    }
    let change = match action {
        Action::Probe | Action::Spend => view.spend(window, cost),
        Action::ProbeDebit | Action::Debit if member.saturates => Some(view.debit_saturating(cost)),
        Action::ProbeDebit | Action::Debit => view.debit(cost),
        Action::Refund => Some(match member.receipt {
            None => view.refund(cost),
            Some(receipt) => match receipt.stored_charge() {
                Some(StoredCharge::Window { at }) => view.refund_at(at.as_micros(), cost),
                _ => Change::Nothing,
            },
        })
        .filter(|change| change.units() > 0),
        Action::Keep => None,
        Action::Reset => return Answer::new(State::MISSING, true),
    };
    let figures = view.figures(window, cost, change.unwrap_or_default());
    Answer::new(State::Window(figures), change.is_some())
}

/// The answer has the state after the grant even if the grant is not written, because it cannot be computed later.
#[inline]
pub(crate) fn judge_tiers(
    action: Action,
    member: &Member<'_>,
    tiers: &Tiers,
    view: &mut TierView<'_>,
) -> Answer {
    let asks = matches!(action, Action::Probe | Action::Spend);
    let least = member.min_cost.max(1);
    let grant = view.plan(tiers, least, member.cost).filter(|_| asks);
    if let Some(grant) = grant {
        view.take(tiers, grant);
    }
    let figures = view.figures(tiers, least, grant.unwrap_or_default());
    Answer::new(State::Tiers(figures), grant.is_some())
}

/// Returns the state of a member's bucket if nothing is taken from it.
#[inline(never)]
pub(super) fn untouched(member: &Member<'_>, seen: &BucketView<'_>, now: Timestamp) -> State {
    match member.algorithm {
        Algorithm::Gcra(_) => State::Gcra(seen.tat()),
        Algorithm::Tiers(tiers) => seen.with_view(tiers, now, |view| {
            let least = member.min_cost.max(1);
            State::Tiers(view.figures(tiers, least, Grant::default()))
        }),
        Algorithm::Window(window) => {
            let view = seen.window(now);
            State::Window(view.figures(window, member.cost, Change::Nothing))
        }
        Algorithm::Quota(quota) => State::Quota(quota.current(seen.usage(), now.as_micros())),
    }
}
