//! Random histories of limits with a line against a naive model, in fractions of 128 bits: section 3 of the design, literally.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend,
    clock::{Clock, ManualClock},
    limiter::LimitHandle,
    testing::cases::history::Random,
    transaction::{Mode, Receipt},
};

use crate::support::scale::scaled;

/// An instant or a span in parts of a microsecond, as many as the limit's count.
type Parts = i128;

/// A limit, and a bucket of it. `T` is one period, `τ` is `burst` of them.
#[derive(Clone, Copy, Debug)]
struct Model {
    burst: i128,
    count: i128,
    period: i128,
    max_wait: Parts,
    tat: Parts,
}

/// What a charge is answered.
#[derive(Debug, PartialEq)]
struct Figures {
    allowed: bool,
    delay: Parts,
    retry_after: Parts,
    reset_after: Parts,
    remaining: i128,
}

impl Model {
    fn random(random: &mut Random) -> (Self, Limit) {
        let [burst, count] = [0; 2].map(|_| 1 + random.cost(6));
        let longest = [9, 1000, 2_000_003][index(random, 3)];
        let period_us = 1 + random.below(longest);
        let max_wait_us = 1 + random.below(period_us * 9);
        let limit = Limit::new(burst, count, Duration::from_micros(period_us)).unwrap();
        let model = Self {
            burst: burst.into(),
            count: count.into(),
            period: period_us.into(),
            max_wait: Parts::from(max_wait_us) * Parts::from(count),
            tat: 0,
        };
        (model, limit.max_wait(Duration::from_micros(max_wait_us)))
    }

    fn tolerance(self) -> Parts {
        self.burst * self.period
    }

    /// Charges a cost that may wait, or may not.
    fn spend(&mut self, now: Parts, cost: u32, may_wait: bool) -> Figures {
        let wait = if may_wait { self.max_wait } else { 0 };
        let next = self.tat.max(now) + Parts::from(cost) * self.period;
        let allowed = next <= now + self.tolerance() + wait;
        if allowed {
            self.tat = next;
        }
        let delay = (next - self.tolerance() - now).max(0);
        let (delay, retry_after) = match allowed {
            true => (delay, 0),
            false => (0, next - now - self.tolerance() - wait),
        };
        self.figures(now, allowed, delay, retry_after)
    }

    fn figures(&self, now: Parts, allowed: bool, delay: Parts, retry_after: Parts) -> Figures {
        let room = now + self.tolerance() - self.tat.max(now);
        Figures {
            allowed,
            delay,
            retry_after,
            reset_after: (self.tat - now).max(0),
            remaining: room.div_euclid(self.period).max(0),
        }
    }

    fn debit(&mut self, now: Parts, cost: u32) {
        self.tat = self.tat.max(now) + Parts::from(cost) * self.period;
    }

    /// Gives a cost back, of the charge after which the bucket was at `own` if that is known. Returns whether anything was.
    fn refund(&mut self, now: Parts, cost: u32, own: Option<Parts>) -> bool {
        let is_waited_for = self.tat > now + self.tolerance();
        let may = !is_waited_for || own == Some(self.tat);
        let gives = may && self.tat > now && cost > 0;
        if gives {
            self.tat = (self.tat - Parts::from(cost) * self.period).max(now);
        }
        gives
    }

    /// A span as people read it: rounded up to a microsecond.
    fn read(self, span: Parts) -> u128 {
        u128::try_from((span + self.count - 1).div_euclid(self.count)).unwrap()
    }
}

fn index(random: &mut Random, len: u64) -> usize {
    usize::try_from(random.below(len)).unwrap()
}

/// A charge that was admitted, at once or to the line.
struct Charge {
    charged_at: Parts,
    starts_at: Parts,
    cost: u32,
    tat: Parts,
    receipt: Option<Receipt>,
    refunded_at: Option<Parts>,
    left: bool,
}

struct History {
    random: Random,
    clock: ManualClock,
    limit: LimitHandle,
    model: Model,
    charges: Vec<Charge>,
    seen: Seen,
}

/// How often something was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    waited: u32,
    waited_for_fractions: u32,
    denied: u32,
    declined: u32,
    given_back: u32,
    lost: u32,
}

impl History {
    fn new(seed: u64, seen: Seen) -> Self {
        let (mut random, clock) = (Random(seed), ManualClock::default());
        let (model, limit) = Model::random(&mut random);
        let limits = Limits::builder().limit("l", limit).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
        Self {
            random,
            clock,
            limit: limiter.limit("l").unwrap(),
            model,
            charges: Vec::new(),
            seen,
        }
    }

    fn now(&self) -> Parts {
        Parts::from(self.clock.now().as_micros()) * self.model.count
    }

    fn advance(&mut self) {
        let interval = u64::try_from(self.model.period / self.model.count).unwrap();
        let longest = [1, interval / 2, 2 * interval, 9 * interval][index(&mut self.random, 4)];
        let us = self.random.below(longest + 1);
        self.clock.advance(Duration::from_micros(us));
    }

    /// A cost within the burst.
    fn cost(&mut self) -> u32 {
        let burst = u64::try_from(self.model.burst).unwrap();
        u32::try_from(1 + self.random.below(burst.min(3))).unwrap()
    }

    /// Anything that may happen to the bucket.
    async fn step(&mut self) {
        match self.random.below(16) {
            0..9 => self.spend().await,
            9 => self.check().await,
            10..12 => self.refund(true).await,
            12..14 => self.refund(false).await,
            14 => self.debit().await,
            _ => self.reset().await,
        }
    }

    /// What the bound is about.
    async fn step_without_debits_and_resets(&mut self) {
        match self.random.below(6) {
            0..4 => self.spend().await,
            which => self.refund(which == 4).await,
        }
    }

    async fn spend(&mut self) {
        let (now, cost) = (self.now(), self.cost());
        let may_wait = self.random.below(5) > 0;
        let expected = self.model.spend(now, cost, may_wait);
        let limit = self.limit.cost(cost);
        let limit = if may_wait { limit } else { limit.no_wait() };
        let decision = limit.spend("a").await.unwrap();
        self.agree(&decision, &expected);
        self.seen.denied += u32::from(!expected.allowed);
        self.seen.declined += u32::from(!expected.allowed && !may_wait);
        self.seen.waited += u32::from(expected.delay > 0);
        self.seen.waited_for_fractions += u32::from(expected.delay % self.model.count > 0);
        if expected.allowed {
            self.charges.push(Charge {
                charged_at: now,
                starts_at: now + expected.delay,
                cost,
                tat: self.model.tat,
                receipt: decision.receipt(),
                refunded_at: None,
                left: false,
            });
        }
    }

    fn agree(&self, decision: &Decision, expected: &Figures) {
        let model = self.model;
        let found = (
            decision.allowed(),
            decision.delay().as_micros(),
            decision.retry_after().as_micros(),
            decision.reset_after().as_micros(),
            i128::from(decision.remaining().unwrap()),
        );
        let expected = (
            expected.allowed,
            model.read(expected.delay),
            model.read(expected.retry_after),
            model.read(expected.reset_after),
            expected.remaining,
        );
        assert_eq!(found, expected, "{model:?}");
    }

    /// A check shows what a spend would, and changes nothing.
    async fn check(&mut self) {
        let (now, cost) = (self.now(), self.cost());
        let expected = { self.model }.spend(now, cost, true);
        let decision = self.limit.cost(cost).check("a").await.unwrap();
        self.agree(&decision, &expected);
    }

    /// Refunds one of the last charges. One that waits leaves the line, whether anything is given back or not.
    async fn refund(&mut self, by_receipt: bool) {
        let (now, back) = (self.now(), index(&mut self.random, 6));
        let Some(charge) = self.charges.iter_mut().rev().nth(back) else {
            return;
        };
        let Some(receipt) = charge.receipt.take() else {
            return;
        };
        let own = by_receipt.then_some(charge.tat);
        let expected = self.model.refund(now, charge.cost, own);
        let decision = match by_receipt {
            true => self.limit.refund_receipt("a", receipt).await,
            false => self.limit.cost(charge.cost).refund("a").await,
        };
        let decision = decision.unwrap();
        charge.left = charge.starts_at > now;
        charge.refunded_at = expected.then_some(now);
        self.seen.given_back += u32::from(expected);
        self.seen.lost += u32::from(!expected);
        let reset_after = self.model.figures(now, true, 0, 0).reset_after;
        let found = (decision.refunded(), decision.reset_after().as_micros());
        assert_eq!(
            found,
            (expected, self.model.read(reset_after)),
            "{:?}",
            self.model
        );
    }

    async fn debit(&mut self) {
        let (now, cost) = (self.now(), self.cost());
        self.model.debit(now, cost);
        let debit = self.limit.cost(cost).mode(Mode::Debit);
        assert!(debit.spend("a").await.unwrap().delay().is_zero());
    }

    async fn reset(&mut self) {
        self.model.tat = 0;
        self.limit.reset("a").await.unwrap();
    }

    /// By how much the starts of some window exceed the bound, at most. The instants are exact: rounded to microseconds,
    /// two starts may be closer by one.
    fn excess(&self) -> i128 {
        let starts = |charge: &&Charge| charge.refunded_at.is_none() && !charge.left;
        let mut started: Vec<_> = self.charges.iter().filter(starts).collect();
        started.sort_by_key(|charge| charge.starts_at);
        let mut most = i128::MIN;
        for (i, first) in started.iter().enumerate() {
            let mut taken = 0;
            for last in &started[i..] {
                let (from, to) = (first.starts_at, last.starts_at);
                taken += i128::from(last.cost);
                let given_back = self.charges.iter().filter(|charge| {
                    let at = charge.refunded_at;
                    at.is_some_and(|at| from <= at && at <= to) && charge.charged_at < from
                });
                let given_back: u32 = given_back.map(|charge| charge.cost).sum();
                let regained = (to - from).div_euclid(self.model.period);
                most = most.max(taken - self.model.burst - regained - i128::from(given_back));
            }
        }
        most
    }
}

#[tokio::test]
async fn histories_of_lines_are_those_of_the_model() {
    let mut seen = Seen::default();
    for seed in 0..scaled(300) {
        let mut history = History::new(seed, seen);
        for _ in 0..200 {
            history.advance();
            history.step().await;
        }
        seen = history.seen;
    }
    let Seen {
        waited,
        waited_for_fractions,
        denied,
        declined,
        given_back,
        lost,
    } = seen;
    let all = [
        waited,
        waited_for_fractions,
        denied,
        declined,
        given_back,
        lost,
    ];
    assert!(all.iter().all(|some| *some > 500), "{seen:?}");
}

#[tokio::test]
async fn exact_starts_stay_within_the_bound_of_any_limit() {
    let (mut seen, mut worst) = (Seen::default(), i128::MIN);
    for seed in 0..scaled(150) {
        let mut history = History::new(seed, seen);
        for _ in 0..120 {
            history.advance();
            history.step_without_debits_and_resets().await;
        }
        seen = history.seen;
        worst = worst.max(history.excess());
    }
    assert_eq!(worst, 0, "the bound is reached, and never exceeded");
    let all = [seen.waited_for_fractions, seen.given_back, seen.lost];
    assert!(all.iter().all(|some| *some > 300), "{seen:?}");
}
