//! Units that were charged in advance, and the answers from them.

use crate::{
    algorithm::Algorithm,
    clock::Timestamp,
    decision::{Answer, LeaseFigures, OtherAnswer, State},
};

/// Units that were charged in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeasedUnits {
    pub(super) units: u32,
    /// The start of the period in which the store has charged them; 0 if they never expire.
    pub(super) period: u64,
}

/// What a process knows of a bucket: the units that it holds, and the state that the store had last, by the clock of this
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) amount: LeasedUnits,
    pub(super) said: Option<State>,
}

impl Holding {
    /// The answer to a request that passes, if this is left after it. If the store has said nothing about the period,
    /// nothing else is left.
    pub(super) fn answer<'a>(&self, algorithm: &'a Algorithm, now: Timestamp) -> OtherAnswer<'a> {
        let Self { amount, said } = *self;
        let said = said.filter(|said| algorithm.period_of(*said) == Some(amount.period));
        let state = said.or_else(|| algorithm.empty_in(amount.period, now));
        OtherAnswer {
            algorithm,
            answer: Answer::new(state.unwrap_or(State::MISSING), true),
            leased: LeaseFigures {
                decides: true,
                held: amount.units,
                reserved: 0,
            },
        }
    }
}
