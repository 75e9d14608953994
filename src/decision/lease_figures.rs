//! What leases add to decisions.

use super::{Answer, Decision, Source, context::DecisionContext};
use crate::{
    algorithm::{Action, Algorithm},
    transaction::Claim,
};

/// What leases add to an answer, for a limit that has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseFigures {
    /// Whether the request was decided with units that this process holds in advance. The state is then the one that the
    /// store had last.
    pub(crate) decides: bool,
    /// The units that this process holds in advance. The state counts them as charged.
    pub(crate) held: u32,
    /// The part of the limit that leases reserve. The state is that of the rest.
    pub(crate) reserved: u32,
}

impl LeaseFigures {
    /// The figures of a limit without leases.
    pub(crate) const NONE: Self = Self {
        decides: false,
        held: 0,
        reserved: 0,
    };
}

impl Decision {
    /// Writes the decision on a bucket of a limit with leases. The answer is that of the part that the store decides with.
    #[cold]
    pub(super) fn show_leased(
        &mut self,
        algorithm: &Algorithm,
        claim: &Claim<'_>,
        answer: &Answer,
        context: DecisionContext,
        leased: LeaseFigures,
    ) -> bool {
        let LeaseFigures {
            decides,
            held,
            reserved,
        } = leased;
        let left = match reserved {
            0 => None,
            reserved => algorithm.with_most(algorithm.max_cost().saturating_sub(reserved)),
        };
        let part = left.as_ref().unwrap_or(algorithm);
        let state = match held {
            0 => answer.state,
            held => part.with_held(answer.state, context.now, held),
        };
        let answer = Answer { state, ..*answer };
        let source = match decides {
            true => Source::Lease,
            false => context.source,
        };
        let is_answered = self.show(part, claim, &answer, DecisionContext { source, ..context });
        let is_probe = answer.passed && context.passes && claim.ask.action == Action::Probe;
        let probed = if is_probe { claim.ask.cost } else { 0 };
        self.leased = Some(LeaseFigures {
            held: held.saturating_sub(probed),
            ..leased
        });
        is_answered
    }

    /// Returns the part of the limit that leases reserve.
    #[inline]
    pub(crate) fn reserved(&self) -> u32 {
        self.leased.map_or(0, |leased| leased.reserved)
    }
}
