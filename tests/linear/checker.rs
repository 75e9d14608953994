//! The search for an order of calls that explains all their answers.

use std::collections::HashSet;

use super::model::{Bucket, Figures, Terms};

/// How many buckets a client asks for at most.
pub(crate) const BUCKETS: usize = 2;

/// The most points that are looked at, where few thousand are enough.
const MOST_POINTS: usize = 300_000;

/// One value for each bucket.
pub(crate) type Each<T> = [T; BUCKETS];

/// What a client asks.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// The cost for each bucket, all or nothing. A cost of 0 leaves a bucket out.
    Spend(Each<u64>),
    /// So much, of the charge that a receipt names if there is one.
    Refund {
        place: usize,
        cost: u64,
        of: Option<u64>,
    },
    /// Another server takes over, which has what the first one had at some time before.
    FailOver,
}

/// What it is answered, with what is shown of each bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Passed(Each<Option<Figures>>),
    Denied(Each<Option<Figures>>),
    Refunded(Option<Figures>),
    Unknown,
}

/// Who keeps the buckets of a call. No call is of buckets of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keeper {
    Store,
    /// A process that decides without the store.
    Process(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) keeper: Keeper,
    pub(crate) call: Call,
    pub(crate) answer: Answer,
    /// The time of the decision.
    pub(crate) now: u64,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
}

/// All calls of a history, and what the limits of the buckets allow.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) terms: Each<Terms>,
    pub(crate) events: Vec<Event>,
}

type Buckets = Each<Bucket>;

/// The calls that have taken effect, the state after them, and the states before that a failover can bring back.
type Point = (u128, Buckets, Vec<Buckets>);

impl History {
    /// Returns whether some order explains all answers.
    pub(crate) fn is_explained(&self) -> bool {
        self.unexplained().is_none()
    }

    /// Returns the calls to a keeper that no order explains. Each keeper has buckets of its own.
    ///
    /// # Panics
    ///
    /// If there are more than 128 calls to a keeper, or too many orders.
    pub(crate) fn unexplained(&self) -> Option<Vec<&Event>> {
        let mut keepers: Vec<_> = self.events.iter().map(|event| event.keeper).collect();
        keepers.sort_unstable();
        keepers.dedup();
        let calls = keepers.into_iter().map(|keeper| {
            let events = self.events.iter();
            events.filter(|event| event.keeper == keeper).collect()
        });
        let mut calls = calls.filter(|events: &Vec<_>| {
            assert!(events.len() <= 128, "{} calls", events.len());
            let unused = self.terms.map(Terms::unused);
            let mut search = Search {
                terms: self.terms,
                events,
                seen: HashSet::new(),
            };
            !search.explains(&(0, unused, Vec::new()))
        });
        calls.next()
    }
}

struct Search<'a> {
    terms: Each<Terms>,
    events: &'a [&'a Event],
    /// The points that explain nothing.
    seen: HashSet<Point>,
}

impl Search<'_> {
    fn explains(&mut self, point: &Point) -> bool {
        if !self.is_new(point) {
            return false;
        }
        let open = |i: &usize| point.0 & (1 << i) == 0;
        let known = |i: &usize| self.events[*i].answer != Answer::Unknown;
        let open = || (0..self.events.len()).filter(open);
        // Nothing that has ended before another call began comes after that.
        let Some(first_end) = open().filter(known).map(|i| self.events[i].ended).min() else {
            return true;
        };
        let may_be_next = |i: &usize| self.events[*i].begun <= first_end;
        let mut next: Vec<_> = open().filter(may_be_next).collect();
        // Most orders need few of the calls that may have had no effect.
        next.sort_by_key(|i| !known(i));
        next.into_iter().any(|i| {
            let mut after = self.after(i, point).into_iter();
            after.any(|after| self.explains(&after))
        })
    }

    fn is_new(&mut self, point: &Point) -> bool {
        assert!(self.seen.len() < MOST_POINTS, "{:#?}", self.events);
        self.seen.insert(point.clone())
    }

    /// The points after a call. There are none if its answer is wrong.
    fn after(&self, i: usize, (done, buckets, earlier): &Point) -> Vec<Point> {
        let (event, done) = (self.events[i], done | 1 << i);
        if matches!(event.call, Call::FailOver) {
            let any = earlier.iter().chain([buckets]);
            return any.map(|any| (done, any.clone(), Vec::new())).collect();
        }
        let fails_over = |i: usize| matches!(self.events[i].call, Call::FailOver);
        let is_ahead = (0..self.events.len()).any(|i| done & (1 << i) == 0 && fails_over(i));
        let mut before = earlier.clone();
        if is_ahead && !before.contains(buckets) {
            before.push(buckets.clone());
        }
        let after = self.effects(event, buckets).into_iter();
        after.map(|after| (done, after, before.clone())).collect()
    }

    /// The states after a call.
    fn effects(&self, event: &Event, buckets: &Buckets) -> Vec<Buckets> {
        let now = event.now;
        match (&event.call, &event.answer) {
            (Call::Spend(costs), answer) => {
                let after = self.charged(costs, now, buckets);
                let is_right = match (answer, &after) {
                    (Answer::Passed(shown), Some(after)) => self.show(after, shown, now),
                    (Answer::Denied(shown), None) => self.show(buckets, shown, now),
                    (answer, _) => *answer == Answer::Unknown,
                };
                let charges = matches!(answer, Answer::Passed(_) | Answer::Unknown);
                let after = after.filter(|_| charges).unwrap_or_else(|| buckets.clone());
                Vec::from_iter(is_right.then_some(after))
            }
            (Call::Refund { place, cost, of }, answer) => {
                let terms = self.terms[*place];
                let after = terms.refund(&buckets[*place], now, *cost, *of);
                let shown = match answer {
                    Answer::Refunded(shown) => *shown,
                    _ => None,
                };
                if shown.is_some_and(|shown| shown != terms.figures(&after, now)) {
                    return Vec::new();
                }
                // A store can forget what no longer counts, or keep it. That matters to a call that was begun before this
                // one and takes effect after it.
                let forgotten = terms.current(&after, now);
                let kept = (after != forgotten).then_some(after);
                let all = kept.into_iter().chain([forgotten]);
                all.map(|bucket| {
                    let mut after = buckets.clone();
                    after[*place] = bucket;
                    after
                })
                .collect()
            }
            (Call::FailOver, _) => vec![buckets.clone()],
        }
    }

    fn charged(&self, costs: &Each<u64>, now: u64, buckets: &Buckets) -> Option<Buckets> {
        let mut after = buckets.clone();
        for (place, cost) in costs.iter().enumerate().filter(|(_, cost)| **cost > 0) {
            after[place] = self.terms[place].spend(&buckets[place], now, *cost)?;
        }
        Some(after)
    }

    fn show(&self, buckets: &Buckets, shown: &Each<Option<Figures>>, now: u64) -> bool {
        shown.iter().enumerate().all(|(place, shown)| {
            let figures = || self.terms[place].figures(&buckets[place], now);
            shown.is_none_or(|shown| shown == figures())
        })
    }
}
