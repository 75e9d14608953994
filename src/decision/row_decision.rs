//! The decisions on charges of rows, each with a vote.

use super::{context::DecisionContext, decision::Decision, verdict::Verdict};
use crate::{
    algorithm::{RowValue, ShownBucket},
    transaction::RowCharge,
};

/// The answer to the charge of a row.
#[derive(Clone, Copy)]
pub(crate) struct RowAnswer {
    /// The value of the row afterwards.
    pub(crate) value: RowValue,
    pub(crate) fits: bool,
}

impl Decision {
    /// Writes the decision on a charge of a batch over one without a limit.
    #[inline(always)]
    pub(super) fn show_row(
        &mut self,
        charge: &RowCharge<'_>,
        answer: &RowAnswer,
        context: DecisionContext,
    ) {
        self.verdict = match answer.fits {
            true => Verdict::Allowed,
            false => Verdict::Denied,
        };
        self.source = context.source;
        self.is_charged = context.passes;
        self.votes = true;
        self.fingerprint = charge.fingerprint;
        let Some(algorithm) = charge.algorithm else {
            return;
        };
        let (value, cost, bucket) = (answer.value, charge.cost, &mut self.bucket);
        let write = |shown| bucket.fill(shown);
        ShownBucket::show_row(algorithm, value, cost, context.passes, context.now, write);
    }
}
