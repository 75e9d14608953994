//! The state of a bucket in 12 bytes, for algorithms whose states fit.

/// The state of a bucket. The default is a full bucket, which need not be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowValue {
    /// Below [`QUOTA`], a bucket by GCRA; from there on, one with a quota.
    pub(crate) bits: u64,
    pub(crate) low: u32,
}

/// The least bits with a quota: above those with the longest tolerance.
pub(super) const QUOTA: u64 = 1640 << 53;

/// The [`RowValue::debt`] of a bucket that is used up.
pub(super) const EMPTY: u64 = 1 << 11;

impl RowValue {
    pub(crate) const FULL: Self = Self { bits: 0, low: 0 };
}
