//! What a TAT means for its client: tokens and waits.

use super::gcra::Gcra;
use crate::algorithm::ticks::{Tat, Ticks};

impl Gcra {
    /// Returns the time from `now` to the start of a request that has moved the bucket to `tat`.
    #[inline]
    pub(crate) fn delay(&self, tat: Tat, now: u64) -> Ticks {
        self.subtract(tat, self.horizon(now))
    }

    /// Returns the number of whole tokens in the bucket at `now`, rounded down; 0 in debt.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self, tat: Tat, now: u64) -> u32 {
        let tat = self.normal(tat);
        if tat <= Ticks::from_micros(now) {
            return self.burst();
        }
        self.tokens(self.subtract(self.horizon(now), tat))
    }

    /// Returns the number of whole emission intervals in a span, at most the burst.
    #[inline]
    fn tokens(&self, span: Ticks) -> u32 {
        if self.interval().frac == 0 && span.us <= self.tolerance().us {
            let tokens = span.us / self.interval().us;
            return u32::try_from(tokens).unwrap_or(self.burst());
        }
        let (headroom, period) = (self.units(span), self.period_us());
        // A division of 128 bits takes ten times as long, and is hardly ever needed.
        let tokens = match (u64::try_from(headroom), u64::try_from(period)) {
            (Ok(headroom), Ok(period)) => u128::from(headroom / period),
            _ => headroom / period,
        };
        u32::try_from(tokens).unwrap_or(self.burst())
    }

    /// Returns the time from `now` until a request of `cost` would pass if there were no others; zero if it would pass now.
    #[doc(hidden)]
    #[must_use]
    pub fn wait(&self, tat: Tat, now: u64, cost: u32) -> Ticks {
        self.wait_for_line(tat, now, cost, 0)
    }

    /// Returns the time from `now` until a request would be admitted that can then wait in line for `wait_us`
    /// microseconds.
    pub(crate) fn wait_for_line(&self, tat: Tat, now: u64, cost: u32, wait_us: u64) -> Ticks {
        let target = self.add(self.lifted(tat, now), self.increment(cost));
        self.subtract(target, self.horizon(now.saturating_add(wait_us)))
    }

    /// Returns the time from `now` until there is one more token to spend, or `None` for a full bucket.
    #[doc(hidden)]
    #[must_use]
    pub fn next_token(&self, tat: Tat, now: u64) -> Option<Ticks> {
        self.quota(tat, now).1
    }

    /// Returns [`remaining`](Self::remaining) and [`next_token`](Self::next_token), at the cost of one of them.
    #[doc(hidden)]
    #[must_use]
    pub fn quota(&self, tat: Tat, now: u64) -> (u32, Option<Ticks>) {
        let normal = self.normal(tat);
        if normal <= Ticks::from_micros(now) {
            return (self.burst(), None);
        }
        let headroom = self.subtract(self.horizon(now), normal);
        let held = self.tokens(headroom);
        let next = match held {
            // A bucket in debt must drain its debt first.
            0 => self.wait(tat, now, 1),
            _ => self.subtract(self.increment(held + 1), headroom),
        };
        (held, (held < self.burst()).then_some(next))
    }

    /// Returns the number of tokens that pass at `now`, at once or after a wait in line, and the time until it is one more;
    /// `None` if it is never more.
    pub(crate) fn room(&self, tat: Tat, now: u64) -> (u32, Option<Ticks>) {
        let line = self.max_wait_us();
        let lifted = self.lifted(tat, now);
        let latest = self.horizon(now.saturating_add(line));
        let headroom = self.subtract(latest, lifted);
        let room = self.whole(headroom);
        if room >= self.most_room() {
            return (room, None);
        }
        let next = match room {
            0 => self.wait_for_line(tat, now, 1, line),
            _ => self.subtract(self.increment(room + 1), headroom),
        };
        (room, Some(next))
    }

    /// Returns the number of tokens that pass if the bucket is full and nobody waits.
    pub(crate) fn most_room(&self) -> u32 {
        self.whole(self.longest())
    }

    /// Returns the time in which an empty bucket fills, and the longest wait in its line.
    pub(crate) fn longest(&self) -> Ticks {
        self.add(self.tolerance(), Ticks::from_micros(self.max_wait_us()))
    }

    /// Returns the number of whole emission intervals in a span.
    fn whole(&self, span: Ticks) -> u32 {
        let tokens = self.units(span) / self.period_us();
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Returns the time from `now` until the bucket is full.
    #[doc(hidden)]
    #[must_use]
    pub fn reset_after(&self, tat: Tat, now: u64) -> Ticks {
        self.subtract(self.normal(tat), Ticks::from_micros(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::counting::Counting;

    /// Returns how many tokens a request can take that may wait.
    fn most(gcra: &Gcra, tat: Tat, now: u64) -> u32 {
        let passes = |cost: &u32| {
            let wait = gcra.max_wait_us();
            gcra.spend_within(tat, now, *cost, wait).is_some()
        };
        (1..100).take_while(passes).last().unwrap_or(0)
    }

    #[test]
    fn room_is_what_passes_and_grows_when_it_is_told() {
        const NOW: u64 = 1_000_000;
        for (burst, count, wait) in [(1, 1, 1), (2, 3, 7), (5, 7, 10), (3, 2, 25), (1, 7, 3)] {
            let gcra = Gcra::new(burst, count, Duration::from_micros(10)).unwrap();
            let gcra = gcra.with_max_wait(Duration::from_micros(wait)).unwrap();
            for us in (NOW - 20..NOW + 120).chain([0]) {
                for frac in 0..count {
                    let tat = Ticks { us, frac };
                    let (room, next) = gcra.room(tat, NOW);
                    assert_eq!(room, most(&gcra, tat, NOW), "{gcra:?} {tat:?}");
                    let Some(next) = next else {
                        assert_eq!(room, gcra.most_room());
                        continue;
                    };
                    let later = NOW + next.ceil_micros();
                    assert!(most(&gcra, tat, later) > room, "{gcra:?} {tat:?} {next:?}");
                    assert_eq!(most(&gcra, tat, later - 1), room);
                }
            }
        }
    }

    #[test]
    fn held_units_are_left_whatever_the_debt() {
        const NOW: u64 = 1_000_000;
        let gcra = Gcra::new(5, 3, Duration::from_micros(10)).unwrap();
        for us in NOW - 5..NOW + 60 {
            for held in 0..4 {
                let tat = Tat::from_micros(us);
                let shown = gcra.remaining(gcra.with_held(tat, NOW, held), NOW);
                let left = gcra.remaining(tat, NOW) + held;
                assert_eq!(shown, left.min(5), "{us} {held}");
            }
        }
    }
}
