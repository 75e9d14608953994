//! The decisions on plain charges: of one bucket in memory, with a vote, without a line.

use super::{decision::Decision, figures::BucketFigures, source::Source, verdict::Verdict};
use crate::{
    algorithm::{ShownBucket, ShownIn},
    clock::Timestamp,
    gcra::{Gcra, Tat},
    quota::{Quota, Usage},
    transaction::Fingerprint,
};

impl Decision {
    /// Creates the decision on a charge by GCRA that votes and cannot wait. `charged` is the TAT afterwards; in an
    /// error, the unchanged one.
    #[inline(always)]
    pub(crate) fn plain_gcra(
        gcra: &Gcra,
        fingerprint: Fingerprint,
        cost: u32,
        charged: Result<Tat, Tat>,
        now: Timestamp,
    ) -> Self {
        let (Ok(tat) | Err(tat)) = charged;
        let bucket = ShownBucket::Gcra(ShownIn {
            by: *gcra,
            state: tat,
            now: now.as_micros(),
            cost,
            is_taken: charged.is_ok(),
            part: None,
            may_wait: false,
            reserved: 0,
        });
        Self::plain(fingerprint, charged.is_ok(), bucket)
    }

    /// Creates the decision on a charge with a quota that votes. `charged` is the usage afterwards; in an error, the
    /// current one.
    #[inline(always)]
    pub(crate) fn plain_quota(
        quota: &Quota,
        fingerprint: Fingerprint,
        cost: u32,
        charged: Result<Usage, Usage>,
        now: Timestamp,
    ) -> Self {
        let (Ok(usage) | Err(usage)) = charged;
        let bucket = ShownBucket::Quota(ShownIn {
            by: *quota,
            state: usage,
            now: now.as_micros(),
            cost,
            is_taken: charged.is_ok(),
            part: None,
            may_wait: false,
            reserved: 0,
        });
        Self::plain(fingerprint, charged.is_ok(), bucket)
    }

    #[inline(always)]
    fn plain(fingerprint: Fingerprint, passed: bool, bucket: ShownBucket) -> Self {
        Self {
            bucket: BucketFigures::Known(bucket),
            verdict: match passed {
                true => Verdict::Allowed,
                false => Verdict::Denied,
            },
            source: Source::Store,
            shadow: false,
            is_charged: passed,
            votes: true,
            fingerprint,
            held: 0,
        }
    }
}
