/// The terms of a limit with leases. See [`Lease`](super::Lease).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTerms {
    /// The number of unspent units that each process may hold.
    pub units: u32,
    /// The burst that the store decides with.
    pub burst: u32,
}

impl LeaseTerms {
    /// The terms by which each process may hold so many units, and the store decides by this burst.
    #[must_use]
    pub const fn new(units: u32, burst: u32) -> Self {
        Self { units, burst }
    }
}
