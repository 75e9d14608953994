mod bytes;

pub use self::bytes::StoredError;
use super::answer::{Answer, State};
use crate::{
    clock::Timestamp,
    gcra::Tat,
    quota::{Quota, Usage},
    tiers::{History, TierView, Tiers},
    transaction::{Action, Algorithm, Member},
    window::{Units, Window, WindowSnapshot, WindowView},
};

/// The stored state of a bucket. The default is an unused bucket. The [backend
/// docs](crate::backend#a-custom-backend) have an example.
///
/// A state belongs to the algorithm of its bucket, and the [key](crate::transaction::BucketKey) of the bucket names that
/// algorithm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stored {
    /// Nothing: the bucket is full.
    #[default]
    Nothing,
    /// A GCRA bucket's theoretical arrival time. Values of 2⁵³ µs or more, which no decision produces, are read as
    /// the largest value below.
    Gcra(Tat),
    /// The grants of a bucket with tiers.
    Tiers(History),
    /// The instants of the units of a bucket with a window.
    Window(Units),
    /// The usage of a quota, and the start of its period.
    Quota(Usage),
}

/// The part of a bucket's state that a batch depends on.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack for one decision, and must not allocate"
)]
pub(crate) enum BucketView<'a> {
    Gcra(Tat),
    Tiers(TierView<'a>),
    Window(WindowView<'a>),
    Quota(Usage),
}

impl Stored {
    /// The time from which the bucket is full under this algorithm, so that a backend can forget it; `None` if that
    /// never happens.
    ///
    /// Removing it then, or later, does not change any decision, unless the clock steps back or the limit changes to
    /// one with longer periods.
    #[must_use]
    pub fn full_at(&self, algorithm: &Algorithm) -> Option<Timestamp> {
        let us = match (self, algorithm) {
            (Self::Gcra(tat), Algorithm::Gcra(_)) => tat.storable().ceil_micros(),
            (Self::Tiers(history), Algorithm::Tiers(tiers)) => history.lapses_at(tiers),
            (Self::Window(units), Algorithm::Window(window)) => units.lapses_at(window),
            (Self::Quota(usage), Algorithm::Quota(quota)) => quota.lapses_at(*usage),
            _ => 0,
        };
        (us < u64::MAX).then_some(Timestamp::from_micros(us))
    }

    #[inline]
    pub(crate) fn see(&self, algorithm: &Algorithm, now: Timestamp) -> BucketView<'_> {
        match (self, algorithm) {
            (Self::Gcra(tat), _) => BucketView::Gcra(tat.storable()),
            (Self::Tiers(history), Algorithm::Tiers(tiers)) => {
                BucketView::Tiers(history.view(tiers, now.as_micros()))
            }
            (Self::Window(_), Algorithm::Window(window)) => {
                BucketView::Window(self.view_window(window, now))
            }
            (Self::Quota(usage), _) => BucketView::Quota(*usage),
            _ => BucketView::NOTHING,
        }
    }

    /// Returns the view of a window, which is empty if nothing is stored.
    #[inline]
    pub(crate) fn view_window(&self, window: &Window, now: Timestamp) -> WindowView<'_> {
        match self {
            Self::Window(units) => units.view(window, now.as_micros()),
            _ => WindowView::empty(now.as_micros()),
        }
    }

    /// Returns the memory that the state takes beyond its own size, in bytes, with what the allocator adds.
    pub(crate) fn allocated_bytes(&self) -> usize {
        match self {
            Self::Tiers(history) => history.allocated_bytes(),
            Self::Window(units) => units.allocated_bytes(),
            Self::Nothing | Self::Gcra(_) | Self::Quota(_) => 0,
        }
    }

    /// Stores a decision.
    pub(crate) fn update(
        &mut self,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        match (member.algorithm, answer.state) {
            _ if action == Action::Reset => *self = Self::Nothing,
            (Algorithm::Gcra(_), State::Gcra(tat)) => {
                let before = match self {
                    Self::Gcra(tat) => tat.storable(),
                    _ => Tat::default(),
                };
                if tat != before {
                    *self = Self::Gcra(tat);
                }
            }
            (Algorithm::Tiers(tiers), State::Tiers(figures))
                if action == Action::Spend && figures.grant.units() > 0 =>
            {
                let mut history = match std::mem::take(self) {
                    Self::Tiers(history) => history,
                    _ => History::default(),
                };
                history.take(tiers, figures.grant, now.as_micros());
                *self = Self::Tiers(history);
            }
            (Algorithm::Window(window), State::Window(figures)) if action.writes() => {
                self.change_units(window, &figures, now);
            }
            (Algorithm::Quota(quota), State::Quota(usage)) if action.writes() => {
                self.use_up(quota, usage, now);
            }
            _ => {}
        }
    }

    fn change_units(&mut self, window: &Window, figures: &WindowSnapshot, now: Timestamp) {
        if figures.change.units() == 0 {
            return;
        }
        if !matches!(self, Self::Window(_)) {
            *self = Self::Window(Units::default());
        }
        if let Self::Window(units) = self {
            units.change_at(window, now.as_micros(), figures.change, figures.at);
            if units.is_empty() {
                *self = Self::Nothing;
            }
        }
    }

    fn use_up(&mut self, quota: &Quota, usage: Usage, now: Timestamp) {
        let before = match self {
            Self::Quota(usage) => quota.current(*usage, now.as_micros()),
            _ => Usage::NOTHING,
        };
        if usage != before {
            *self = match usage {
                Usage::NOTHING => Self::Nothing,
                usage => Self::Quota(usage),
            };
        }
    }
}

impl BucketView<'_> {
    pub(crate) const NOTHING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    /// Returns the TAT, which is that of a full bucket if nothing is stored.
    #[inline(always)]
    pub(super) fn tat(&self) -> Tat {
        match self {
            Self::Gcra(tat) => *tat,
            _ => Tat::default(),
        }
    }

    /// Returns the usage of a quota.
    #[inline]
    pub(super) fn usage(&self) -> Usage {
        match self {
            Self::Quota(usage) => *usage,
            _ => Usage::NOTHING,
        }
    }

    /// Returns the view of a window, which is empty if nothing is stored.
    #[inline]
    pub(super) fn window(&self, now: Timestamp) -> WindowView<'_> {
        match self {
            Self::Window(view) => *view,
            _ => WindowView::empty(now.as_micros()),
        }
    }

    /// Passes the view of tiers to `look`. It is that of an unused bucket if nothing is stored.
    #[inline(never)]
    pub(super) fn with_view<T>(
        &self,
        tiers: &Tiers,
        now: Timestamp,
        look: impl FnOnce(&TierView<'_>) -> T,
    ) -> T {
        match self {
            Self::Tiers(view) => look(view),
            _ => look(&History::default().view(tiers, now.as_micros())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limit,
        decision::Outcome,
        transaction::{Batch, BucketKey, LimitKey, Mode, Operation},
    };

    #[test]
    fn tat_that_no_decision_leads_to_is_read_as_the_latest_one() {
        let limit = Limit::per_second(10);
        let key = BucketKey::new(LimitKey::Number(1), "id");
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        let latest = Tat::from_micros((1 << 53) - 1);
        for us in [1 << 53, (1 << 58) + 7, u64::MAX] {
            let foreign = Stored::Gcra(Tat::from_micros(us));
            let decide = |operation, mode| {
                let member = [Member::new(key, limit.algorithm().unwrap(), 1, mode)];
                let mut stored = [foreign.clone()];
                let batch = Batch::new(operation, &member);
                let outcome = Outcome::decide(&batch, now, &mut stored).unwrap();
                let [stored] = stored;
                (outcome.answers()[0], stored)
            };
            let denied = Answer::new(State::Gcra(latest), false);
            let (answer, stored) = decide(Operation::Spend, Mode::CheckAndSpend);
            assert_eq!(
                (answer, &stored),
                (denied, &foreign),
                "a denial writes nothing"
            );
            let (answer, _) = decide(Operation::Spend, Mode::Debit);
            assert_eq!((answer.state, answer.passed), (State::Gcra(latest), true));
            let taken = answer.taken.map(|taken| taken.cost);
            assert_eq!(taken, Some(0), "the debt cannot grow");
            let (answer, stored) = decide(Operation::Refund, Mode::CheckAndSpend);
            let State::Gcra(tat) = answer.state else {
                panic!("it has no tiers")
            };
            assert!(answer.passed && tat < latest, "{tat:?}");
            assert_eq!(stored, Stored::Gcra(tat));
        }
    }
}
