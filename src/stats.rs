/// Figures of a backend. [`Limiter::stats`](crate::Limiter::stats) returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of buckets in this process, including full ones that have not been replaced yet.
    pub buckets: Option<usize>,
    /// The most buckets that this process keeps. Windows and tiers have a budget in bytes, and count as if all were of the
    /// least size.
    pub max_buckets: Option<usize>,
    /// The number of buckets evicted since the start.
    pub evictions: Option<u64>,
    /// Whether this process decides without a store, for some buckets or all: a circuit breaker is open, the store has
    /// decided nothing since the last decision without it, or that was made within the last second.
    pub is_open: Option<bool>,
}
