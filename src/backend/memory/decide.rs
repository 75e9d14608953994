//! Decides batches: in one place for each kind of bucket if they have one member, and in general.

use smallvec::SmallVec;

use super::{
    MemoryBackend,
    batch::{LockedBuckets, changed},
    value::RowValue,
};
use crate::{
    backend::BackendError,
    clock::{Clock, Timestamp},
    decision::{Answer, BucketView, Outcome, State, judge_gcra, judge_quota},
    gcra::{Gcra, Tat},
    quota::{Quota, Usage},
    transaction::{Action, Algorithm, Batch, Fingerprint, Member, Operation},
};

impl MemoryBackend {
    #[inline]
    pub(in crate::backend) fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        now.validate()?;
        if let [member] = batch.members
            && let Algorithm::Gcra(gcra) = member.algorithm
            && batch.action(member) == Action::Spend
            && gcra.max_wait_us() == 0
        {
            let charged = self.spend(member.fingerprint, gcra, member.cost, now);
            let (Ok(tat) | Err(tat)) = charged;
            let answer = Answer::new(State::Gcra(tat), charged.is_ok());
            return Ok(Outcome::of_one(now, answer));
        }
        Ok(self.decide_others(batch, now))
    }

    /// Charges a bucket by GCRA without a line if the cost, which is not 0, fits. Returns the TAT afterwards; if the cost
    /// does not fit, that is the stored one, as an error.
    #[inline(never)]
    pub(crate) fn spend(
        &self,
        print: Fingerprint,
        gcra: &Gcra,
        cost: u32,
        now: Timestamp,
    ) -> Result<Tat, Tat> {
        let mut rows = self.rows.lock(self.rows.of(&print));
        let (value, place) = rows.look(&print);
        let stored = value.tat();
        let Some(tat) = gcra.spend(stored, now.as_micros(), cost) else {
            return Err(stored);
        };
        rows.put_used(place, &print, RowValue::gcra(tat, gcra.tolerance()), now);
        Ok(tat)
    }

    /// Charges a bucket with a quota if the cost, which is not 0, fits. Returns its usage afterwards; if the cost does not
    /// fit, that is the current one, as an error.
    #[inline(never)]
    pub(crate) fn spend_quota(
        &self,
        print: Fingerprint,
        quota: &Quota,
        cost: u32,
        now: Timestamp,
    ) -> Result<Usage, Usage> {
        let mut rows = self.rows.lock(self.rows.of(&print));
        let (value, place) = rows.look(&print);
        let stored = value.usage();
        let Some(usage) = quota.spend(stored, now.as_micros(), cost) else {
            return Err(quota.current(stored, now.as_micros()));
        };
        rows.put_used(place, &print, RowValue::quota(quota, usage), now);
        Ok(usage)
    }

    /// Decides one GCRA bucket from another TAT than the stored one. A denial does not change it.
    #[cfg(feature = "failure-policy")]
    #[inline]
    pub(in crate::backend) fn decide_from(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        gcra: &Gcra,
        now: Timestamp,
        tat: impl FnOnce(Tat) -> Tat,
    ) -> Answer {
        self.decide_gcra(batch, member, gcra, now, tat)
    }

    /// Decides the less common cases. It is separate, to keep the common case small.
    #[inline(never)]
    fn decide_others(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        if let [member] = batch.members
            && batch.operation != Operation::Reset
        {
            match member.algorithm {
                Algorithm::Quota(quota) => {
                    let answer = self.decide_quota(batch, member, quota, now);
                    return Outcome::of_one(now, answer);
                }
                Algorithm::Window(_) | Algorithm::Tiers(_) => {
                    return self.decide_history(batch, member, now);
                }
                Algorithm::Gcra(gcra) => {
                    let answer = self.decide_gcra(batch, member, gcra, now, |tat| tat);
                    return Outcome::of_one(now, answer);
                }
            }
        }
        self.decide_all(batch, now)
    }

    /// Decides one GCRA bucket, like [`decide_all`](Self::decide_all) but in a third of the time.
    #[inline(always)]
    fn decide_gcra(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        gcra: &Gcra,
        now: Timestamp,
        from: impl FnOnce(Tat) -> Tat,
    ) -> Answer {
        let print = &member.fingerprint;
        let mut rows = self.rows.lock(self.rows.of(print));
        let (value, place) = rows.look(print);
        let before = from(value.tat());
        let answer = judge_gcra(batch.action(member), member, gcra, before, now);
        // A denial changes nothing, and an attack is mostly denials.
        let State::Gcra(tat) = answer.state else {
            return answer;
        };
        if tat == before {
            return answer;
        }
        let value = match tat.us >= now.as_micros() {
            true => RowValue::gcra(tat, gcra.tolerance()),
            false => RowValue::FULL,
        };
        rows.put(place, print, value, now);
        answer
    }

    /// Decides one bucket with a quota.
    fn decide_quota(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        quota: &Quota,
        now: Timestamp,
    ) -> Answer {
        let action = batch.action(member);
        let print = &member.fingerprint;
        let mut rows = self.rows.lock(self.rows.of(print));
        let (stored, place) = rows.look(print);
        let answer = judge_quota(action, member, quota, stored.usage(), now);
        if let Some(value) = changed(stored, action, member, &answer, now) {
            rows.put(place, print, value, now);
        }
        answer
    }

    /// Decides one bucket with a window or with tiers.
    fn decide_history(&self, batch: &Batch<'_>, member: &Member<'_>, now: Timestamp) -> Outcome {
        let action = batch.action(member);
        let print = &member.fingerprint;
        let mut records = self.histories.lock(self.histories.of(print));
        let answer = records.decide(action, member, now);
        drop(records);
        self.histories.trim(batch.members, now);
        match member.algorithm {
            Algorithm::Window(_) => Outcome::of_window(now, action, answer),
            _ => Outcome::of_one(now, answer),
        }
    }

    fn decide_all(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        let mut locked = LockedBuckets::new(&self.rows, &self.histories, batch.members);
        let outcome = {
            let members = batch.members.iter();
            let seen: SmallVec<[BucketView<'_>; 4]> =
                members.map(|member| locked.see(member, now)).collect();
            Outcome::judge(batch, now, &seen)
        };
        // A denial writes nothing.
        if outcome.passes(batch) {
            for (member, answer) in batch.members.iter().zip(outcome.answers()) {
                locked.write(batch.action(member), member, answer, now);
            }
        }
        drop(locked);
        self.histories.trim(batch.members, now);
        outcome
    }
}
