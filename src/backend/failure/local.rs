//! What this process can decide by itself: a bounded memory, kept warm with what the store has decided.

use smallvec::SmallVec;

use crate::{
    backend::{BackendError, MemoryBackend},
    decision::{Answer, Outcome, Source},
    gcra::Gcra,
    transaction::{Algorithm, Batch, Member},
};

/// The part of each limit that one process may use up while it cannot ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    part: u32,
    of: u32,
}

impl Share {
    pub(super) const WHOLE: Self = Self { part: 1, of: 1 };

    /// # Panics
    ///
    /// If it is nothing, or more than all.
    #[track_caller]
    pub(super) const fn new(part: u32, of: u32) -> Self {
        assert!(
            0 < part && part <= of,
            "a share is a part of the whole: use `share(1, 4)` for a quarter"
        );
        Self { part, of }
    }

    /// So much of the burst, at least 1, and so much of the rate.
    ///
    /// An empty bucket takes as long to fill as the whole one does, so that what the store has decided says how
    /// full the part is.
    fn algorithm(self, whole: &Algorithm) -> Algorithm {
        if self == Self::WHOLE {
            return whole.clone();
        }
        let gcra = match whole {
            Algorithm::Gcra(gcra) => gcra,
            Algorithm::Tiers(tiers) => return Algorithm::Tiers(tiers.share(self.part, self.of)),
        };
        let burst = u64::from(gcra.burst()) * u64::from(self.part);
        let burst = u32::try_from(burst.div_ceil(self.of.into())).unwrap_or(gcra.burst());
        let slower = gcra.period().as_micros() * u128::from(self.of);
        let period = slower
            .div_ceil(self.part.into())
            .try_into()
            .unwrap_or(u64::MAX);
        let part = Gcra::new(
            burst,
            gcra.count(),
            std::time::Duration::from_micros(period),
        );
        Algorithm::Gcra(part.unwrap_or(*gcra))
    }
}

/// The memory that decides meanwhile.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) memory: MemoryBackend,
    pub(super) share: Share,
}

impl Local {
    /// Remembers what the store has decided.
    pub(super) fn learn(&self, batch: &Batch<'_>, outcome: &Outcome) {
        let now = batch.now.unwrap_or_else(|| self.memory.now());
        for (member, answer) in batch.members.iter().zip(outcome.answers()) {
            if answer.known {
                let mut answer = *answer;
                answer.state = answer.state.by_clock(outcome.now, now);
                self.memory.learn(batch.operation, member, &answer, now);
            }
        }
    }

    /// Decides the members that `is_meant` names; the others pass.
    pub(super) fn decide(
        &self,
        batch: &Batch<'_>,
        is_meant: impl Fn(&Member<'_>) -> bool,
    ) -> Result<Outcome, BackendError> {
        let all = batch.members.iter().all(&is_meant);
        if all && self.share == Share::WHOLE {
            let decided = self.memory.decide(batch)?;
            return Ok(decided.by(Source::Local));
        }
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
            let part = Batch::new(batch.operation, &members).at(batch.now);
            self.memory.decide(&part)?
        };
        let mut answers = decided.answers().iter().copied();
        let answers = batch.members.iter().map(|member| match is_meant(member) {
            true => answers.next().unwrap_or(Answer::UNKNOWN),
            false => Answer::UNKNOWN,
        });
        Ok(Outcome::new(decided.now, answers)
            .decided_by(shares)
            .by(Source::Local))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;

    #[test]
    fn share_is_of_the_burst_and_of_the_rate() {
        let of = |part, of, limit: Limit| {
            let algorithm = limit.algorithm().unwrap();
            let Algorithm::Gcra(gcra) = Share::new(part, of).algorithm(algorithm) else {
                panic!("it has no tiers")
            };
            (gcra.burst(), gcra.count(), gcra.period().as_micros())
        };
        let limit = Limit::per_second(10).burst(20);
        assert_eq!(of(1, 1, limit.clone()), (20, 10, 1_000_000));
        assert_eq!(of(1, 4, limit.clone()), (5, 10, 4_000_000));
        assert_eq!(of(2, 3, limit.clone()), (14, 10, 1_500_000));
        assert_eq!(of(1, 100, limit), (1, 10, 100_000_000));
    }
}
