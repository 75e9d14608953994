//! Local decisions: a bounded memory that follows the decisions of the store.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    debts::Debts, learnt_units::LearntUnits, order::Order, seen_buffer::SeenBuffer,
    settled::SettledDebts,
};
use crate::{
    algorithm::Share,
    backend::{Backend, BackendError, Fleet, MemoryBackend, Stats, UnsupportedLimit},
    clock::Timestamp,
    decision::{Answer, Outcome, Source, State},
    transaction::{Algorithm, Batch, Member, Mode, Operation, Receipt},
};

/// The default of [`FailurePolicy::pay_back`](super::FailurePolicy::pay_back).
pub(super) const DEFAULT_DEBTS: usize = 10_000;

/// The memories that decide while the store does not answer.
///
/// For a bucket in a row, `seen` holds the charges that this process has seen at the store, and `own` holds the
/// charges that it has made locally, plus those seen at the store since its first local decision. So `own` is the state
/// that the store would have if it had received every charge. The stricter of the two decides. Their difference is
/// charged to the store once it is back.
///
/// For a bucket with a history, that of `own` holds both.
///
/// The states that the store has answered for buckets in rows are in `pending` first.
///
/// Clones share the memories.
#[derive(Clone, Debug)]
pub(super) struct Local {
    /// The charges of the store, as far as this process has seen them.
    pub(super) seen: Arc<MemoryBackend>,
    /// The charges of this process, for buckets that were decided locally.
    pub(super) own: Arc<MemoryBackend>,
    pub(super) share: LocalShare,
    pub(super) debts: Arc<Debts>,
    /// The debts that are being paid.
    pub(super) settled: Arc<SettledDebts>,
    pub(super) pending: Arc<SeenBuffer>,
    /// The instants of the store's units in `own`.
    pub(super) learnt_units: Arc<LearntUnits>,
    /// The order of the answers that are learnt beside refunds and resets.
    pub(super) order: Arc<Order>,
}

impl Local {
    /// Decides with `memory`, and remembers the same number of buckets of the store.
    pub(super) fn new(memory: MemoryBackend, share: LocalShare) -> Self {
        Self {
            seen: Arc::new(MemoryBackend::with_max_buckets(memory.max_buckets())),
            own: Arc::new(memory),
            share,
            debts: Arc::new(Debts::new(DEFAULT_DEBTS)),
            settled: Arc::default(),
            pending: Arc::new(SeenBuffer::new()),
            learnt_units: Arc::default(),
            order: Arc::default(),
        }
    }

    pub(super) fn with_share(self, share: LocalShare) -> Self {
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

    /// Decides a batch. Unless it is `certain` that the store has charged nothing, these charges are not added to the debts.
    pub(super) fn decide(&self, batch: &Batch<'_>, certain: bool) -> Result<Outcome, BackendError> {
        self.decide_with(self.share.now(), batch, certain)
    }

    /// Decides with this share of the limits.
    pub(super) fn decide_with(
        &self,
        share: Share,
        batch: &Batch<'_>,
        certain: bool,
    ) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.own.now());
        now.validate()?;
        // No charge of the store may be missing in local charges that still count.
        let lapse = now.as_micros().saturating_add(longest_charge(batch));
        self.store_pending(batch, lapse);
        let caught_up = |place: usize, own| {
            let member = &batch.members[place];
            self.caught_up(batch, member, share, own, now)
        };
        let decided = match share {
            Share::WHOLE => self.own.decide_from(batch, now, caught_up),
            share => {
                let shares = of_members(share, batch);
                let decided = {
                    let members = batch.members.iter().zip(&shares);
                    let members = members.map(|(member, algorithm)| Member {
                        algorithm,
                        ..*member
                    });
                    let members: SmallVec<[Member<'_>; 4]> = members.collect();
                    let part = Batch::new(batch.operation, &members);
                    self.own.decide_from(&part, now, caught_up)?
                };
                Ok(decided.decided_by(shares))
            }
        };
        if let Ok(outcome) = &decided
            && outcome.passes(batch)
        {
            self.note(share, batch, now, outcome.answers(), certain);
        }
        decided
    }

    /// Returns the local state of a member's bucket with the store's charges, if these are higher than its own.
    #[inline]
    fn caught_up(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        share: Share,
        own: State,
        now: Timestamp,
    ) -> State {
        let (print, by) = (&member.fingerprint, member.algorithm);
        // As long as it follows each answer, the store's charges are added to the local ones. A local refund of a charge that
        // the store may have made leaves fewer, and counts. By a client's clock, it may not follow.
        let may_follow = share == Share::WHOLE && batch.now.is_none();
        if may_follow && by.follows_until(own) >= now.as_micros() {
            return own;
        }
        let (seen, _) = self.seen.change(print, by, now, |seen| seen);
        by.caught_up(own, seen, share)
    }

    /// Records the charges of a local decision that passes.
    #[inline]
    fn note(
        &self,
        share: Share,
        batch: &Batch<'_>,
        now: Timestamp,
        answers: &[Answer],
        certain: bool,
    ) {
        if batch.operation != Operation::Spend {
            return;
        }
        for (member, answer) in batch.members.iter().zip(answers) {
            let until = member.algorithm.follows_until(answer.state);
            self.pending.extend(until);
        }
        self.note_charges(share, batch, now, answers, certain);
    }

    /// Refunds or renews charges that were made locally, by receipt. The store is never involved. Returns `None` for other
    /// batches.
    #[inline]
    pub(super) fn refund(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        match batch.operation {
            Operation::Refund | Operation::Renew => self.refund_local(batch),
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

    /// Refunds or renews charges of the shares that made them. If the store has since been debited for a charge, it
    /// refunds nothing.
    fn refund_here(
        &self,
        batch: &Batch<'_>,
        receipts: &[&Receipt],
        now: Timestamp,
    ) -> Result<Outcome, BackendError> {
        let receipts: SmallVec<[Receipt; 4]> =
            receipts.iter().map(|receipt| receipt.as_stored()).collect();
        // A refund gives back the lesser of two costs: by this share, and by that of its charge.
        let share = match batch.operation {
            Operation::Refund => self.share.smallest(),
            _ => self.share.now(),
        };
        let shares = of_members(share, batch);
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
        let refunds = Batch::new(batch.operation, &members).at(Some(now));
        let decided = self.own.decide(&refunds)?;
        if batch.operation == Operation::Refund {
            self.note_refunds(&refunds, &decided);
        }
        let shown = of_members(self.share.now(), batch);
        Ok(decided.decided_by(shown).by(Source::Local))
    }

    pub(super) fn admits(&self, algorithm: &Algorithm) -> Result<(), UnsupportedLimit> {
        self.own.admits(&self.share.largest().algorithm(algorithm))
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

/// The part of each limit that this process uses while the store does not answer.
#[derive(Clone, Debug)]
pub(super) enum LocalShare {
    /// Always the same part.
    Fixed(Share),
    /// An equal part for each process.
    Equal(Fleet),
}

impl LocalShare {
    pub(super) const WHOLE: Self = Self::Fixed(Share::WHOLE);

    /// Returns the part for a decision that begins now.
    #[inline]
    pub(super) fn now(&self) -> Share {
        match self {
            Self::Fixed(share) => *share,
            Self::Equal(fleet) => Share::new(1, fleet.processes().get()),
        }
    }

    /// Returns the smallest part that there has been.
    pub(super) fn smallest(&self) -> Share {
        match self {
            Self::Fixed(share) => *share,
            Self::Equal(fleet) => Share::new(1, fleet.largest()),
        }
    }

    /// Returns the largest part that there can be.
    pub(super) const fn largest(&self) -> Share {
        match self {
            Self::Fixed(share) => *share,
            Self::Equal(_) => Share::WHOLE,
        }
    }
}

/// Returns the share of the limit of each member.
fn of_members(share: Share, batch: &Batch<'_>) -> SmallVec<[Algorithm; 4]> {
    let members = batch.members.iter();
    members
        .map(|member| share.algorithm(member.algorithm))
        .collect()
}

/// Returns the longest time, in microseconds, for which a charge of this batch counts, unless it is a debit.
fn longest_charge(batch: &Batch<'_>) -> u64 {
    let members = batch.members.iter();
    let spans = members.map(|member| member.algorithm.longest_charge());
    spans.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Limit,
        transaction::{BucketKey, LimitKey},
    };

    #[test]
    fn debit_without_room_in_a_window_is_an_error_whatever_the_share() {
        let window = Limit::window(10, Duration::from_secs(1));
        let key = BucketKey::new(LimitKey::Number(1), "alice");
        let debit = Member::new(key, window.algorithm().unwrap(), 5000, Mode::Debit);
        let members = [debit];
        let batch = Batch::new(Operation::Spend, &members);
        for share in [Share::WHOLE, Share::new(1, 2)] {
            let local = Local::new(MemoryBackend::new(), LocalShare::Fixed(share));
            let decided = local.decide(&batch, true).unwrap();
            assert_eq!(decided.no_room(), Some(0), "{share:?}");
        }
    }

    #[test]
    fn answers_of_the_store_are_stored_at_once_until_a_local_charge_can_no_longer_count() {
        let local = Local::new(MemoryBackend::new(), LocalShare::WHOLE);
        let ten_per_hour = Limit::per_hour(10).burst(10);
        let algorithm = ten_per_hour.algorithm().unwrap();
        let key = BucketKey::new(LimitKey::Number(1), "alice");
        let members = [Member::new(key, algorithm, 1, Mode::CheckAndSpend)];
        let before = local.own.now().as_micros();
        let decided = local.decide(&Batch::new(Operation::Spend, &members), true);
        assert!(decided.unwrap().answers()[0].passed);
        // One token counts for six minutes, but others can be charged at the same instant.
        assert!(local.pending.are_at_once(before + 3_600_000_000));
    }
}
