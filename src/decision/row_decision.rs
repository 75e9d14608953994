//! The decisions on charges of rows, each with a vote.

use super::{
    context::DecisionContext, decision::Decision, figures::BucketFigures, verdict::Verdict,
};
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
        let (place, known) = (&mut self.bucket, BucketFigures::Known);
        let (value, cost) = (answer.value, charge.cost);
        let is_charged = context.passes;
        ShownBucket::write_row(
            algorithm,
            value,
            cost,
            is_charged,
            context.now,
            place,
            known,
        );
    }
}
