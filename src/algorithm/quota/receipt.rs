/// A charge as a receipt remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuotaCharge {
    /// The start of the period.
    pub(crate) start_us: u64,
}
