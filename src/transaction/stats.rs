/// Figures of a backend. [`Limiter::stats`](crate::Limiter::stats) returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of buckets in this process, including full ones that were not removed yet.
    pub buckets: Option<usize>,
    /// The most buckets that this process keeps.
    pub max_buckets: Option<usize>,
    /// The number of buckets evicted since the start.
    pub evictions: Option<u64>,
    /// Whether this process decides without a store, for some buckets or for all. `None` if the backend has no circuit breaker.
    pub is_open: Option<bool>,
}
