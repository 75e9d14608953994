//! Concurrency limits: at most so many at once.
//!
//! A bucket is a [window](super::window) whose units, its permits, are renewed while the work runs, and come back when it
//! ends. A permit counts while `now < t + hold`, where `t` is when it was taken or renewed last. So a process that dies gives its
//! permits back after the hold. When one comes back is not known: waits are unknown.
//! [`Limit::concurrent`](crate::Limit::concurrent) has an example.

#[cfg(feature = "redis")]
mod scripted;

use std::time::Duration;

use super::{
    Algorithm, Arithmetic, Ask, AskError, Charge, FieldReader, Figures, Invalid, Notation,
    Parameters, Refill, Share, Terms, Verb, Wait, WrittenFields, format_duration,
    notation::Form,
    window::{Shown, Units, Window},
};

/// At most `limit` permits at once.
/// [`Limit`](crate::Limit) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency(Window);

impl Concurrency {
    /// The most permits that a bucket remembers, and so the highest limit.
    pub const MAX_PERMITS: u32 = Window::MAX_UNITS;

    /// The time for which a permit counts after it was taken or renewed, unless the limit says otherwise.
    pub const DEFAULT_HOLD: Duration = Duration::from_secs(30);

    /// Creates a limit of at most `limit` at once, each for [`DEFAULT_HOLD`](Self::DEFAULT_HOLD) after it was taken or renewed.
    pub(crate) const fn new(limit: u32) -> Result<Self, Invalid> {
        const FIELD: &str = "concurrent";
        match Window::new(limit, Self::DEFAULT_HOLD) {
            Ok(window) => Ok(Self(window)),
            Err(_) if limit == 0 => Err(Invalid::new(
                FIELD,
                "concurrent is 0, so nothing would ever pass: use at least 1",
            )),
            Err(_) => Err(Invalid::new(
                FIELD,
                "concurrent is above 4096, and each permit has to be remembered: lower it",
            )),
        }
    }

    /// Sets the time for which a permit counts after it was taken or renewed.
    pub(crate) const fn with_hold(self, hold: Duration) -> Result<Self, Invalid> {
        const DAY: u128 = 24 * 60 * 60 * 1_000_000_000;
        if hold.as_secs() == 0 || hold.as_nanos() > DAY {
            return Err(Invalid::new(
                "hold",
                "permits are held for 1 s to 24 h: change the hold",
            ));
        }
        match Window::new(self.0.limit(), hold) {
            Ok(window) => Ok(Self(window)),
            Err(_) => Err(Invalid::new(
                "hold",
                "hold is not a whole number of microseconds: round it to one",
            )),
        }
    }

    /// The most permits that count at once.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.0.limit()
    }

    /// The time for which a permit counts after it was taken or renewed.
    #[must_use]
    pub const fn hold(&self) -> Duration {
        self.0.window()
    }

    pub(crate) fn figures_of(&self, ask: &Ask, shown: &Shown, now: u64) -> Figures {
        let figures = self.0.figures_of(ask, shown, now);
        let known = |wait: Wait| Wait::unknown_unless(wait.is_zero());
        Figures {
            next_after: known(figures.next_after),
            more_after: known(figures.more_after),
            reset_after: known(figures.reset_after),
            ..figures
        }
    }
}

impl Arithmetic for Concurrency {
    type State = Units;

    fn accepts(&self, verb: Verb, ask: &Ask) -> Result<(), AskError> {
        match verb {
            Verb::Debit => Err(AskError::DebitOfPermits),
            Verb::Refund | Verb::Renew if ask.charge.is_none() => Err(AskError::RefundOfPermits),
            Verb::Renew => Ok(()),
            _ => self.0.accepts(verb, ask),
        }
    }

    fn judge(&self, ask: &Ask, units: &Units, now: u64) -> bool {
        self.0.judge(ask, units, now)
    }

    fn apply(&self, ask: &Ask, units: &mut Units, now: u64) -> Charge {
        self.0.apply(ask, units, now)
    }

    fn figures(&self, ask: &Ask, units: &Units, now: u64) -> Figures {
        self.figures_of(ask, &self.0.shown(ask, units, now), now)
    }

    fn full_at(&self, units: &Units) -> u64 {
        self.0.full_at(units)
    }
}

impl Parameters for Concurrency {
    fn capacity(&self) -> u32 {
        self.limit()
    }

    fn share(&self, share: Share) -> Algorithm {
        Algorithm::Concurrency(Self(self.0.shared(share)))
    }

    fn terms(&self) -> Terms {
        Terms {
            quota: self.limit(),
            window: None,
            period: None,
            refill: Refill::Permits,
        }
    }

    /// Work that ends makes room for the next.
    fn most_within(&self, _: Duration) -> Option<u128> {
        None
    }

    fn values(&self) -> WrittenFields {
        let hold = Some(self.hold()).filter(|hold| *hold != Self::DEFAULT_HOLD);
        WrittenFields::of(Self::FORM.lines[0])
            .number("concurrent", self.limit())
            .text("hold", hold.map(format_duration))
    }

    fn largest_history(&self) -> usize {
        self.0.largest_history()
    }
}

impl Notation for Concurrency {
    const FORM: Form = Form {
        fields: &["concurrent", "hold"],
        words: "concurrent",
        options: &[],
        lines: &["{concurrent} at once[, held for {hold}]"],
        short: &[],
    };

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let (limit, hold) = (fields.whole("concurrent"), fields.duration("hold"));
        fields.require(&["concurrent"]);
        let hold = hold.unwrap_or(Self::DEFAULT_HOLD);
        fields.checked(Self::new(limit?).and_then(|limit| limit.with_hold(hold)))
    }
}
