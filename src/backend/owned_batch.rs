use smallvec::SmallVec;

use crate::{
    algorithm::{Algorithm, Ask, LeaseShare},
    clock::Timestamp,
    id::IdFormat,
    transaction::{Batch, BucketKey, Fingerprint, LimitKey, Member, Mode, OnFailure, Operation},
};

/// A copy of a [`Batch`] that borrows nothing: for a backend that decides on another thread, because its store blocks.
///
/// ```
/// use tollgate::{backend::custom::{Batch, BucketKey, LimitKey, Member, Operation, OwnedBatch}, Limit, transaction::Mode};
///
/// let limit = Limit::per_second(10);
/// let key = BucketKey::new(LimitKey::Number(6), "12345678");
/// let algorithm = limit.algorithm().expect("the client is not blocked");
/// let members = [Member::new(key, algorithm, 1, Mode::CheckAndSpend)];
/// let owned = OwnedBatch::from(&Batch::new(Operation::Spend, &members));
/// let thread = std::thread::spawn(move || {
///     owned.as_batch(|batch| batch.members[0].key.to_string())
/// });
/// assert_eq!(thread.join().ok().as_deref(), Some("6:12345678"));
/// ```
#[derive(Debug)]
pub struct OwnedBatch {
    operation: Operation,
    now: Option<Timestamp>,
    members: Box<[OwnedMember]>,
}

/// A copy of a [`Member`] that borrows nothing.
#[derive(Debug)]
pub(crate) struct OwnedMember {
    limit: Result<u32, Box<str>>,
    id: Box<str>,
    algorithm: Algorithm,
    ask: Ask,
    mode: Mode,
    format: IdFormat,
    on_failure: Option<OnFailure>,
    shadow: bool,
    secret: bool,
    lease: Option<LeaseShare>,
    is_local: bool,
    place: usize,
    print: Fingerprint,
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

impl OwnedMember {
    pub(crate) fn as_member(&self) -> Member<'_> {
        let limit = match &self.limit {
            Ok(number) => LimitKey::Number(*number),
            Err(name) => LimitKey::Name(name),
        };
        Member {
            key: BucketKey::new(limit, &self.id).of(self.algorithm.key()),
            algorithm: &self.algorithm,
            ask: self.ask,
            mode: self.mode,
            format: self.format,
            on_failure: self.on_failure,
            shadow: self.shadow,
            secret: self.secret,
            lease: self.lease,
            is_local: self.is_local,
            place: self.place,
            print: self.print,
        }
    }
}

impl From<&Member<'_>> for OwnedMember {
    fn from(member: &Member<'_>) -> Self {
        Self {
            limit: match member.key.limit {
                LimitKey::Number(number) => Ok(number),
                LimitKey::Name(name) => Err(name.into()),
            },
            id: member.key.id.into(),
            algorithm: member.algorithm.clone(),
            ask: member.ask,
            mode: member.mode,
            format: member.format,
            on_failure: member.on_failure,
            shadow: member.shadow,
            secret: member.secret,
            lease: member.lease,
            is_local: member.is_local,
            place: member.place,
            print: member.print,
        }
    }
}
