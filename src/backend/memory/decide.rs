//! Decides batches: in one place for each kind of bucket if they have one member, and in general.

use smallvec::SmallVec;

use super::{
    MemoryBackend,
    batch::{FoundRow, LockedBuckets, changed},
};
use crate::{
    algorithm::{Algorithm, RowValue, State},
    backend::BackendError,
    clock::{Clock, Timestamp},
    decision::{Answer, Outcome},
    gcra::{self, Gcra, Tat},
    quota::{self, Quota, Usage},
    transaction::{Batch, Fingerprint, Member, Operation},
};

impl MemoryBackend {
    #[inline]
    pub(in crate::backend) fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        now.validate()?;
        if let [member] = batch.members
            && let Algorithm::Gcra(gcra) = member.algorithm
            && batch.action(member) == crate::algorithm::Action::Spend
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
        let stored = gcra::row::tat(value);
        let Some(tat) = gcra.spend(stored, now.as_micros(), cost) else {
            return Err(stored);
        };
        rows.put_used(place, &print, gcra::row::value(tat, gcra.tolerance()), now);
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
        let stored = quota::row::usage(value);
        let Some(usage) = quota.spend(stored, now.as_micros(), cost) else {
            return Err(quota.current(stored, now.as_micros()));
        };
        rows.put_used(place, &print, quota::row::value(quota, usage), now);
        Ok(usage)
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
        self.decide_row(batch, member, now, |value| {
            let before = member.algorithm.state_in_row(value, now);
            match from(before) {
                after if after == before => value,
                after => member.algorithm.row(after),
            }
        })
    }

    /// Decides the less common cases. It is separate, to keep the common case small.
    #[inline(never)]
    fn decide_others(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        if let [member] = batch.members
            && batch.operation != Operation::Reset
        {
            return match member.algorithm.fits_row() {
                true => Outcome::of_one(now, self.decide_row(batch, member, now, |value| value)),
                false => self.decide_history(batch, member, now),
            };
        }
        self.decide_all(batch, now)
    }

    /// Decides one bucket in a row, from the stored value or another one.
    #[inline(always)]
    fn decide_row(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        now: Timestamp,
        from: impl FnOnce(RowValue) -> RowValue,
    ) -> Answer {
        let ask = batch.ask(member);
        let print = &member.fingerprint;
        let mut rows = self.rows.lock(self.rows.of(print));
        let (value, place) = rows.look(print);
        let before = from(value);
        let answer = Answer::judged(member.algorithm.see_row(before, now).judge(&ask, now));
        // A denial changes nothing, and an attack is mostly denials.
        if let Some(value) = changed(before, ask.action, member, &answer, now) {
            rows.put(place, print, value, now);
        }
        answer
    }

    /// Decides one bucket with a history.
    fn decide_history(&self, batch: &Batch<'_>, member: &Member<'_>, now: Timestamp) -> Outcome {
        let print = &member.fingerprint;
        let mut records = self.histories.lock(self.histories.of(print));
        let answer = records.decide(batch, member, now);
        drop(records);
        self.histories.trim(batch.members, now);
        Outcome::of_action(now, batch.action(member), answer)
    }

    /// Locks the buckets of all members, judges each, and stores all changes or none.
    fn decide_all(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        let mut found: SmallVec<[FoundRow; 4]> = SmallVec::new();
        found.resize(batch.members.len(), FoundRow::default());
        let mut locked = LockedBuckets::new(&self.rows, &self.histories, batch.members);
        let outcome = Outcome::judge(batch, now, |place, member| {
            locked.see(member, now, &mut found[place])
        });
        // A denial writes nothing, and an attack is mostly denials.
        if outcome.passes(batch) {
            let members = batch.members.iter().zip(outcome.answers());
            for ((member, answer), found) in members.zip(&found) {
                locked.write(batch.action(member), member, answer, *found, now);
            }
        }
        drop(locked);
        self.histories.trim(batch.members, now);
        outcome
    }
}
