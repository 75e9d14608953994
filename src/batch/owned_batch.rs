use smallvec::SmallVec;

use super::{Batch, Member, OwnedMember};
use crate::{clock::Timestamp, transaction::Operation};

/// A copy of a [`Batch`] that borrows nothing: for a backend that decides on another thread, because its store blocks.
///
/// ```
/// use tollgate::{Limit, Limits, backend::custom::{Batch, Member, Operation, OwnedBatch}, transaction::Mode};
///
/// let limits = Limits::builder().limit("uploads", Limit::per_second(10)).build()?;
/// let uploads = limits.get("uploads").expect("it was just defined");
/// let members = [Member::new(uploads, "12345678", 1, Mode::CheckAndSpend)];
/// let owned = OwnedBatch::from(&Batch::new(Operation::Spend, &members));
/// let thread = std::thread::spawn(move || {
///     owned.as_batch(|batch| batch.members[0].key().to_string())
/// });
/// assert_eq!(thread.join().ok().as_deref(), Some("uploads:12345678"));
/// # Ok::<_, tollgate::limit::LimitsError>(())
/// ```
#[derive(Debug)]
pub struct OwnedBatch {
    operation: Operation,
    now: Option<Timestamp>,
    members: Box<[OwnedMember]>,
}

impl OwnedBatch {
    /// Passes on the batch, which is decided as the original would be.
    pub fn as_batch<T>(&self, look: impl FnOnce(&Batch<'_>) -> T) -> T {
        let members = self.members();
        look(&self.of(&members))
    }

    /// Returns members for [`of`](Self::of).
    pub(crate) fn members(&self) -> SmallVec<[Member<'_>; 4]> {
        self.members.iter().map(OwnedMember::as_member).collect()
    }

    /// Returns the batch of these members.
    pub(crate) fn of<'a>(&self, members: &'a [Member<'a>]) -> Batch<'a> {
        Batch::new(self.operation, members).at(self.now)
    }
}

impl From<&Batch<'_>> for OwnedBatch {
    fn from(batch: &Batch<'_>) -> Self {
        Self {
            operation: batch.operation,
            now: batch.now,
            members: batch.members.iter().map(OwnedMember::from).collect(),
        }
    }
}
