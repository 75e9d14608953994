//! What the local memories learn from the answers of the store.

use super::{local::Local, seen_buffer::SeenState};
use crate::{
    algorithm::{Refund, Repeat},
    clock::Timestamp,
    decision::{Answer, Outcome, State},
    transaction::{Batch, Claim, Member, Mode, Operation, Receipt},
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
            if !answer.known || outcome.leased(index).decides {
                continue;
            }
            let state = answer.state.by_clock(outcome.now, now);
            if !member.algorithm.fits_row() {
                if passes {
                    let answer = Answer { state, ..*answer };
                    self.repeat(&batch.claim(member), member, &answer, now);
                }
                continue;
            }
            let learnt = LearntState {
                member,
                state: member.algorithm.bounded(state, now),
                now,
                at: outcome.time_of(index),
            };
            match batch.operation == Operation::Refund && answer.passed {
                true => self.learn_refund(learnt),
                false => self.learn_state(learnt, batch.now.is_none()),
            }
        }
    }

    /// Resets the buckets. What the store has charged after the reset counts, even if its answer has arrived before.
    fn learn_reset(&self, batch: &Batch<'_>, outcome: &Outcome, now: Timestamp) {
        let reset = batch.at(Some(now));
        let _ = (self.seen.decide(&reset), self.own.decide(&reset));
        for (index, member) in batch.members.iter().enumerate() {
            let (print, by) = (&member.fingerprint, member.algorithm);
            self.order.with(*print, |watched| {
                let at = outcome.time_of(index);
                let newer = watched.and_then(|watched| watched.lowered(at, State::MISSING));
                if let Some(newer) = newer.filter(|_| by.fits_row()) {
                    self.seen.change(print, by, now, |seen| {
                        by.lowered(seen, newer, Refund::Nothing, 0, now)
                    });
                }
                let after = newer.unwrap_or(State::MISSING);
                self.settled.change(print, |_| after);
            });
        }
    }

    /// Records a state that the store has answered. It can be stored later if its instant is by this process's clock.
    #[inline]
    fn learn_state(&self, learnt: LearntState<'_>, is_by_own_clock: bool) {
        let LearntState {
            member,
            state,
            now,
            at,
        } = learnt;
        self.order.with(member.fingerprint, |watched| {
            let is_watched = watched.is_some();
            let is_overtaken = watched.is_some_and(|watched| !watched.saw(at, state));
            // A bucket that is full again is not stored.
            if is_overtaken || !member.algorithm.is_used(state, now) {
                return;
            }
            let state = SeenState {
                bucket: member.fingerprint,
                algorithm: member.algorithm.clone(),
                state,
                now,
            };
            let may_wait = is_by_own_clock && !is_watched;
            let at_once = match may_wait {
                true => self.pending.keep(state, |kept| self.store_state(kept)),
                false => Some(state),
            };
            if let Some(state) = at_once {
                self.store_state(&state);
            }
        });
    }

    /// Raises the state seen at the store, and never lowers it: answers can arrive out of order, and a store can lose its
    /// data. If local charges of this bucket still count, the store's charges are added to them as well.
    pub(super) fn store_state(&self, state: &SeenState) {
        let SeenState {
            bucket,
            algorithm: by,
            state,
            now,
        } = state;
        let raise = |seen| by.raised(seen, *state);
        self.settled.change(bucket, raise);
        let (before, after) = self.seen.change(bucket, by, *now, raise);
        if !self.pending.are_at_once(now.as_micros()) {
            // No local charges count at that instant.
            return;
        }
        let follow = |own| by.followed(own, before, after, *now);
        let (_, own) = self.own.change(bucket, by, *now, follow);
        self.pending.extend(by.follows_until(own));
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
    fn learn_refund(&self, learnt: LearntState<'_>) {
        let LearntState {
            member,
            state,
            now,
            at,
        } = learnt;
        let (print, by) = (&member.fingerprint, member.algorithm);
        let (refund, cost) = (member.refund(), member.cost);
        self.order.with(*print, |watched| {
            let newer = watched.and_then(|watched| watched.lowered(at, state));
            let least = newer.unwrap_or(state);
            let lower = |seen| by.lowered(seen, least, refund, cost, now);
            self.settled.change(print, lower);
            let (before, after) = self.seen.change(print, by, now, lower);
            let seen = [before, after, state];
            let lower = |own| by.lowered_own(own, seen, cost, self.share.now(), now);
            let (before, after) = self.own.change(print, by, now, lower);
            self.pending.extend(by.follows_until(after));
            if !self.debts.is_empty() && after != before {
                self.debts.change(*print, |ledger| {
                    by.lower_ledger(ledger, before, after);
                });
            }
        });
    }

    /// Repeats in a history what the store has done.
    fn repeat(&self, claim: &Claim<'_>, member: &Member<'_>, answer: &Answer, now: Timestamp) {
        let bucket = member.fingerprint;
        let same = |units| Member {
            cost: units,
            mode: Mode::Debit,
            receipt: None,
            saturates: true,
            ..*member
        };
        match member.algorithm.repeat(claim.ask.action, answer.state) {
            Repeat::Nothing => {}
            Repeat::Store => self.own.learn_history(claim, answer, now),
            Repeat::Take { at, units } => self.repeat_take(at, same(units), now),
            Repeat::Renew { at, units } => {
                if let Some(receipt) = member.receipt
                    && self.repeat_refund(receipt, &same(units), now)
                {
                    self.repeat_take(at, same(units), now);
                }
            }
            Repeat::GiveBack { units } => match member.receipt {
                None => {
                    // The newest local units may be charges that the store does not have yet.
                    if !self.debts.owes(bucket) {
                        self.decide_as_store(Operation::Refund, &[same(units)], now);
                    }
                }
                Some(receipt) => {
                    self.repeat_refund(receipt, &same(units), now);
                }
            },
        }
    }

    /// Takes units that the store has taken at an instant.
    fn repeat_take(&self, at: u64, member: Member<'_>, now: Timestamp) {
        let here = self
            .learnt_units
            .take(member.fingerprint, at, now.as_micros());
        let ago_us = now.as_micros().saturating_sub(here);
        let taken = Member { ago_us, ..member };
        self.decide_as_store(Operation::Spend, &[taken], now);
    }

    /// Gives back the units of a charge that the store has given back. This process has never counted the units that
    /// another one has charged. Returns whether it has counted these.
    fn repeat_refund(&self, receipt: &Receipt, member: &Member<'_>, now: Timestamp) -> bool {
        let bucket = member.fingerprint;
        if let Some(charge) = receipt.stored_charge()
            && let Some(here) = self.learnt_units.find(bucket, charge.instant().us)
        {
            let receipt = Receipt::new(bucket, charge.moved(here), member.cost, false);
            let receipt = Some(&receipt);
            let given_back = Member { receipt, ..*member };
            self.decide_as_store(Operation::Refund, &[given_back], now);
            return true;
        }
        false
    }

    /// Makes a change in the local memory that the store has made.
    fn decide_as_store(&self, operation: Operation, members: &[Member<'_>], now: Timestamp) {
        // This cannot fail: the store has decided at this instant.
        let _ = self
            .own
            .decide(&Batch::new(operation, members).at(Some(now)));
    }
}

/// A state that the store has answered, by the clock of this process.
#[derive(Clone, Copy)]
struct LearntState<'a> {
    member: &'a Member<'a>,
    state: State,
    now: Timestamp,
    /// The time of the store.
    at: Timestamp,
}
