/// The source of a decision. See [`Decision::source`](crate::Decision::source).
///
/// ```
/// use tollgate::{Limit, Limiter, Limits, MemoryBackend, Transaction, decision::Source};
///
/// let limits = Limits::builder().limit("requests", Limit::per_second(10)).build()?;
/// let limiter = Limiter::new(limits, MemoryBackend::new());
/// let decision = limiter.try_spend(&Transaction::new("requests", "alice")).expect("memory never waits")?;
/// assert_eq!(decision.source(), Source::Store);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store that keeps the bucket.
    #[default]
    Store,
    /// A [`DenyCache`](crate::backend::DenyCache), which remembers the store's denials.
    Cache,
    /// A [`Lease`](crate::backend::Lease): tokens that this process has charged in advance.
    Lease,
    /// This process alone, because the store did not answer
    /// ([`OnFailure::Local`](crate::transaction::OnFailure::Local)).
    Local,
}
