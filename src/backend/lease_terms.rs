/// What a limit comes to that asks for leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTerms {
    /// How many unspent units each process may hold.
    pub units: u32,
    /// The burst that is left for the store.
    pub burst: u32,
}

impl LeaseTerms {
    /// The terms by which each process may hold so many units, and the store decides by this burst.
    #[must_use]
    pub const fn new(units: u32, burst: u32) -> Self {
        Self { units, burst }
    }
}
