//! Decides batches, whatever the number of their members.

#[cfg(feature = "failure-policy")]
use super::batch::changed;
use super::{MemoryBackend, batch::LockedBuckets, row_charges::RowCharge};
#[cfg(feature = "failure-policy")]
use crate::algorithm::State;
#[cfg(feature = "failure-policy")]
use crate::transaction::Member;
use crate::{
    algorithm::Action,
    backend::BackendError,
    clock::{Clock, InvalidNow, Timestamp},
    decision::{Answer, Judgement, Outcome},
    few::{Count, Exactly, counted},
    transaction::{Batch, Operation},
};

impl MemoryBackend {
    pub(in crate::backend) fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        now.validate()?;
        if let [member] = batch.members
            && batch.action(member) == Action::Spend
            && member.algorithm.fits_row()
        {
            let (by, cost) = (member.algorithm, member.cost);
            let mut charge = [RowCharge {
                joins_line: member.joins_line(),
                ..RowCharge::new(member.fingerprint, by, cost)
            }];
            let passed = self.charge_rows::<Exactly<1>>(&mut charge, now);
            let answer = Answer::new(by.state_in_row(charge[0].value, now), passed);
            return Ok(Outcome::of_one(now, answer));
        }
        self.decide_all(batch, now)
    }

    #[inline(never)]
    fn decide_all(&self, batch: &Batch<'_>, now: Timestamp) -> Result<Outcome, BackendError> {
        if batch.operation == Operation::Renew {
            return Ok(self.renew(batch, now));
        }
        counted!(batch.members.len(), C => {
            let mut judged = Judgement::<C>::of(batch);
            self.judge(&mut judged, Some(now))?;
            Ok(Outcome::from(judged))
        })
    }

    /// Renews the members in order, independently of each other. Several can be of one bucket.
    fn renew(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        let answers = batch.members.iter().map(|member| {
            let claim = batch.claim(member);
            let mut records = self.histories.lock(self.histories.of(&claim.fingerprint));
            let found = records.find(&claim.fingerprint);
            let mut answer = Answer::UNKNOWN;
            let stored = found.map(|entry| records.stored(entry));
            let seen = claim.algorithm.see(stored, now);
            seen.judge(&claim.ask, now, |judged| answer.judge(judged));
            records.write(found, &claim, &answer, now);
            answer
        });
        Outcome::new(now, answers)
    }

    /// Locks the buckets of all claims, judges each, and stores all changes or none.
    #[inline(never)]
    pub(crate) fn judge<C: Count>(
        &self,
        judged: &mut Judgement<'_, C>,
        now: Option<Timestamp>,
    ) -> Result<(), InvalidNow> {
        let now = now.unwrap_or_else(|| self.clock.now());
        now.validate()?;
        {
            let mut locked = LockedBuckets::<C>::new(judged.claims().len());
            locked.lock(self, judged.claims());
            judged.judge(&mut locked, now);
        }
        self.histories.trim(judged.fingerprints(), now);
        #[cfg(feature = "tokio")]
        if judged.gives_back() {
            self.lines.wake(judged.fingerprints());
        }
        Ok(())
    }

    /// Decides one bucket in a row from another state than the stored one. A denial does not change it.
    #[cfg(feature = "failure-policy")]
    #[inline]
    pub(in crate::backend) fn decide_from(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        now: Timestamp,
        from: impl FnOnce(State) -> State,
    ) -> Answer {
        let claim = batch.claim(member);
        let (print, by) = (&claim.fingerprint, claim.algorithm);
        let mut rows = self.rows.lock(self.rows.of(print));
        let (stored, place) = rows.look(print);
        let before = by.state_in_row(stored, now);
        let value = match from(before) {
            after if after == before => stored,
            after => by.row(&after),
        };
        let mut answer = Answer::UNKNOWN;
        by.judge_row(&claim.ask, value, now, |judged| answer.judge(judged));
        if claim.writes(answer.passed)
            && let Some(value) = changed(value, &claim, &answer, now)
        {
            rows.put(place, print, value, now);
        }
        answer
    }
}
