//! A check whether some order of calls explains all their answers.
//!
//! Time stands still in these histories, so a bucket is what is used of it, and nothing comes back. A call takes effect at
//! one instant between its beginning and its end. One whose outcome is unknown may take effect at any time after its
//! beginning, or never.

use std::collections::HashSet;

/// How many buckets there are.
pub(super) const BUCKETS: usize = 2;

/// What is used of each bucket.
type Used = [u32; BUCKETS];

/// What a client asks.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// The cost for each bucket, all or nothing. A cost of 0 leaves a bucket out.
    Spend([u32; BUCKETS]),
    Refund(usize, u32),
}

/// What it is answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    /// With what is left of each bucket that was asked for, if that is shown.
    Passed([Option<u32>; BUCKETS]),
    Denied,
    Refunded,
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) call: Call,
    pub(super) answer: Answer,
    pub(super) begun: u64,
    pub(super) ended: u64,
}

/// What buckets do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// The most that is used of a bucket.
    pub(super) burst: u32,
    /// Whether some of it may be held in advance: what is left is not shown then, and any denial is right.
    pub(super) reserves: bool,
}

impl Model {
    /// Whether some order explains all answers. There are at most 64 events.
    pub(super) fn explains(self, events: &[Event]) -> bool {
        let mut seen = HashSet::new();
        self.search(events, 0, [0; BUCKETS], &mut seen)
    }

    fn search(
        self,
        events: &[Event],
        done: u64,
        used: Used,
        seen: &mut HashSet<(u64, Used)>,
    ) -> bool {
        let open = |i: &usize| done & (1 << i) == 0;
        let known = |i: &usize| events[*i].answer != Answer::Unknown;
        let places = || (0..events.len()).filter(open);
        if !places().any(|i| known(&i)) {
            return true;
        }
        if !seen.insert((done, used)) {
            return false;
        }
        // Nothing that has ended before another call began comes after that.
        let first_end = places().filter(known).map(|i| events[i].ended).min();
        let may_be_next = |i: &usize| first_end.is_none_or(|end| events[*i].begun <= end);
        let mut next = places().filter(may_be_next);
        next.any(|i| {
            let after = self.after(&events[i], used);
            after.is_some_and(|used| self.search(events, done | 1 << i, used, seen))
        })
    }

    /// What is used after a call, if its answer is right.
    fn after(self, event: &Event, used: Used) -> Option<Used> {
        let mut after = used;
        let fits = match &event.call {
            Call::Spend(costs) => {
                for (used, cost) in after.iter_mut().zip(costs) {
                    *used += cost;
                }
                let mut buckets = after.iter().zip(costs);
                buckets.all(|(used, cost)| *cost == 0 || *used <= self.burst)
            }
            Call::Refund(bucket, cost) => {
                after[*bucket] = used[*bucket].saturating_sub(*cost);
                true
            }
        };
        match event.answer {
            Answer::Passed(left) => {
                let is_left = |(used, left): (&u32, &Option<u32>)| {
                    let shown = left.filter(|_| !self.reserves);
                    shown.is_none_or(|left| self.burst.checked_sub(*used) == Some(left))
                };
                (fits && after.iter().zip(&left).all(is_left)).then_some(after)
            }
            Answer::Denied => (!fits || self.reserves).then_some(used),
            Answer::Refunded => Some(after),
            Answer::Unknown => Some(if fits { after } else { used }),
        }
    }
}
