/// Who made a decision. See [`Decision::source`](crate::Decision::source).
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
