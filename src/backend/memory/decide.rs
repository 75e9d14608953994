//! Decides batches, whatever the number of their members.

#[cfg(feature = "failure-policy")]
use super::batch::LockedBuckets;
use super::{MemoryBackend, batch::MemoryClaim};
#[cfg(feature = "failure-policy")]
use crate::{
    algorithm::State,
    decision::{Buckets, Source},
};
use crate::{
    backend::BackendError,
    clock::{InvalidNow, Timestamp},
    decision::{Answer, Judgement, Outcome},
    few::{Count, counted},
    transaction::{Batch, Claim, Operation, RowCharge},
};

impl MemoryBackend {
    pub(in crate::backend) fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.now());
        now.validate()?;
        if batch.operation == Operation::Renew {
            return Ok(self.renew(batch, now));
        }
        counted!(batch.members.len(), C => {
            let mut judged = Judgement::<RowCharge<'_>, C>::new(batch.operation, batch.members.len());
            if judged.claim(batch) {
                self.judge_at(&mut judged, now);
                return Ok(Outcome::from(&judged));
            }
            self.decide_in_full::<C>(batch, now)
        })
    }

    #[inline(never)]
    fn decide_in_full<C: Count>(
        &self,
        batch: &Batch<'_>,
        now: Timestamp,
    ) -> Result<Outcome, BackendError> {
        let mut judged = Judgement::<Claim<'_>, C>::new(batch.operation, batch.members.len());
        judged.claim(batch);
        self.judge_at(&mut judged, now);
        Ok(Outcome::from(&judged))
    }

    /// Renews the members in order, independently of each other. Several can be of one bucket.
    fn renew(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        let answers = batch.members.iter().map(|member| {
            let claim = batch.claim(member);
            let mut records = self.histories.lock(self.histories.of(&claim.fingerprint));
            let found = records.find(&claim.fingerprint);
            let mut answer = Answer::UNKNOWN;
            records.judge(found, &claim, now, &mut answer);
            records.write(found, &claim, &answer, now);
            answer
        });
        Outcome::new(now, answers)
    }

    /// Judges a batch by the clock of memory, unless the time is given.
    #[inline(always)]
    pub(crate) fn judge<'a, K: MemoryClaim<'a>, C: Count>(
        &self,
        judged: &mut Judgement<'a, K, C>,
        now: Option<Timestamp>,
    ) -> Result<(), InvalidNow> {
        let now = now.unwrap_or_else(|| self.now());
        now.validate()?;
        self.judge_at(judged, now);
        Ok(())
    }

    /// Locks the buckets of all claims, judges each, and stores all changes or none.
    #[inline(never)]
    fn judge_at<'a, K: MemoryClaim<'a>, C: Count>(
        &self,
        judged: &mut Judgement<'a, K, C>,
        now: Timestamp,
    ) {
        {
            let mut locked = K::unlocked::<C>(judged.places().len());
            K::lock(self, judged.places(), &mut locked);
            judged.judge(&mut locked, now);
        }
        if K::CAN_HAVE_HISTORY {
            self.histories.trim(judged.fingerprints(), now);
        }
        #[cfg(feature = "tokio")]
        if judged.gives_back() {
            self.lines.wake(judged.fingerprints());
        }
    }

    /// Decides charges or checks in place of a store. `from` maps the stored state of each row, with its place in the batch, to
    /// the state that is judged. A denial stores nothing.
    #[cfg(feature = "failure-policy")]
    pub(in crate::backend) fn decide_from(
        &self,
        batch: &Batch<'_>,
        now: Timestamp,
        from: impl Fn(usize, State) -> State,
    ) -> Result<Outcome, BackendError> {
        counted!(batch.members.len(), C => {
            let mut judged = Judgement::<Claim<'_>, C>::new(batch.operation, batch.members.len());
            judged.claim(batch);
            {
                let mut locked = Claim::unlocked::<C>(judged.places().len());
                Claim::lock(self, judged.places(), &mut locked);
                judged.judge(&mut ChangedRows { locked, from: &from }, now);
            }
            self.histories.trim(judged.fingerprints(), now);
            // An outcome is large, so it is only created where it is returned.
            Ok(Outcome::from(&judged).by(Source::Local))
        })
    }
}

/// The buckets of a batch, which is decided from other states of rows than the stored ones.
#[cfg(feature = "failure-policy")]
struct ChangedRows<'m, C: Count, F> {
    locked: LockedBuckets<'m, C>,
    from: F,
}

#[cfg(feature = "failure-policy")]
impl<'a, C: Count, F: Fn(usize, State) -> State> Buckets<'a, Claim<'a>> for ChangedRows<'_, C, F> {
    #[inline(always)]
    fn judge(&mut self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        let (by, from) = (claim.algorithm, &self.from);
        self.locked.judge_from(place, claim, now, answer, |stored| {
            let before = by.state_in_row(stored, now);
            match from(place, before) {
                after if after == before => stored,
                after => by.row(&after),
            }
        });
    }

    #[inline(always)]
    fn take_nothing(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        self.locked.take_nothing(place, claim, now, answer);
    }

    #[inline(always)]
    fn write(&mut self, place: usize, claim: &Claim<'a>, answer: &Answer, now: Timestamp) {
        self.locked.write(place, claim, answer, now);
    }
}
