//! The decisions on plain charges: of buckets in rows, each with a vote.

use super::{decision::Decision, figures::BucketFigures, verdict::Verdict};
use crate::{
    algorithm::{Algorithm, RowValue, ShownBucket},
    clock::Timestamp,
    transaction::Fingerprint,
};

impl Decision {
    /// Writes the decision on a charge of a batch over one without a limit. `value` is that of the row afterwards.
    #[inline(always)]
    pub(crate) fn show_plain(
        &mut self,
        algorithm: &Algorithm,
        (fingerprint, value, cost): (Fingerprint, RowValue, u32),
        fits: bool,
        is_charged: bool,
        now: Timestamp,
    ) {
        self.verdict = match fits {
            true => Verdict::Allowed,
            false => Verdict::Denied,
        };
        self.is_charged = is_charged;
        self.votes = true;
        self.fingerprint = fingerprint;
        let (place, known) = (&mut self.bucket, BucketFigures::Known);
        ShownBucket::write_row(algorithm, value, cost, is_charged, now, place, known);
    }
}
