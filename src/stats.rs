/// How a backend stands, as far as it can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How many buckets are held in this process, including those that are full again but not yet replaced.
    pub buckets: Option<usize>,
    /// How many buckets were forgotten to make room, since the start.
    pub evictions: Option<u64>,
    /// Whether a breaker is open, so that a store is not asked.
    pub is_open: Option<bool>,
}
