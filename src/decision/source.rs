/// Who has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Where the bucket is kept.
    #[default]
    Store,
    /// What is remembered of the store's denials: a [`DenyCache`](crate::backend::DenyCache).
    Cache,
    /// What this process has charged ahead: a [`Lease`](crate::backend::Lease).
    Lease,
    /// What this process alone knows, because the store did not answer
    /// ([`OnFailure::Local`](crate::transaction::OnFailure::Local)).
    Local,
}
