//! The enum of all algorithms.

/// One of the algorithms, or what belongs to one of them. [`Algorithm`](super::Algorithm) is the form that users
/// see, and [`Limit`](crate::Limit) has constructors for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Each<G, T, W, Q, C> {
    /// A token bucket by the Generic Cell Rate Algorithm.
    Gcra(G),
    /// Sliding windows with active and cooldown periods.
    Tiers(T),
    /// A sliding window.
    Window(W),
    /// A quota for each period of a calendar, or from first use.
    Quota(Q),
    /// Permits that are taken while work runs, and come back when it ends.
    Concurrency(C),
}
