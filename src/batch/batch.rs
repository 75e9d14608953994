use std::{ptr, sync::Arc};

use smallvec::SmallVec;

use super::member::{Member, OwnedMember};
use crate::{
    clock::Timestamp,
    transaction::{BucketKey, Operation},
};

/// Members that are decided and stored in one atomic step. No two of them share a bucket, except those of renewals, which are
/// decided in order. The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Batch<'a> {
    /// The operation on the buckets.
    pub operation: Operation,
    /// The time of the decision, or `None` for the backend's clock.
    pub now: Option<Timestamp>,
    /// The members, one for each bucket.
    pub members: &'a [Member<'a>],
    /// The copy that these members are borrowed from, if there is one.
    lender: Option<Lender<'a>>,
}

/// A copy of a batch, and the members that were borrowed from it.
#[derive(Clone, Copy, Debug)]
struct Lender<'a> {
    copy: &'a OwnedBatch,
    members: &'a [Member<'a>],
}

impl<'a> Batch<'a> {
    /// Creates a batch that is decided by the backend's clock.
    #[must_use]
    pub const fn new(operation: Operation, members: &'a [Member<'a>]) -> Self {
        Self {
            operation,
            now: None,
            members,
            lender: None,
        }
    }

    /// Sets the time of the decision, instead of the backend's clock.
    #[must_use]
    pub const fn at(self, now: Option<Timestamp>) -> Self {
        Self { now, ..self }
    }

    /// The keys of the buckets, in the order of the members. Only renewals have a key several times.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = BucketKey<'a>> + use<'a> {
        self.members.iter().map(Member::key)
    }

    /// Returns whether the batch is denied if `member` does not pass.
    #[inline]
    #[must_use]
    pub const fn votes(&self, member: &Member<'_>) -> bool {
        matches!(self.operation, Operation::Check | Operation::Spend) && member.role.mode.votes()
    }

    /// Returns whether the bucket of `member` is changed if the member and the batch pass.
    #[inline]
    #[must_use]
    pub const fn writes(&self, member: &Member<'_>) -> bool {
        member.writes(self.operation)
    }
}

/// A copy of a [`Batch`] that owns its data, for a backend that decides on another thread, or decides several batches together.
///
/// Clones are cheap. Copying a batch that was borrowed from a copy is cheap, too, so several wrappers that keep a batch copy its
/// members only once.
///
/// ```
/// use tollgate::{Limit, Limits, backend::custom::{Batch, Member, Operation, OwnedBatch}, transaction::Mode};
///
/// let limits = Limits::builder().limit("uploads", Limit::per_second(10)).build()?;
/// let uploads = limits.get("uploads").expect("it was just defined");
/// let members = [Member::new(uploads, "12345678", 1, Mode::CheckAndSpend)];
/// let owned = OwnedBatch::from(&Batch::new(Operation::Spend, &members));
/// let thread = std::thread::spawn(move || {
///     owned.as_batch(|batch| batch.keys().map(|key| key.to_string()).collect::<Vec<_>>())
/// });
/// assert_eq!(thread.join().ok(), Some(vec!["uploads:12345678".to_owned()]));
/// # Ok::<_, tollgate::limit::LimitsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OwnedBatch(Arc<BatchCopy>);

#[derive(Debug)]
struct BatchCopy {
    operation: Operation,
    now: Option<Timestamp>,
    members: Box<[OwnedMember]>,
}

impl OwnedBatch {
    /// Passes the batch to a function. It is decided like the original.
    pub fn as_batch<T>(&self, look: impl FnOnce(&Batch<'_>) -> T) -> T {
        let members = self.members();
        look(&self.of(&members))
    }

    /// Returns members for [`of`](Self::of).
    pub(crate) fn members(&self) -> SmallVec<[Member<'_>; 4]> {
        self.0.members.iter().map(OwnedMember::as_member).collect()
    }

    /// Returns the batch of the [members](Self::members), which the caller has not changed.
    pub(crate) fn of<'a>(&'a self, members: &'a [Member<'a>]) -> Batch<'a> {
        Batch {
            lender: Some(Lender {
                copy: self,
                members,
            }),
            ..Batch::new(self.0.operation, members).at(self.0.now)
        }
    }
}

impl Lender<'_> {
    /// Returns whether a batch still has the members that were borrowed from this copy. A wrapper may have replaced them.
    fn has_lent(&self, batch: &Batch<'_>) -> bool {
        ptr::eq(batch.members, self.members)
            && batch.operation == self.copy.0.operation
            && batch.now == self.copy.0.now
    }
}

impl From<&Batch<'_>> for OwnedBatch {
    fn from(batch: &Batch<'_>) -> Self {
        if let Some(lender) = batch.lender.filter(|lender| lender.has_lent(batch)) {
            return lender.copy.clone();
        }
        Self(Arc::new(BatchCopy {
            operation: batch.operation,
            now: batch.now,
            members: batch.members.iter().map(OwnedMember::from).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limit, Limits, transaction::Mode};

    #[test]
    fn batch_is_copied_once_unless_a_wrapper_changes_it() {
        let limits = Limits::builder().limit("a", Limit::per_second(1)).build();
        let limits = limits.unwrap();
        let members = [Member::new(
            limits.get("a").unwrap(),
            "x",
            1,
            Mode::CheckAndSpend,
        )];
        let copy = OwnedBatch::from(&Batch::new(Operation::Spend, &members));
        let is_same = |batch: &Batch<'_>| Arc::ptr_eq(&OwnedBatch::from(batch).0, &copy.0);
        copy.as_batch(|batch| {
            assert!(is_same(batch));
            assert!(is_same(&batch.at(None)));
            assert!(!is_same(&batch.at(Some(Timestamp::default()))));
            let other = Batch {
                members: &members,
                ..*batch
            };
            assert!(!is_same(&other));
            let operation = Operation::Check;
            assert!(!is_same(&Batch {
                operation,
                ..*batch
            }));
        });
    }
}
