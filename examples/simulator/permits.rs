//! A concurrency limit, whose requests hold a permit while their work lasts.

use std::{collections::VecDeque, time::Duration};

use tollgate::{concurrency::Concurrency, limit::LimitError, window::Units};

#[derive(Debug)]
pub(crate) struct Permits {
    limit: Concurrency,
    taken: Units,
    /// How long the work of each request lasts, in microseconds.
    work: u64,
    /// When work has begun that has not ended yet, and its permits.
    running: VecDeque<(u64, u32)>,
}

impl Permits {
    /// Nothing is renewed here, so permits are held for as long as possible. Longer work ends with them.
    pub(crate) fn new(limit: u32, work: Duration) -> Result<Self, LimitError> {
        let hold = Concurrency::MAX_HOLD;
        Ok(Self {
            limit: Concurrency::new(limit)?.with_hold(hold)?,
            taken: Units::default(),
            work: micros(work.min(hold)),
            running: VecDeque::new(),
        })
    }

    /// Gives back the permits of work that has ended, at an instant in microseconds.
    pub(crate) fn end_work(&mut self, now: u64) {
        while let Some((began, permits)) = self.running.front().copied() {
            if began + self.work > now {
                break;
            }
            self.limit.give_back(&mut self.taken, now, began, permits);
            self.running.pop_front();
        }
    }

    /// Takes permits and begins the work, or returns `false`.
    pub(crate) fn begin_work(&mut self, now: u64, permits: u32) -> bool {
        let is_taken = self.limit.take(&mut self.taken, now, permits);
        if is_taken {
            self.running.push_back((now, permits));
        }
        is_taken
    }

    pub(crate) fn left(&self, now: u64) -> u32 {
        self.limit.remaining(&self.taken, now)
    }

    pub(crate) fn most(&self) -> u32 {
        self.limit.limit()
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
