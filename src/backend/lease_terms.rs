/// The split of the burst or the quota of a limit with leases. [`Backend::lease`](super::Backend::lease) returns it.
/// The [guide](crate::guide::leases) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTerms {
    /// The most unspent tokens that each process may hold; 0 if the fleet has grown so large that the limit works without
    /// leases.
    pub units: u32,
    /// The burst or the quota that the store decides with.
    pub burst: u32,
}

impl LeaseTerms {
    /// Creates terms: each process can hold `units` tokens, and the store uses a burst or a quota of `burst`.
    #[must_use]
    pub const fn new(units: u32, burst: u32) -> Self {
        Self { units, burst }
    }
}
