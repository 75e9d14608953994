//! Outcomes of batches that leases decide in part.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Exceptions, Outcome};
use crate::{
    algorithm::Algorithm,
    clock::Timestamp,
    decision::{Answer, LeaseFigures},
};

/// The answer to a member that the store was not asked about.
#[derive(Clone, Copy)]
pub(crate) struct OtherAnswer<'a> {
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) answer: Answer,
    pub(crate) leased: LeaseFigures,
}

impl Outcome {
    /// Adds what leases add to the answer at this index.
    pub(crate) fn set_leased(&mut self, index: usize, leased: LeaseFigures) {
        let len = self.answers.len();
        self.leases.resize(len, LeaseFigures::NONE);
        if let Some(place) = self.leases.get_mut(index) {
            *place = leased;
        }
    }

    /// Returns what leases add to the answer at this index.
    pub(crate) fn leased(&self, index: usize) -> LeaseFigures {
        let leased = self.leases.get(index).copied();
        leased.unwrap_or(LeaseFigures::NONE)
    }

    /// Returns the outcome of a larger batch: with these other answers, and those of this outcome in the places between.
    #[must_use]
    pub(crate) fn among(self, others: &[Option<OtherAnswer<'_>>]) -> Self {
        let mut own = 0..self.answers.len();
        let places = others.iter().map(|other| match other {
            Some(_) => None,
            None => own.next(),
        });
        let places: SmallVec<[Option<usize>; 4]> = places.collect();
        let all = || places.iter().copied().zip(others);
        let answers = all().map(|all| match all {
            (_, Some(other)) => other.answer,
            (own, None) => own.map_or(Answer::UNKNOWN, |own| self.answers[own]),
        });
        let leased = all().map(|all| match all {
            (_, Some(other)) => other.leased,
            (own, None) => own.map_or(LeaseFigures::NONE, |own| self.leased(own)),
        });
        let no_room = |own| places.iter().position(|place| *place == Some(own));
        let exceptions = self.exceptions.as_deref();
        Self {
            answers: answers.collect(),
            leases: leased.collect(),
            no_room: self.no_room.and_then(no_room),
            exceptions: exceptions.map(|own| Arc::new(own.among(&places, others, self.now))),
            ..self
        }
    }
}

impl Exceptions {
    /// Returns those of a larger batch. The members that others have answered have the clock of the outcome.
    fn among(
        &self,
        places: &[Option<usize>],
        others: &[Option<OtherAnswer<'_>>],
        now: Timestamp,
    ) -> Self {
        let clocks = self.clocks.as_ref().map(|clocks| {
            let clock = |own: &Option<usize>| own.and_then(|own| clocks.get(own).copied());
            places.iter().map(|own| clock(own).unwrap_or(now)).collect()
        });
        let algorithms = self.algorithms.as_ref().and_then(|algorithms| {
            let all = places.iter().zip(others);
            let all = all.map(|(own, other)| match other {
                Some(other) => Some(other.algorithm.clone()),
                None => algorithms.get((*own)?).cloned(),
            });
            all.collect()
        });
        Self { algorithms, clocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limit, decision::State};

    #[test]
    fn answers_of_a_part_keep_their_clocks_and_figures_in_the_whole() {
        let limit = Limit::per_second(1);
        let algorithm = limit.algorithm().unwrap();
        let at = Timestamp::from_micros;
        let leased = |held| LeaseFigures {
            held,
            ..LeaseFigures::NONE
        };
        let other = || OtherAnswer {
            algorithm,
            answer: Answer::new(State::MISSING, true),
            leased: leased(3),
        };
        let own = [Answer::UNKNOWN, Answer::new(State::MISSING, false)];
        let mut part = Outcome::new(at(5), own);
        part.exceptions = Some(Arc::new(Exceptions {
            clocks: Some([at(7), at(8)].into()),
            ..Exceptions::default()
        }));
        part.no_room = Some(1);
        part.set_leased(1, leased(9));
        let whole = part.among(&[Some(other()), None, Some(other()), None]);
        let answers = [other().answer, own[0], other().answer, own[1]];
        assert_eq!(whole.answers(), answers);
        let held = [0, 1, 2, 3].map(|index| whole.leased(index).held);
        assert_eq!(held, [3, 0, 3, 9]);
        assert_eq!(whole.no_room, Some(3));
        let clocks = whole.exceptions.unwrap().clocks.clone();
        assert_eq!(clocks.as_deref(), Some(&[at(5), at(7), at(5), at(8)][..]));
    }
}
