use super::{
    batch::{Batch, Member, Operation},
    bucket_key::{BucketKey, LimitKey},
    fingerprint::Fingerprint,
    mode::Mode,
    on_failure::OnFailure,
    receipt::Receipt,
};
use crate::{algorithm::Algorithm, clock::Timestamp, id::IdFormat};

/// A copy of a [`Batch`] that borrows nothing: for a backend that decides on another thread, because its store blocks.
///
/// ```
/// use tollgate::{
///     Limit,
///     transaction::{Batch, BucketKey, LimitKey, Member, Mode, Operation, OwnedBatch},
/// };
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
    limit: OwnedLimitKey,
    id: Box<str>,
    algorithm: Algorithm,
    cost: u32,
    min_cost: u32,
    mode: Mode,
    format: IdFormat,
    on_failure: Option<OnFailure>,
    floor: Option<OnFailure>,
    shadow: bool,
    fingerprint: Fingerprint,
    receipt: Option<Receipt>,
    saturates: bool,
    no_wait: bool,
    secret: bool,
    ago_us: u64,
}

#[derive(Debug)]
enum OwnedLimitKey {
    Number(u32),
    Name(Box<str>),
}

impl OwnedBatch {
    /// Passes on the batch, which is decided as the original would be.
    pub fn as_batch<T>(&self, look: impl FnOnce(&Batch<'_>) -> T) -> T {
        let members: Vec<_> = self.members.iter().map(OwnedMember::as_member).collect();
        look(&Batch::new(self.operation, &members).at(self.now))
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
            OwnedLimitKey::Number(number) => LimitKey::Number(*number),
            OwnedLimitKey::Name(name) => LimitKey::Name(name),
        };
        Member {
            key: BucketKey::new(limit, &self.id).of(self.algorithm.key()),
            algorithm: &self.algorithm,
            cost: self.cost,
            min_cost: self.min_cost,
            mode: self.mode,
            format: self.format,
            on_failure: self.on_failure,
            floor: self.floor,
            shadow: self.shadow,
            fingerprint: self.fingerprint,
            receipt: self.receipt.as_ref(),
            saturates: self.saturates,
            no_wait: self.no_wait,
            secret: self.secret,
            ago_us: self.ago_us,
        }
    }
}

impl From<&Member<'_>> for OwnedMember {
    fn from(member: &Member<'_>) -> Self {
        // Destructured, so that a new field of a member cannot be forgotten here.
        let Member {
            key,
            algorithm,
            cost,
            min_cost,
            mode,
            format,
            on_failure,
            floor,
            shadow,
            fingerprint,
            receipt,
            saturates,
            no_wait,
            secret,
            ago_us,
        } = *member;
        Self {
            limit: key.limit.into(),
            id: key.id.into(),
            algorithm: algorithm.clone(),
            cost,
            min_cost,
            mode,
            format,
            on_failure,
            floor,
            shadow,
            fingerprint,
            receipt: receipt.map(Receipt::copied),
            saturates,
            no_wait,
            secret,
            ago_us,
        }
    }
}

impl From<LimitKey<'_>> for OwnedLimitKey {
    fn from(limit: LimitKey<'_>) -> Self {
        match limit {
            LimitKey::Number(number) => Self::Number(number),
            LimitKey::Name(name) => Self::Name(name.into()),
        }
    }
}
