//! What one client needs, so that it is never denied.

use std::collections::VecDeque;

use super::candidates::{CANDIDATES, Candidate, PERIODS, RATES, WINDOWS};

/// The number of candidates.
pub(super) const ALL: usize = RATES + WINDOWS + PERIODS;

/// The most requests that a window can admit, and one more, which tells that no window is large enough.
const REMEMBERED: usize = 4097;

/// The needs of a client so far. Requests are added in the order of their times.
#[derive(Default)]
pub(super) struct Demand {
    last: u64,
    /// For each rate, how far the bucket is from full, in microseconds × count, and the most that it was.
    short: [u64; RATES],
    most_short: [u64; RATES],
    /// The instants of the last requests, as long as a window looks back at them.
    recent: VecDeque<u64>,
    /// For each window, how many of the recent requests it no longer looks back at.
    left: [usize; WINDOWS],
    most_in_window: [usize; WINDOWS],
    /// For each kind of period, the current one and its requests.
    period: [u64; PERIODS],
    in_period: [u64; PERIODS],
    most_in_period: [u64; PERIODS],
}

impl Demand {
    pub(super) fn add(&mut self, at: u64) {
        self.add_to_buckets(at);
        self.add_to_windows(at);
        self.add_to_periods(at);
    }

    /// A bucket whose time of arrival is `short` ahead of now needs a burst of ⌈short / period⌉ after a request.
    fn add_to_buckets(&mut self, at: u64) {
        let passed = at - self.last.min(at);
        self.last = at;
        for (place, candidate) in CANDIDATES[..RATES].iter().enumerate() {
            let Candidate::Rate { count, period_us } = *candidate else {
                continue;
            };
            let back = passed.saturating_mul(u64::from(count));
            let short = self.short[place].saturating_sub(back);
            let short = short.saturating_add(period_us);
            self.short[place] = short;
            self.most_short[place] = self.most_short[place].max(short);
        }
    }

    fn add_to_windows(&mut self, at: u64) {
        self.recent.push_back(at);
        for (place, candidate) in CANDIDATES[RATES..RATES + WINDOWS].iter().enumerate() {
            let Candidate::Window { us } = *candidate else {
                continue;
            };
            let mut left = self.left[place];
            while self.recent[left] + us <= at {
                left += 1;
            }
            self.left[place] = left;
            let most = &mut self.most_in_window[place];
            *most = (*most).max(self.recent.len() - left);
        }
        // All windows look at what the longest one does.
        let unseen = self.left.iter().min().copied().unwrap_or_default();
        let too_many = (self.recent.len() - unseen).saturating_sub(REMEMBERED - 1);
        let gone = unseen + too_many;
        self.recent.drain(..gone);
        for left in &mut self.left {
            *left = left.saturating_sub(gone);
        }
    }

    fn add_to_periods(&mut self, at: u64) {
        for (place, candidate) in CANDIDATES[RATES + WINDOWS..].iter().enumerate() {
            let Candidate::Period { us, start_us, .. } = *candidate else {
                continue;
            };
            let period = (at + us - start_us) / us;
            if self.period[place] != period {
                self.period[place] = period;
                self.in_period[place] = 0;
            }
            self.in_period[place] += 1;
            let most = &mut self.most_in_period[place];
            *most = (*most).max(self.in_period[place]);
        }
    }

    /// For each candidate, the smallest size with which the client is never denied.
    pub(super) fn needs(&self) -> [u64; ALL] {
        let mut needs = [0; ALL];
        for (place, candidate) in CANDIDATES.iter().enumerate() {
            needs[place] = match candidate {
                Candidate::Rate { period_us, .. } => self.most_short[place].div_ceil(*period_us),
                Candidate::Window { .. } => self.most_in_window[place - RATES] as u64,
                Candidate::Period { .. } => self.most_in_period[place - RATES - WINDOWS],
            };
        }
        needs
    }
}
