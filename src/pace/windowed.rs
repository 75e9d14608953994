//! A bucket whose units come back some time after they were taken.

use std::collections::VecDeque;

use super::{
    figures::Remaining,
    sent::{Nanos, SentRequest, nanos},
};

/// Units that were taken within this part of the window count as taken at once, so that memory is bounded.
const STEPS: i64 = 2048;

/// The number of requests from which on this is done.
const DENSE: usize = 256;

/// The most entries. Units of others then count as taken with those before them.
const MOST: usize = 6000;

/// The units that were taken, the oldest first.
#[derive(Debug)]
pub(super) struct Windowed {
    window: Nanos,
    quota: u32,
    taken: VecDeque<Taken>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    /// The number of the last request.
    number: u64,
    first: Nanos,
    last: Nanos,
    units: u32,
}

impl Windowed {
    pub(super) fn new(window: Nanos, quota: u32) -> Self {
        Self {
            window,
            quota,
            taken: VecDeque::new(),
        }
    }

    /// Begins with what was left after a request, while `others` units are on their way.
    pub(super) fn begin(&mut self, sent: SentRequest, left: Remaining, others: u32) {
        self.learn(left, sent);
        self.add(sent, others);
    }

    pub(super) fn window(&self) -> Nanos {
        self.window
    }

    /// Returns the instant from which `cost` units are there, and a time more.
    pub(super) fn ready_at(&self, cost: u32, more: Nanos) -> Nanos {
        let used: u64 = self.taken.iter().map(|taken| u64::from(taken.units)).sum();
        let mut missing = (used + u64::from(cost)).saturating_sub(u64::from(self.quota));
        let mut ready = Nanos::MIN / 2;
        for taken in &self.taken {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(u64::from(taken.units));
            ready = taken.last + self.window + more;
        }
        ready
    }

    pub(super) fn is_full(&self, now: Nanos) -> bool {
        let last = self.taken.back();
        last.is_none_or(|taken| taken.last + self.window <= now)
    }

    pub(super) fn charge(&mut self, sent: SentRequest, cost: u32) {
        self.forget(sent.at);
        self.add(sent, cost);
    }

    pub(super) fn give_back(&mut self, sent: SentRequest, cost: u32) {
        let found = self
            .taken
            .iter()
            .position(|taken| taken.number >= sent.number);
        if let Some(taken) = found.and_then(|found| self.taken.get_mut(found)) {
            taken.units = taken.units.saturating_sub(cost);
        }
    }

    /// Learns what was left after a request, or when it was refused. Returns whether others have taken a unit meanwhile.
    pub(super) fn learn(&mut self, left: Remaining, sent: SentRequest) -> bool {
        let used = self.quota - left.units.min(self.quota);
        let window = self.window;
        let counts =
            |taken: &&mut Taken| taken.number <= sent.number && taken.last + window > sent.at;
        let before = self.taken.iter_mut().filter(counts);
        let known: u32 = before.fold(0, |sum, taken| sum.saturating_add(taken.units));
        let others = used.saturating_sub(known);
        if others > 0 {
            self.insert(sent, others);
        }
        let mut expired = known.saturating_sub(used);
        for taken in self.taken.iter_mut().filter(counts) {
            let part = expired.min(taken.units);
            taken.units -= part;
            expired -= part;
        }
        if let Some(next) = left.next
            && let Some(oldest) = self.taken.iter_mut().find(|taken| taken.units > 0)
        {
            let began = sent.at + nanos(next) - self.window;
            oldest.last = began.min(sent.at);
            oldest.first = oldest.first.min(oldest.last);
        }
        self.taken.retain(|taken| taken.units > 0);
        others > 0
    }

    /// Drops what has expired so long ago that no request is still on its way that was sent before. (If one is, its response
    /// seems to show the units of others, and the client is careful for a while.)
    fn forget(&mut self, now: Nanos) {
        let window = self.window;
        let is_old = |taken: &Taken| taken.last + 2 * window <= now;
        while self.taken.front().is_some_and(is_old) {
            self.taken.pop_front();
        }
    }

    /// Adds units that were taken after all others.
    fn add(&mut self, sent: SentRequest, units: u32) {
        if units == 0 {
            return;
        }
        let is_dense = self.taken.len() >= DENSE;
        if let Some(last) = self.taken.back_mut().filter(|_| is_dense)
            && sent.at - last.first < self.window / STEPS
        {
            last.last = sent.at.max(last.last);
            last.number = sent.number;
            last.units = last.units.saturating_add(units);
            return;
        }
        self.taken.push_back(Taken {
            number: sent.number,
            first: sent.at,
            last: sent.at,
            units,
        });
    }

    /// Adds units that others have taken, at the latest before a request was answered.
    fn insert(&mut self, sent: SentRequest, units: u32) {
        let place = self
            .taken
            .iter()
            .position(|taken| taken.number > sent.number);
        let place = place.unwrap_or(self.taken.len());
        let is_full = self.taken.len() >= MOST;
        let before = place.checked_sub(1);
        if let Some(own) = before.and_then(|place| self.taken.get_mut(place))
            && (is_full || own.number == sent.number && own.last == sent.at)
        {
            own.last = own.last.max(sent.at);
            own.units = own.units.saturating_add(units);
            return;
        }
        self.taken.insert(
            place,
            Taken {
                number: sent.number,
                first: sent.at,
                last: sent.at,
                units,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_whatever_the_server_says() {
        const YEAR: Nanos = 31_536_000_000_000_000;
        let mut windowed = Windowed::new(YEAR, u32::MAX);
        for number in 0..50_000 {
            let at = i64::try_from(number).unwrap_or_default() * (YEAR / 60_000);
            let sent = SentRequest { number, at };
            windowed.charge(sent, 1);
            let taken = u32::try_from(number * 3).unwrap_or_default();
            let left = Remaining {
                units: u32::MAX - taken,
                next: None,
            };
            windowed.learn(left, sent);
        }
        assert!(windowed.taken.len() <= 2 * MOST, "{}", windowed.taken.len());
        let units: u32 = windowed.taken.iter().map(|taken| taken.units).sum();
        assert_eq!(units, 49_999 * 3);
    }
}
