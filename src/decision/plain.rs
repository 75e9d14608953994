//! The decisions on plain charges: of buckets in rows, each with a vote.

use super::{decision::Decision, figures::BucketFigures, source::Source, verdict::Verdict};
use crate::{algorithm::ShownBucket, transaction::Fingerprint};

impl Decision {
    /// Creates the decision on a charge that votes: whether it fits, and whether all charges of its batch are made.
    #[inline(always)]
    pub(crate) fn plain(
        bucket: ShownBucket,
        fingerprint: Fingerprint,
        fits: bool,
        is_charged: bool,
    ) -> Self {
        Self {
            bucket: BucketFigures::Known(bucket),
            verdict: match fits {
                true => Verdict::Allowed,
                false => Verdict::Denied,
            },
            source: Source::Store,
            shadow: false,
            is_charged,
            votes: true,
            fingerprint,
            held: 0,
        }
    }
}
