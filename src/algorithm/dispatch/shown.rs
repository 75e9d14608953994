//! A bucket as a decision shows it. Figures are computed when somebody asks for them.

use std::{cmp::Ordering, time::Duration};

use super::{
    algorithm::{Algorithm, each, each_as, map_each},
    state::State,
};
use crate::{
    algorithm::{
        action::{Action, Ask},
        bound::Bounded,
        charge::Charge,
        concurrency::Concurrency,
        counting::{Counting, ShownIn, TakenPart},
        each::Each,
        gcra::Gcra,
        quota::Quota,
        refill::Refill,
        row_value::RowValue,
        ticks::Wait,
        tiers::{Grant, Tiers},
        time::FOREVER,
        window::Window,
    },
    clock::Timestamp,
};

/// A bucket, with its state after a batch.
pub(crate) type ShownBucket =
    Each<ShownIn<Gcra>, ShownIn<Tiers>, ShownIn<Window>, ShownIn<Quota>, ShownIn<Concurrency>>;

impl<A: Counting> ShownIn<A> {
    /// Creates the bucket as a decision shows it, if its batch passes or not. `is_probed` says whether the state leaves out
    /// the cost.
    #[inline(always)]
    fn new(
        by: &A,
        ask: &Ask<'_>,
        state: A::State,
        part: Option<TakenPart>,
        (passes, is_probed): (bool, bool),
        now: u64,
    ) -> Self {
        Self {
            state: match is_probed {
                true => by.probed(ask, state, now),
                false => state,
            },
            by: by.clone(),
            now,
            cost: ask.cost,
            is_taken: passes,
            part,
            may_wait: ask.joins_line && by.has_line(),
        }
    }

    /// Creates the bucket with the state in a row, after a charge that cannot wait, or without it.
    #[inline(always)]
    fn charged(by: &A, value: RowValue, cost: u32, is_taken: bool, now: u64) -> Self {
        Self {
            state: by.untouched(&Ask::FIGURES, by.view_row(value, now), now),
            by: by.clone(),
            now,
            cost,
            is_taken,
            part: None,
            may_wait: false,
        }
    }
}

impl<A: Counting + Bounded> ShownIn<A> {
    fn limit(&self) -> A {
        self.by.clone()
    }

    /// Returns the bucket of a limit with this much more burst or quota.
    fn widened(&self, more: u32) -> Self {
        let most = self.by.max_cost().saturating_add(more);
        Self {
            by: self.by.with_most(most).unwrap_or_else(|| self.by.clone()),
            ..self.clone()
        }
    }
}

impl ShownBucket {
    /// Passes on the bucket with the state of an answer, if the batch passes or not. It is large, so each algorithm writes it
    /// where it stays. `takes` says whether the cost is taken, or would be. Returns whether the state is one of the algorithm.
    #[inline(always)]
    pub(crate) fn show(
        algorithm: &Algorithm,
        ask: &Ask<'_>,
        state: &State,
        part: Option<TakenPart>,
        (passes, takes): (bool, bool),
        now: Timestamp,
        write: impl FnOnce(Self),
    ) -> bool {
        let is_probe = matches!(ask.action, Action::Probe | Action::ProbeDebit);
        let (passes, now) = ((passes, is_probe && takes), now.as_micros());
        each_as!((algorithm, state),
            (By, This, by, state) => {
                write(This(ShownIn::new(by, ask, *state, part, passes, now)));
                true
            },
            _ => false)
    }

    /// Passes on the bucket with the state in a row, after a charge that cannot wait, or without it. It is large, so each
    /// algorithm writes it where it stays.
    #[inline(always)]
    pub(crate) fn show_row(
        algorithm: &Algorithm,
        value: RowValue,
        cost: u32,
        is_taken: bool,
        now: Timestamp,
        write: impl FnOnce(Self),
    ) {
        let now = now.as_micros();
        each_as!(algorithm, (By, This, by) => {
            if By::FITS_ROW {
                write(This(ShownIn::charged(by, value, cost, is_taken, now)));
            }
        });
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        map_each!(self, shown => shown.limit())
    }

    /// Returns the bucket of a limit with this much more burst or quota.
    pub(crate) fn widened(&self, more: u32) -> Self {
        map_each!(self, shown => shown.widened(more))
    }

    /// Returns the algorithm with this much more burst or quota.
    pub(crate) fn algorithm_with(&self, more: u32) -> Algorithm {
        match more {
            0 => self.algorithm(),
            more => self.widened(more).algorithm(),
        }
    }

    fn allowance(&self) -> (u32, Duration) {
        each!(self, shown => Counting::allowance(shown))
    }

    /// Returns the time of the decision.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(each!(self, shown => shown.now))
    }

    /// Returns the charge and the amount for a receipt: what was taken, which can be less than the cost of a debit.
    pub(crate) fn charge(&self) -> Option<(Charge, u32)> {
        Some(match self {
            Self::Gcra(shown) => {
                Counting::charge(shown).map(|(charge, cost)| (Each::Gcra(charge), cost))?
            }
            Self::Tiers(shown) => {
                Counting::charge(shown).map(|(charge, cost)| (Each::Tiers(charge), cost))?
            }
            Self::Window(shown) => {
                Counting::charge(shown).map(|(charge, cost)| (Each::Window(charge), cost))?
            }
            Self::Quota(shown) => {
                Counting::charge(shown).map(|(charge, cost)| (Each::Quota(charge), cost))?
            }
            Self::Concurrency(shown) => {
                Counting::charge(shown).map(|(charge, cost)| (Each::Concurrency(charge), cost))?
            }
        })
    }

    pub(crate) fn granted(&self) -> u32 {
        each!(self, shown => Counting::granted(shown))
    }

    /// Returns the tiers of the bucket, and what they grant.
    pub(crate) fn tiers(&self) -> Option<(&Tiers, Grant)> {
        match self {
            Self::Tiers(shown) => Some((&shown.by, shown.state.grant)),
            _ => None,
        }
    }

    /// Returns the time for which a charge counts after it was made or renewed, if charges are renewed.
    pub(crate) fn hold(&self) -> Option<Duration> {
        each!(self, shown => shown.by.renewed_within())
    }

    /// Returns what passes without being refused: what remains, and the room in the line.
    pub(crate) fn room(&self) -> u32 {
        each!(self, shown => Counting::room(shown))
    }

    pub(crate) fn remaining(&self) -> u32 {
        each!(self, shown => Counting::remaining(shown))
    }

    /// Returns how many of `cost` units a refund has given back, if it has given back any.
    pub(crate) fn given_back(&self, cost: u32) -> u32 {
        each!(self, shown => Counting::given_back(shown, cost))
    }

    /// Returns the bucket `us` later, if there were no other requests.
    pub(crate) fn later(self, us: u64) -> Self {
        map_each!(self, shown => ShownIn {
            now: shown.now.saturating_add(us),
            state: shown.by.later(shown.state, us),
            ..shown
        })
    }

    /// Returns whether the limit has a line and the cost may wait in it.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        each!(self, shown => shown.may_wait)
    }

    /// Returns the wait of the cost in line, if it is taken.
    #[inline]
    pub(crate) fn delay(&self) -> Duration {
        match self {
            bucket if !bucket.may_wait() => Duration::ZERO,
            bucket => bucket.delay_in_line(),
        }
    }

    #[cold]
    fn delay_in_line(&self) -> Duration {
        each!(self, shown => match shown.is_taken {
            true => Counting::delay(shown).ceil(),
            false => Duration::ZERO,
        })
    }

    /// Returns the time until the same cost would pass if nothing is given back and nothing is renewed.
    #[cfg(feature = "tokio")]
    pub(crate) fn expires_after(&self) -> Duration {
        each!(self, shown => Counting::expires_after(shown)).ceil()
    }

    /// Returns the time until the same cost would pass.
    pub(crate) fn next_after(&self) -> Duration {
        self.wait().ceil()
    }

    pub(crate) fn reset_after(&self) -> Duration {
        each!(self, shown => Counting::reset_after(shown)).ceil()
    }

    /// Returns the time until there is one more unit to spend; `None` if the bucket is full.
    pub(crate) fn next_unit(&self) -> Option<Duration> {
        each!(self, shown => Counting::next_unit(shown)).map(Wait::ceil)
    }

    fn wait(&self) -> Wait {
        each!(self, shown => Counting::wait(shown))
    }

    pub(crate) fn compare_waits(&self, other: &Self) -> Ordering {
        self.wait().compare(other.wait())
    }
}

/// The figures of a bucket for its client.
pub(crate) struct ClientFigures<'a> {
    /// `None` if the client is blocked.
    bucket: Option<&'a ShownBucket>,
    /// The part of the limit that leases reserve. The bucket is that of the rest.
    reserved: u32,
    /// What passes without being refused: the tokens in the bucket and the room in its line, or the room in the tier.
    pub(crate) remaining: u32,
    /// The microseconds until more room or another tier; `None` if the bucket is full, or if that never happens.
    pub(crate) next_us: Option<u64>,
}

/// What the [`allowance`](ClientFigures::allowance) and the [`refill`](ClientFigures::refill) of a bucket depend on.
#[derive(Clone, Debug)]
pub(crate) struct ClientTerms {
    /// `None` if the client is blocked.
    algorithm: Option<Algorithm>,
    has_line: bool,
    is_reserved: bool,
    /// The allowance, unless it follows from the algorithm.
    allowance: Option<(u32, Duration)>,
}

impl<'a> ClientFigures<'a> {
    /// The figures of a blocked client.
    pub(crate) const BLOCKED: Self = Self {
        bucket: None,
        reserved: 0,
        remaining: 0,
        next_us: None,
    };

    #[inline(always)]
    pub(crate) fn of(bucket: &'a ShownBucket, reserved: u32) -> Self {
        let (remaining, next) = each!(bucket, shown => Counting::next_room(shown));
        Self {
            bucket: Some(bucket),
            reserved,
            remaining,
            next_us: next.and_then(Wait::ceil_micros),
        }
    }
}

impl ClientFigures<'_> {
    /// Returns the terms of the bucket.
    pub(crate) fn terms(&self) -> ClientTerms {
        let is_usual = |bucket: &ShownBucket| each!(bucket, shown => Counting::is_usual(shown));
        let is_usual = self.bucket.is_none_or(is_usual);
        ClientTerms {
            algorithm: self
                .bucket
                .map(|bucket| bucket.algorithm_with(self.reserved)),
            has_line: self.bucket.is_some_and(ShownBucket::may_wait),
            is_reserved: self.reserved > 0,
            allowance: (!is_usual).then(|| self.allowance()),
        }
    }

    /// Returns whether these are the terms of the bucket.
    #[inline(always)]
    pub(crate) fn has_terms(&self, terms: &ClientTerms) -> bool {
        (self.reserved > 0) == terms.is_reserved
            && match (self.bucket, self.reserved) {
                (None, _) => terms.algorithm.is_none(),
                (Some(bucket), 0) => terms.are_of(bucket),
                (Some(bucket), reserved) => terms.are_of(&bucket.widened(reserved)),
            }
    }

    /// Returns how units come back, if that follows from the limit. Of a limit with leases, it does not.
    pub(crate) fn refill(&self) -> Option<Refill> {
        let bucket = self.bucket.filter(|_| self.reserved == 0)?;
        each!(bucket, shown => Counting::refill(shown))
    }

    /// Returns whether the units are permits, which limit what runs at once.
    pub(crate) fn are_permits(&self) -> bool {
        self.bucket.is_some_and(|bucket| bucket.hold().is_some())
    }

    /// Returns the cost that was asked for.
    #[inline]
    pub(crate) fn cost(&self) -> u32 {
        self.bucket
            .map_or(1, |bucket| each!(bucket, shown => shown.cost))
    }

    /// Returns the amount that passes at once, and the time in which an empty bucket fills. Both include the room in a
    /// line, and the part of the limit that leases reserve. For tiers, it is the limit and the window of the tier in
    /// force; for a quota, the length of the current period.
    pub(crate) fn allowance(&self) -> (u32, Duration) {
        match (self.bucket, self.reserved) {
            (None, _) => (0, FOREVER),
            (Some(bucket), 0) => bucket.allowance(),
            (Some(bucket), reserved) => bucket.widened(reserved).allowance(),
        }
    }
}

impl ClientTerms {
    /// Returns whether these are the terms of a bucket of the whole limit.
    #[inline(always)]
    fn are_of(&self, bucket: &ShownBucket) -> bool {
        let Some(algorithm) = &self.algorithm else {
            return false;
        };
        each!((bucket, algorithm),
            (shown, by) => {
                let allowance = || (!Counting::is_usual(shown)).then(|| Counting::allowance(shown));
                shown.may_wait == self.has_line && shown.by == *by && allowance() == self.allowance
            },
            _ => false)
    }
}
