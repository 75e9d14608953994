//! Decides batches, whatever the number of their members.

#[cfg(feature = "failure-policy")]
use super::batch::changed;
use super::{MemoryBackend, batch::LockedBuckets, row_charges::RowCharge};
#[cfg(feature = "failure-policy")]
use crate::algorithm::State;
use crate::{
    algorithm::Action,
    backend::BackendError,
    clock::{Clock, InvalidNow, Timestamp},
    decision::{Answer, Judgement, Outcome},
    few::{Count, Exactly, counted},
    transaction::{Batch, Member, Operation},
};

impl MemoryBackend {
    #[inline]
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
        Ok(self.decide_all(batch, now))
    }

    #[inline(never)]
    fn decide_all(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        let members = batch.members;
        if batch.operation == Operation::Renew {
            return self.renew_all(batch, now);
        }
        counted!(members.len(), C => {
            let mut judged = Judgement::<C>::new(batch.operation, members.len());
            self.judge_at(&mut judged, now, members.len(), |place| members.get(place));
            Outcome::from(judged)
        })
    }

    /// Renews the members in order, independently of each other. Several can be of one bucket.
    fn renew_all(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        let answers = batch.members.iter().map(|member| {
            let print = &member.fingerprint;
            let mut records = self.histories.lock(self.histories.of(print));
            let found = records.find(print);
            let mut answer = Answer::UNKNOWN;
            answer.judge(
                records
                    .see(found, member, now)
                    .judge(batch.ask(member), now),
            );
            records.write(found, batch.action(member), member, &answer, now);
            answer
        });
        Outcome::new(now, answers)
    }

    /// Locks the buckets of all members, judges each, and stores all changes or none. `member` returns the member at a
    /// place, if there is one. The answers are large, so they are written where they stay.
    #[inline(always)]
    pub(crate) fn judge<'m, C: Count>(
        &self,
        judged: &mut Judgement<C>,
        now: Option<Timestamp>,
        len: usize,
        member: impl Fn(usize) -> Option<&'m Member<'m>> + Copy,
    ) -> Result<(), InvalidNow> {
        let now = now.unwrap_or_else(|| self.clock.now());
        now.validate()?;
        self.judge_at(judged, now, len, member);
        Ok(())
    }

    #[inline(always)]
    fn judge_at<'m, C: Count>(
        &self,
        judged: &mut Judgement<C>,
        now: Timestamp,
        len: usize,
        member: impl Fn(usize) -> Option<&'m Member<'m>> + Copy,
    ) {
        judged.begin(now);
        {
            let mut locked = LockedBuckets::<C>::new(len);
            locked.lock(self, len, member);
            for place in 0..len {
                if let Some(member) = member(place) {
                    judged.judge(place, member, |ask| locked.judge(place, member, ask, now));
                }
            }
            // A denial writes nothing, and an attack is mostly denials.
            if judged.passes() {
                for place in 0..len {
                    if let Some(member) = member(place) {
                        locked.write(
                            place,
                            judged.action(member),
                            member,
                            judged.answer(place),
                            now,
                        );
                    }
                }
            } else {
                for place in 0..len {
                    if let Some(member) = member(place) {
                        let untouched = |ask| locked.untouched(place, member, ask, now);
                        judged.take_nothing(place, member, untouched);
                    }
                }
            }
        }
        self.histories.trim(len, member, now);
        #[cfg(feature = "tokio")]
        if judged.gives_back() {
            self.lines.wake((0..len).filter_map(member));
        }
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
        let ask = batch.ask(member);
        let (print, by) = (&member.fingerprint, member.algorithm);
        let mut rows = self.rows.lock(self.rows.of(print));
        let (stored, place) = rows.look(print);
        let before = by.state_in_row(stored, now);
        let value = match from(before) {
            after if after == before => stored,
            after => by.row(after),
        };
        let mut answer = Answer::UNKNOWN;
        answer.judge(by.judge_row(ask, value, now));
        if let Some(value) = changed(value, ask.action, member, &answer, now) {
            rows.put(place, print, value, now);
        }
        answer
    }
}
