//! What the local memories learn from the answers of the store.

use super::{local::Local, pending::SeenState};
use crate::{
    algorithm::Charge,
    clock::Timestamp,
    decision::{Answer, Outcome, State},
    gcra::{Gcra, MAX_TICKS_US, Tat},
    quota::{Quota, Usage},
    transaction::{Algorithm, Batch, Member, Mode, Operation, Receipt},
    window::{Change, WindowCharge, WindowSnapshot},
};

impl Local {
    /// Remembers the decisions of the store.
    pub(super) fn learn(&self, batch: &Batch<'_>, outcome: &Outcome) {
        let now = batch.now.unwrap_or_else(|| self.own.now());
        if matches!(batch.operation, Operation::Refund | Operation::Reset) {
            // An older state must not be stored after these.
            self.store_pending(batch, now.as_micros());
        }
        if batch.operation == Operation::Reset {
            return self.learn_reset(batch, outcome, now);
        }
        let passes = outcome.passes(batch);
        for (index, (member, answer)) in batch.members.iter().zip(outcome.answers()).enumerate() {
            if !answer.known || answer.leased {
                continue;
            }
            let state = answer.state.by_clock(outcome.now, now);
            let at = outcome.time_of(index);
            let is_given_back = batch.operation == Operation::Refund && answer.passed;
            match (member.algorithm, state) {
                (Algorithm::Gcra(gcra), State::Gcra(tat)) => {
                    let bucket = Bucket::new(member, gcra, now, at);
                    match is_given_back {
                        true => self.learn_refund(bucket, tat),
                        false => self.learn_state(bucket, tat, batch.now.is_none()),
                    }
                }
                (Algorithm::Quota(quota), State::Quota(usage)) => {
                    let bucket = Bucket::new(member, quota, now, at);
                    self.learn_usage(bucket, usage, is_given_back);
                }
                (Algorithm::Window(_), State::Window(figures)) => {
                    if passes && batch.action(member).writes() {
                        self.learn_units(member, &figures, now);
                    }
                }
                _ => {
                    let answer = Answer { state, ..*answer };
                    let action = batch.action(member);
                    self.own.learn_history(action, member, &answer, now);
                }
            }
        }
    }

    /// Resets the buckets. What the store has charged after the reset counts, even if its answer has arrived before.
    fn learn_reset(&self, batch: &Batch<'_>, outcome: &Outcome, now: Timestamp) {
        let reset = batch.at(Some(now));
        let _ = (self.seen.decide(&reset), self.own.decide(&reset));
        for (index, member) in batch.members.iter().enumerate() {
            self.order.with(member.fingerprint, |watched| {
                let at = outcome.time_of(index);
                let newer = watched.and_then(|watched| watched.lowered(at, State::MISSING));
                match (member.algorithm, newer) {
                    (Algorithm::Gcra(gcra), Some(State::Gcra(tat))) => {
                        self.seen.change(member, gcra, now, |seen| seen.max(tat));
                    }
                    (Algorithm::Quota(quota), Some(State::Quota(usage))) => {
                        self.seen.change_usage(member, quota, now, |_| usage);
                    }
                    _ => {}
                }
            });
        }
    }

    /// Records a state that the store has answered. It can be stored later if its instant is by this process's clock.
    #[inline]
    fn learn_state(&self, bucket: Bucket<'_, Gcra>, tat: Tat, is_by_own_clock: bool) {
        let tat = bucket.bounded(tat);
        self.order.with(bucket.member.fingerprint, |watched| {
            let is_watched = watched.is_some();
            let is_overtaken =
                watched.is_some_and(|watched| !watched.saw(bucket.at, State::Gcra(tat)));
            // A bucket that is full again is not stored.
            if is_overtaken || tat.us < bucket.now.as_micros() {
                return;
            }
            let state = SeenState {
                bucket: bucket.member.fingerprint,
                gcra: *bucket.algorithm,
                tat,
                now: bucket.now,
            };
            let may_wait = is_by_own_clock && !is_watched;
            if !(may_wait && self.pending.keep(state, |kept| self.store_state(kept))) {
                self.store_state(&state);
            }
        });
    }

    /// Raises the TAT seen at the store, and never lowers it: answers can arrive out of order, and a store can lose its
    /// data. If local charges of this bucket still count, the store's charges are added to them as well.
    ///
    /// Both memories change by the same span here and in [`learn_refund`](Self::learn_refund). So their difference, which
    /// is the debt, only changes with local charges and when a debt is settled.
    pub(super) fn store_state(&self, state: &SeenState) {
        let SeenState {
            bucket,
            gcra,
            tat,
            now,
        } = state;
        let now_us = now.as_micros();
        let raise = |seen: Tat| seen.max(*tat);
        let (before, after) = self.seen.change_row(bucket, gcra, *now, raise);
        if !self.pending.are_at_once(now_us) {
            // No local charges count at that instant.
            return;
        }
        let charge = |own: Tat| match own.us >= now_us {
            true => gcra.charge_as(own, before, after, now_us),
            false => own,
        };
        let (_, own) = self.own.change_row(bucket, gcra, *now, charge);
        self.pending.extend(own.us);
    }

    /// Stores the states that the store has answered up to an instant, by this process's clock.
    #[inline]
    pub(super) fn store_pending(&self, batch: &Batch<'_>, until: u64) {
        // By a client's clock, nothing is known about instants, and nothing may be kept.
        self.store_pending_until(batch.now.map_or(until, |_| u64::MAX));
    }

    #[inline]
    pub(super) fn store_pending_until(&self, until: u64) {
        self.pending
            .store_until(until, |state| self.store_state(state));
    }

    /// Repeats a refund of the store, which is at most what the store had charged. It hides no later charge whose answer
    /// has arrived before.
    fn learn_refund(&self, bucket: Bucket<'_, Gcra>, tat: Tat) {
        let Bucket {
            member,
            algorithm: gcra,
            now,
            at,
        } = bucket;
        let (now_us, tat) = (now.as_micros(), bucket.bounded(tat));
        let (span, _) = gcra.refunded(member.refund(), member.cost);
        let refund = |seen| gcra.refund_span(seen, now_us, span).unwrap_or(seen);
        self.order.with(member.fingerprint, |watched| {
            let newer = watched.and_then(|watched| watched.lowered(at, State::Gcra(tat)));
            let least = match newer {
                Some(State::Gcra(newer)) => newer,
                _ => tat,
            };
            let (before, after) = self
                .seen
                .change(member, gcra, now, |seen| refund(seen).max(least));
            // The answer can have charges that were not seen yet, and more of them than it gives back.
            let change_as = |own: Tat| match after > before {
                true if own.us >= now_us => gcra.charge_as(own, before, after, now_us),
                true => own,
                false => gcra.refund_as(own, before, after, now_us),
            };
            let (before, after) = self.own.change(member, gcra, now, change_as);
            self.pending.extend(after.us);
            if !self.debts.is_empty() && after < before {
                let lowered = before.us - after.us + 1;
                let print = member.fingerprint;
                self.debts.change(print, |debtor| debtor.lowered(lowered));
            }
        });
    }

    /// Raises the usage seen at the store. It is only lowered if the store has refunded something.
    fn learn_usage(&self, bucket: Bucket<'_, Quota>, usage: Usage, is_given_back: bool) {
        let Bucket {
            member,
            algorithm: quota,
            now,
            at,
        } = bucket;
        self.order.with(member.fingerprint, |watched| {
            let state = State::Quota(usage);
            let newer = match watched {
                Some(watched) if is_given_back => watched.lowered(at, state),
                Some(watched) => match watched.saw(at, state) {
                    true => None,
                    false => return,
                },
                None => None,
            };
            let refunded = usage;
            let usage = match newer {
                Some(State::Quota(newer)) => newer,
                _ => usage,
            };
            let (before, _) = self.seen.change_usage(member, quota, now, |seen| {
                let grows = (usage.start_us, usage.used) > (seen.start_us, seen.used);
                if grows || is_given_back { usage } else { seen }
            });
            if is_given_back {
                // A refund that leaves something has given back its whole cost, also of charges that were not seen yet. One
                // that leaves nothing may have had less to give back, and the rest would be taken from local charges.
                let before = match refunded.used {
                    0 => before,
                    used => Usage {
                        used: used.saturating_add(member.cost),
                        ..refunded
                    },
                };
                let [before, after] = [before, refunded].map(|usage| self.share.usage(usage).used);
                let given = before.saturating_sub(after);
                let refund = |own| quota.refund(own, now.as_micros(), given).unwrap_or(own);
                self.own.change_usage(member, quota, now, refund);
            }
        });
    }

    /// Takes or gives back the same units as the store.
    fn learn_units(&self, member: &Member<'_>, figures: &WindowSnapshot, now: Timestamp) {
        let bucket = member.fingerprint;
        let learnt = Member {
            cost: figures.change.units(),
            mode: Mode::Debit,
            receipt: None,
            saturates: true,
            ..*member
        };
        match (figures.change, member.receipt.map(Receipt::stored_charge)) {
            (Change::Take { .. }, _) => {
                let here = self.learnt_units.take(bucket, figures.at, now.as_micros());
                let ago_us = now.as_micros().saturating_sub(here);
                let members = [Member { ago_us, ..learnt }];
                self.decide_as_store(Operation::Spend, &members, now);
            }
            // The newest local units may be charges that the store does not have yet.
            (Change::GiveBack { .. }, None) if self.debts.owes(bucket) => {}
            (Change::GiveBack { .. }, None) => {
                self.decide_as_store(Operation::Refund, &[learnt], now);
            }
            (Change::GiveBack { units, .. }, Some(Some(Charge::Window(charge)))) => {
                let Some(here) = self.learnt_units.find(bucket, charge.at) else {
                    // Another process has charged these units, and this one has never counted them.
                    return;
                };
                let charge = Charge::Window(WindowCharge { at: here });
                let receipt = Receipt::new(bucket, charge, units, false);
                let receipt = Some(&receipt);
                let members = [Member { receipt, ..learnt }];
                self.decide_as_store(Operation::Refund, &members, now);
            }
            _ => {}
        }
    }

    /// Makes a change in the local memory that the store has made.
    fn decide_as_store(&self, operation: Operation, members: &[Member<'_>], now: Timestamp) {
        // This cannot fail: the store has decided at this instant.
        let _ = self
            .own
            .decide(&Batch::new(operation, members).at(Some(now)));
    }
}

/// A bucket of a GCRA limit or of a quota, at an instant.
#[derive(Clone, Copy)]
struct Bucket<'a, A> {
    member: &'a Member<'a>,
    algorithm: &'a A,
    now: Timestamp,
    /// The time of the store.
    at: Timestamp,
}

impl<'a, A> Bucket<'a, A> {
    const fn new(member: &'a Member<'a>, algorithm: &'a A, now: Timestamp, at: Timestamp) -> Self {
        Self {
            member,
            algorithm,
            now,
            at,
        }
    }

    /// Returns a TAT within the range of the arithmetic, for any answer of the store.
    fn bounded(&self, tat: Tat) -> Tat {
        let deepest = self.now.as_micros().saturating_add(MAX_TICKS_US);
        tat.min(Tat::from_micros(deepest))
    }
}
