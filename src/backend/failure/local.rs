//! Local decisions: a bounded memory that follows the decisions of the store.

use std::{slice, sync::Arc};

use smallvec::SmallVec;

use super::{
    debts::Debts,
    pending::{Pending, SeenState},
    share::Share,
};
use crate::{
    backend::{Backend, BackendError, MemoryBackend, NotAdmitted, Stats},
    clock::Timestamp,
    decision::{Answer, Outcome, Source, State},
    gcra::{Gcra, MAX_TICKS_US, Tat},
    quota::{Quota, Usage},
    transaction::{Algorithm, Batch, Member, Mode, Operation, Receipt},
    window::Change,
};

/// The default of [`FailurePolicy::pay_back`](super::FailurePolicy::pay_back).
pub(super) const DEFAULT_DEBTS: usize = 10_000;

/// The memories that decide while the store does not answer.
///
/// For a bucket without tiers, `seen` holds the charges that this process has seen at the store, and `own` holds the
/// charges that it has made locally, plus those seen at the store since its first local decision. So `own` is the state
/// that the store would have if it had received every charge. The stricter of the two decides. Their difference is
/// charged to the store once it is back.
///
/// A quota works the same way: the share is used in the same proportion as the whole. For a bucket with a window or
/// tiers, one history holds both.
///
/// The states that the store has answered for GCRA buckets are in `pending` first.
///
/// Clones share the memories.
#[derive(Clone, Debug)]
pub(super) struct Local {
    /// The charges of the store, as far as this process has seen them.
    pub(super) seen: Arc<MemoryBackend>,
    /// The charges of this process, for buckets that were decided locally.
    pub(super) own: Arc<MemoryBackend>,
    pub(super) share: Share,
    pub(super) debts: Arc<Debts>,
    pending: Arc<Pending>,
}

impl Local {
    /// Decides with `memory`, and remembers the same number of buckets of the store.
    pub(super) fn new(memory: MemoryBackend, share: Share) -> Self {
        Self {
            seen: Arc::new(MemoryBackend::with_max_buckets(memory.max_buckets())),
            own: Arc::new(memory),
            share,
            debts: Arc::new(Debts::new(DEFAULT_DEBTS)),
            pending: Arc::new(Pending::new()),
        }
    }

    pub(super) fn with_share(self, share: Share) -> Self {
        Self { share, ..self }
    }

    pub(super) fn with_memory(self, memory: MemoryBackend) -> Self {
        let debts = self.debts;
        Self {
            debts,
            ..Self::new(memory, self.share)
        }
    }

    pub(super) fn with_debts(self, kept: usize) -> Self {
        let debts = Arc::new(Debts::new(kept));
        Self { debts, ..self }
    }

    /// Returns the charges that the store does not have yet.
    pub(super) fn debts(&self) -> &Debts {
        &self.debts
    }

    /// Remembers the decisions of the store.
    pub(super) fn learn(&self, batch: &Batch<'_>, outcome: &Outcome) {
        let now = batch.now.unwrap_or_else(|| self.own.now());
        if matches!(batch.operation, Operation::Refund | Operation::Reset) {
            // An older state must not be stored after these.
            self.store_pending(batch, now.as_micros());
        }
        if batch.operation == Operation::Reset {
            // Reset the bucket under every kind of limit: a reload can change the kind, and a later reload can bring
            // the old charges back.
            let reset = batch.at(Some(now));
            let _ = (self.seen.decide(&reset), self.own.decide(&reset));
            return;
        }
        let passes = outcome.passes(batch);
        for (member, answer) in batch.members.iter().zip(outcome.answers()) {
            if !answer.known || answer.leased {
                continue;
            }
            let state = answer.state.by_clock(outcome.now, now);
            let answer = Answer { state, ..*answer };
            match (member.algorithm, state) {
                (Algorithm::Gcra(gcra), State::Gcra(tat)) => {
                    let bucket = Bucket { member, gcra, now };
                    let is_given_back = batch.operation == Operation::Refund && answer.passed;
                    match is_given_back {
                        true => self.learn_refund(bucket, tat),
                        false => self.learn_state(bucket, tat, batch.now.is_none()),
                    }
                }
                (Algorithm::Quota(quota), State::Quota(usage)) => {
                    let is_given_back = batch.operation == Operation::Refund && answer.passed;
                    self.learn_usage(member, quota, now, usage, is_given_back);
                }
                (Algorithm::Window(_), State::Window(figures)) => {
                    if passes && batch.action(member).writes() {
                        self.learn_units(member, figures.change, now);
                    }
                }
                _ => self
                    .own
                    .learn_history(batch.action(member), member, &answer, now),
            }
        }
    }

    /// Records a state that the store has answered. It can be stored later if its instant is by this process's clock.
    #[inline]
    fn learn_state(&self, bucket: Bucket<'_>, tat: Tat, is_by_own_clock: bool) {
        let tat = bucket.bounded(tat);
        if tat.us < bucket.now.as_micros() {
            // The bucket is full again, and a full bucket is not stored.
            return;
        }
        let state = SeenState {
            bucket: bucket.member.fingerprint,
            gcra: *bucket.gcra,
            tat,
            now: bucket.now,
        };
        if !(is_by_own_clock && self.pending.keep(state, |kept| self.store_state(kept))) {
            self.store_state(&state);
        }
    }

    /// Raises the TAT seen at the store, and never lowers it: answers can arrive out of order, and a store can lose its
    /// data. If local charges of this bucket still count, the store's charges are added to them as well.
    fn store_state(&self, state: &SeenState) {
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
    fn store_pending(&self, batch: &Batch<'_>, until: u64) {
        // By a client's clock, nothing is known about instants, and nothing may be kept.
        let until = batch.now.map_or(until, |_| u64::MAX);
        self.pending
            .store_until(until, |state| self.store_state(state));
    }

    /// Repeats a refund of the store, which is at most what the store had charged.
    fn learn_refund(&self, bucket: Bucket<'_>, tat: Tat) {
        let Bucket { member, gcra, now } = bucket;
        let (now_us, tat) = (now.as_micros(), bucket.bounded(tat));
        let span = member.refund(gcra);
        let refund = |seen| gcra.refund_span(seen, now_us, span).unwrap_or(seen);
        let (before, after) = self
            .seen
            .change(member, gcra, now, |seen| refund(seen).max(tat));
        let refund_as = |own| gcra.refund_as(own, before, after, now_us);
        self.own.change(member, gcra, now, refund_as);
    }

    /// Raises the usage seen at the store. It is only lowered if the store has refunded something.
    fn learn_usage(
        &self,
        member: &Member<'_>,
        quota: &Quota,
        now: Timestamp,
        usage: Usage,
        is_given_back: bool,
    ) {
        self.seen.change_usage(member, quota, now, |seen| {
            let grows = (usage.start_us, usage.used) > (seen.start_us, seen.used);
            if grows || is_given_back { usage } else { seen }
        });
        if is_given_back {
            let now_us = now.as_micros();
            let refund = |own| quota.refund(own, now_us, member.cost).unwrap_or(own);
            self.own.change_usage(member, quota, now, refund);
        }
    }

    /// Takes or gives back the same number of units as the store.
    fn learn_units(&self, member: &Member<'_>, change: Change, now: Timestamp) {
        let (operation, cost) = match change {
            Change::Nothing => return,
            Change::Take { units, .. } => (Operation::Spend, units),
            Change::GiveBack { units, .. } => (Operation::Refund, units),
        };
        let members = [Member {
            cost,
            mode: Mode::Debit,
            receipt: None,
            saturates: true,
            ..*member
        }];
        // This cannot fail: the store has decided at this instant.
        let _ = self
            .own
            .decide(&Batch::new(operation, &members).at(Some(now)));
    }

    /// Charges a bucket with the store's charges, if these are higher than its own.
    fn catch_up(&self, member: &Member<'_>, now: Timestamp) {
        if let Algorithm::Quota(quota) = member.algorithm {
            let (seen, _) = self.seen.change_usage(member, quota, now, |seen| seen);
            let seen = self.share.usage(seen);
            self.own.change_usage(member, quota, now, |own| match own {
                Usage::NOTHING => seen,
                own => Usage {
                    used: own.used.max(seen.used),
                    ..own
                },
            });
        }
        if let Algorithm::Gcra(gcra) = member.algorithm {
            let (seen, _) = self.seen.change(member, gcra, now, |seen| seen);
            if seen.us >= now.as_micros() {
                let (_, own) = self.own.change(member, gcra, now, |own| own.max(seen));
                self.pending.extend(own.us);
            }
        }
    }

    /// Decides the members for which `is_meant` is true; the others pass. Unless it is `certain` that the store has
    /// charged nothing, these charges are not added to the debts.
    pub(super) fn decide(
        &self,
        batch: &Batch<'_>,
        is_meant: impl Fn(&Member<'_>) -> bool,
        certain: bool,
    ) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.own.now());
        now.validate()?;
        // No charge of the store may be missing in local charges that still count.
        let lapse = now.as_micros().saturating_add(longest_charge(batch));
        self.store_pending(batch, lapse);
        if let Some(answer) = self.decide_own(batch, now, &is_meant) {
            // The outcome is large, so it is only created where it is returned.
            let mut members = batch.members.iter();
            if members.all(|member| answer.passed || !batch.votes(member)) {
                self.note(batch, now, slice::from_ref(&answer), certain);
            }
            return Ok(Outcome::of_one(now, answer).by(Source::Local));
        }
        let meant = batch.members.iter().filter(|member| is_meant(member));
        meant.for_each(|member| self.catch_up(member, now));
        let all = batch.members.iter().all(&is_meant);
        let decided = match all && self.share == Share::WHOLE {
            true => self.own.decide(&batch.at(Some(now)))?,
            false => self.decide_shares(batch, now, is_meant)?,
        };
        if decided.passes(batch) {
            self.note(batch, decided.now, decided.answers(), certain);
        }
        Ok(decided.by(Source::Local))
    }

    /// Decides a GCRA bucket without a share, in one step.
    #[inline]
    fn decide_own(
        &self,
        batch: &Batch<'_>,
        now: Timestamp,
        is_meant: impl Fn(&Member<'_>) -> bool,
    ) -> Option<Answer> {
        let [member] = batch.members else {
            return None;
        };
        let Algorithm::Gcra(gcra) = member.algorithm else {
            return None;
        };
        let is_whole = self.share == Share::WHOLE && batch.now.is_none();
        if !is_whole || batch.operation == Operation::Reset || !is_meant(member) {
            return None;
        }
        // As long as local charges count, the store's charges are added to them, so they are no lower.
        let catch_up = |own: Tat| match own.us >= now.as_micros() {
            true => own,
            false => own.max(self.seen.change(member, gcra, now, |seen| seen).0),
        };
        Some(self.own.decide_from(batch, member, gcra, now, catch_up))
    }

    /// Records the charges of a local decision that passes.
    #[inline]
    fn note(&self, batch: &Batch<'_>, now: Timestamp, answers: &[Answer], certain: bool) {
        if batch.operation != Operation::Spend {
            return;
        }
        for answer in answers {
            if let State::Gcra(tat) = answer.state {
                self.pending.extend(tat.us);
            }
        }
        self.note_charges(batch, now, answers, certain);
    }

    /// Refunds charges that were made locally, by receipt. The store is never involved. Returns `None` for other batches.
    #[inline]
    pub(super) fn refund(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        match batch.operation {
            Operation::Refund => self.refund_local(batch),
            _ => None,
        }
    }

    fn refund_local(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        let members = batch.members.iter();
        let receipts = members.map(|member| member.receipt.filter(|receipt| receipt.is_local()));
        let receipts: SmallVec<[&Receipt; 4]> = receipts.collect::<Option<_>>()?;
        if receipts.is_empty() {
            return None;
        }
        let now = batch.now.unwrap_or_else(|| self.own.now());
        if let Err(error) = now.validate() {
            return Some(Err(error.into()));
        }
        Some(self.refund_here(batch, &receipts, now))
    }

    /// Refunds charges to the shares that made them. If the store has since been debited for a charge, it refunds
    /// nothing.
    fn refund_here(
        &self,
        batch: &Batch<'_>,
        receipts: &[&Receipt],
        now: Timestamp,
    ) -> Result<Outcome, BackendError> {
        let receipts: SmallVec<[Receipt; 4]> =
            receipts.iter().map(|receipt| receipt.as_stored()).collect();
        let shares = batch.members.iter();
        let shares = shares.map(|member| self.share.algorithm(member.algorithm));
        let shares: SmallVec<[Algorithm; 4]> = shares.collect();
        let members = batch.members.iter().zip(&shares).zip(&receipts);
        let members: SmallVec<[Member<'_>; 4]> = members
            .map(|((member, algorithm), receipt)| Member {
                algorithm,
                receipt: Some(receipt),
                mode: match self.is_paid(member, receipt) {
                    true => Mode::CheckOnly,
                    false => member.mode,
                },
                ..*member
            })
            .collect();
        let refunds = Batch::new(Operation::Refund, &members).at(Some(now));
        let decided = self.own.decide(&refunds)?;
        self.note_refunds(&refunds, &decided);
        Ok(decided.decided_by(shares.iter().cloned()).by(Source::Local))
    }

    fn decide_shares(
        &self,
        batch: &Batch<'_>,
        now: Timestamp,
        is_meant: impl Fn(&Member<'_>) -> bool,
    ) -> Result<Outcome, BackendError> {
        let shares = batch
            .members
            .iter()
            .map(|member| self.share.algorithm(member.algorithm));
        let shares: SmallVec<[Algorithm; 4]> = shares.collect();
        let decided = {
            let members = batch.members.iter().zip(&shares);
            let members = members.filter(|(member, _)| is_meant(member));
            let members: SmallVec<[Member<'_>; 4]> = members
                .map(|(member, algorithm)| Member {
                    algorithm,
                    ..*member
                })
                .collect();
            let part = Batch::new(batch.operation, &members).at(Some(now));
            self.own.decide(&part)?
        };
        let mut answers = decided.answers().iter().copied();
        let answers = batch.members.iter().map(|member| match is_meant(member) {
            true => answers.next().unwrap_or(Answer::UNKNOWN),
            false => Answer::UNKNOWN,
        });
        Ok(Outcome::new(decided.now, answers).decided_by(shares))
    }

    pub(super) fn admits(&self, algorithm: &Algorithm) -> Result<(), NotAdmitted> {
        self.own.admits(&self.share.algorithm(algorithm))
    }

    /// Returns the figures of both memories together.
    pub(super) fn stats(&self) -> Stats {
        self.pending.store_all(|state| self.store_state(state));
        let (seen, own) = (self.seen.stats(), self.own.stats());
        let sum = |a: Option<usize>, b: Option<usize>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        Stats {
            buckets: sum(seen.buckets, own.buckets),
            max_buckets: sum(seen.max_buckets, own.max_buckets),
            evictions: seen.evictions.zip(own.evictions).map(|(a, b)| a + b),
            ..Stats::default()
        }
    }
}

/// A bucket without tiers, at an instant.
#[derive(Clone, Copy)]
struct Bucket<'a> {
    member: &'a Member<'a>,
    gcra: &'a Gcra,
    now: Timestamp,
}

/// Returns the longest time, in microseconds, for which a charge of this batch counts, unless it is a debit.
fn longest_charge(batch: &Batch<'_>) -> u64 {
    let members = batch.members.iter();
    let spans = members.filter_map(|member| match member.algorithm {
        Algorithm::Gcra(gcra) => Some(gcra.tolerance().us.saturating_add(gcra.max_wait_us())),
        _ => None,
    });
    spans.max().unwrap_or_default()
}

impl Bucket<'_> {
    /// Returns a TAT within the range of the arithmetic, for any answer of the store.
    fn bounded(&self, tat: Tat) -> Tat {
        let deepest = self.now.as_micros().saturating_add(MAX_TICKS_US);
        tat.min(Tat::from_micros(deepest))
    }
}
