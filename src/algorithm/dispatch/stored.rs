//! The stored state of a bucket, and its form as bytes.

use std::mem;

use thiserror::Error;

use super::{
    algorithm::{Algorithm, each, each_as, keyed, map_each},
    state::{State, View, ViewIn},
};
use crate::{
    algorithm::{
        action::{Action, Ask},
        algorithm_key::AlgorithmKey,
        bound::Bounded,
        concurrency::Concurrency,
        counting::{Counting, Judged},
        each::Each,
        gcra::Gcra,
        quota::Quota,
        row_value::RowValue,
        tiers::Tiers,
        window::Window,
    },
    clock::Timestamp,
    message::debug_is_message,
    varint::Malformed,
};

/// The stored state of a bucket. The default is an unused bucket. The [backend
/// docs](crate::backend#a-custom-backend) have an example.
///
/// A state belongs to the algorithm of its bucket, and the [key](crate::transaction::BucketKey) of the bucket names that
/// algorithm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored(Option<Kept>);

/// The state of a bucket that is not full.
pub(super) type Kept = Each<
    <Gcra as Counting>::Stored,
    <Tiers as Counting>::Stored,
    <Window as Counting>::Stored,
    <Quota as Counting>::Stored,
    <Concurrency as Counting>::Stored,
>;

/// The layout that is written.
const VERSION: u8 = 1;

/// The kind of an unused bucket.
const NOTHING: u8 = 0;

impl Stored {
    /// The time from which the bucket is full under this algorithm, so that a backend can forget it; `None` if that
    /// never happens.
    ///
    /// Removing it then, or later, does not change any decision, unless the clock steps back or the limit changes to
    /// one with longer periods.
    #[must_use]
    pub fn full_at(&self, algorithm: &Algorithm) -> Option<Timestamp> {
        let us = match &self.0 {
            None => 0,
            Some(kept) => each!((kept, algorithm), (own, by) => by.lapses_at(own), _ => 0),
        };
        (us < u64::MAX).then_some(Timestamp::from_micros(us))
    }

    pub(super) const fn kept(&self) -> Option<&Kept> {
        self.0.as_ref()
    }

    /// Creates the history of an unused bucket, to change it.
    pub(crate) fn history(algorithm: &Algorithm) -> Self {
        Self(Some(
            each_as!(algorithm, (By, This, _) => This(Default::default())),
        ))
    }

    /// Returns the part on which one request depends. A state of another algorithm counts as that of an unused bucket.
    #[inline(always)]
    pub(crate) fn see<'a>(&'a self, algorithm: &'a Algorithm, now: Timestamp) -> View<'a> {
        algorithm.see(Some(self), now)
    }

    /// Stores the state that an action has led to.
    pub(crate) fn keep(
        &mut self,
        algorithm: &Algorithm,
        action: Action,
        state: State,
        now: Timestamp,
    ) {
        let (kept, now) = (mem::take(&mut self.0), now.as_micros());
        if action == Action::Reset {
            return;
        }
        self.0 = each_as!((algorithm, state),
            (By, This, by, state) => {
                let own = match kept {
                    Some(This(own)) => Some(own),
                    _ => None,
                };
                by.keep(own, action, state, now).map(This)
            },
            _ => kept);
    }

    /// Changes a history to the state that an action has led to.
    #[inline]
    pub(crate) fn change(
        &mut self,
        algorithm: &Algorithm,
        action: Action,
        state: State,
        now: Timestamp,
    ) {
        let now = now.as_micros();
        if let Some(kept) = &mut self.0 {
            each!((algorithm, kept, state), (by, own, state) => by.change(own, action, state, now), _ => ());
        }
    }

    /// Returns the memory that the state takes beyond its own size, in bytes, with what the allocator adds.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.0.as_ref().map_or(
            0,
            |kept| each_as!(kept, (By, This, own) => By::allocated_bytes(own)),
        )
    }

    /// The state as bytes, for a store that keeps values as bytes.
    ///
    /// Equal states have equal bytes. A GCRA bucket takes about 10 bytes. A bucket with tiers takes about 10 bytes,
    /// some 5 for each tier, and 1 to 8 for each unit of a window that slides. A window takes 10 bytes, and 1 to 8 for
    /// each unit. A quota takes about 10.
    ///
    /// ```
    /// use tollgate::decision::Stored;
    ///
    /// let stored = Stored::default();
    /// let bytes = stored.to_bytes();
    /// assert_eq!(bytes.len(), 1);
    /// assert_eq!(Stored::from_bytes(&bytes)?, stored);
    /// # Ok::<_, tollgate::decision::StoredError>(())
    /// ```
    ///
    /// # Layout
    ///
    /// The first byte is 16 times the version of the layout, which is 1, plus the kind of the state. Only unsigned
    /// integers in LEB128 follow, each in as few bytes as it needs. Times are whole microseconds.
    ///
    /// | kind | state | content |
    /// |---|---|---|
    /// | 0 | unused | nothing |
    /// | 1 | GCRA | the TAT since the Unix epoch, below 2⁵³, and its fraction |
    /// | 2 | tiers | the time of the last grant since the Unix epoch, below 2⁵²; the number of tiers, up to 16; each tier, lowest first |
    /// | 3 | window | the number of units, up to 4096; when the newest was taken since the Unix epoch, below 2⁵²; for each of the others, newest first, how long before that |
    /// | 4 | quota | the start of the period since the Unix epoch, below 2⁵², and how much is used, at least 1 |
    /// | 5 | concurrency | as a window: a permit is a unit, taken when it was taken or renewed last |
    ///
    /// A tier is 0 if it was never entered. Otherwise, it is 1 plus the time from its entry to the last grant, followed
    /// by its units in one of two forms: 2 × their number; or 1 plus 2 × their number, and then the time of each unit,
    /// newest first. The first time counts back from the last grant, and each of the others from the unit before it. A
    /// tier has up to 4096 units with times.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(14);
        match &self.0 {
            None => bytes.push(VERSION << 4 | NOTHING),
            Some(kept) => each_as!(kept, (By, This, own) => {
                bytes.push(VERSION << 4 | By::KIND);
                By::write(own, &mut bytes);
            }),
        }
        bytes
    }

    /// The state that [`to_bytes`](Self::to_bytes) has written.
    ///
    /// # Errors
    ///
    /// If this version of the crate does not write such bytes. No input makes it panic, or allocate more than a valid
    /// state of the same length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoredError> {
        let (header, mut rest) = bytes.split_first().ok_or(StoredError::Truncated)?;
        let (version, kind) = (header >> 4, header & 0xf);
        if version != VERSION {
            return Err(StoredError::UnknownVersion(version));
        }
        let kept = match kind {
            NOTHING => None,
            kind => {
                let is_of = |key: &AlgorithmKey| keyed!(*key, (By, This) => By::KIND == kind);
                let key = AlgorithmKey::ALL.into_iter().find(is_of);
                let key = key.ok_or(StoredError::UnknownKind(kind))?;
                Some(keyed!(key, (By, This) => This(By::read(&mut rest)?)))
            }
        };
        match rest {
            [] => Ok(Self(kept)),
            more => Err(StoredError::TrailingBytes(more.len())),
        }
    }
}

impl Algorithm {
    /// Returns the view of a stored state, or of an unused bucket.
    #[inline(always)]
    pub(crate) fn see<'a>(&'a self, stored: Option<&'a Stored>, now: Timestamp) -> View<'a> {
        let (kept, now) = (stored.and_then(Stored::kept), now.as_micros());
        each_as!(self, (By, This, by) => {
            let own = match kept {
                Some(This(own)) => Some(own),
                _ => None,
            };
            This(ViewIn { by, view: by.view(own, now) })
        })
    }

    /// Does the same as [`View::judge`], if the state is in a row.
    #[inline(always)]
    pub(crate) fn judge_row(
        &self,
        ask: &Ask<'_>,
        value: RowValue,
        now: Timestamp,
        write: impl FnOnce(Judged<State>),
    ) {
        if ask.action != Action::Spend {
            return write(self.judge_row_rarely(ask, value, now));
        }
        let now = now.as_micros();
        each_as!(self, (By, This, by) => {
            if By::FITS_ROW {
                write(by.judge(ask, by.view_row(value, now), now).map(This));
            }
        });
    }

    /// Judges what is asked of a row more seldom than a charge.
    #[inline(never)]
    fn judge_row_rarely(&self, ask: &Ask<'_>, value: RowValue, now: Timestamp) -> Judged<State> {
        if ask.action == Action::Reset {
            return Judged::new(State::MISSING, true);
        }
        let now = now.as_micros();
        each_as!(self, (By, This, by) => by.judge(ask, by.view_row(value, now), now).map(This))
    }

    /// Returns the key of the algorithm, if its buckets are rows without a line and it permits the cost, which is not 0.
    #[inline(always)]
    pub(crate) fn plain_key(&self, cost: u32) -> Option<AlgorithmKey> {
        fn key<A: Counting + Bounded>(by: &A, cost: u32) -> Option<AlgorithmKey> {
            let is_plain = A::FITS_ROW && cost > 0 && !by.has_line() && by.permits_any(cost);
            is_plain.then_some(A::KEY)
        }
        each!(self, by => key(by, cost))
    }

    /// Returns the value of a row after a charge, if it passes.
    #[inline(always)]
    pub(crate) fn charge_row(
        &self,
        cost: u32,
        joins_line: bool,
        value: RowValue,
        now: Timestamp,
    ) -> Option<RowValue> {
        let now = now.as_micros();
        each_as!(self, (By, This, by) => {
            // Here, so that what is asked stays in registers.
            let ask = Ask::spend(cost, joins_line);
            let judged = if By::FITS_ROW {
                by.judge(&ask, by.view_row(value, now), now)
            } else {
                return None;
            };
            judged.passed.then(|| by.row(judged.state))
        })
    }

    /// Returns the state in a row if nothing is taken from it.
    #[inline(always)]
    pub(crate) fn untouched_row(&self, ask: &Ask<'_>, value: RowValue, now: Timestamp) -> State {
        let now = now.as_micros();
        map_each!(self, by => by.untouched(ask, by.view_row(value, now), now))
    }

    /// Returns the state in a row.
    #[inline(always)]
    pub(crate) fn state_in_row(&self, value: RowValue, now: Timestamp) -> State {
        self.untouched_row(&Ask::FIGURES, value, now)
    }

    /// Returns a state as the value of a row.
    #[inline(always)]
    pub(crate) fn row(&self, state: &State) -> RowValue {
        each_as!((self, state), (By, This, by, state) => {
            if By::FITS_ROW { by.row(*state) } else { RowValue::FULL }
        }, _ => RowValue::FULL)
    }
}

/// The error for bytes that are not the state of a bucket. Returned by [`Stored::from_bytes`].
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The layout has another version.
    #[error(
        "the bucket is stored in version {0} of the layout, and version 1 is read: use the version of tollgate that has \
         written it, or delete the bucket"
    )]
    UnknownVersion(u8),
    /// The algorithm is not known.
    #[error(
        "the bucket is stored as kind {0}, which is unknown: use the version of tollgate that has written it, or \
         delete the bucket"
    )]
    UnknownKind(u8),
    /// The bytes end too early.
    #[error("the stored bucket is incomplete: store all bytes, or delete the bucket")]
    Truncated,
    /// Bytes follow the state.
    #[error("{0} bytes follow the stored bucket: store its bytes only, or delete the bucket")]
    TrailingBytes(usize),
    /// A value that no decision produces.
    #[error("the stored bucket has {0}: another program has written it, so delete the bucket")]
    Impossible(&'static str),
}

debug_is_message!(StoredError);

impl From<Malformed> for StoredError {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Truncated => Self::Truncated,
            Malformed::Impossible(value) => Self::Impossible(value),
        }
    }
}

#[cfg(test)]
mod tests;
