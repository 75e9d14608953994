//! Limits with a line: what the bound says of random histories, and what leaving a line does.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

#[cfg(feature = "failure-policy")]
use tollgate::backend::FailurePolicy;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend,
    backend::DenyCache,
    clock::{Clock, ManualClock},
    limiter::LimitHandle,
    testing::cases::history::Random,
    transaction::Receipt,
};

use crate::support::scale::scaled;

const BURST: u32 = 4;
/// T in microseconds.
const INTERVAL: u64 = 250_000;
const LINE: Limit = Limit::per_second(4).max_wait(Duration::from_secs(3));

/// What becomes of plain refunds.
#[derive(Clone, Copy, PartialEq)]
enum PlainRefunds {
    /// They are of the limit with its line.
    OfTheLine,
    /// They are of a limit that has no line, as if waiting were up to each caller.
    WithoutALine,
}

/// A charge that was admitted, at once or to the line.
struct Charge {
    charged_at: u64,
    starts_at: u64,
    cost: u32,
    receipt: Option<Receipt>,
    refunded_at: Option<u64>,
    left: bool,
}

/// One client's charges, through a random time.
struct History {
    clock: ManualClock,
    limit: LimitHandle,
    plain: LimitHandle,
    charges: Vec<Charge>,
}

impl History {
    fn new(plain: PlainRefunds) -> Self {
        let (clock, backend) = (
            ManualClock::default(),
            std::sync::Arc::new(MemoryBackend::new()),
        );
        let [limit, without] = [LINE, LINE.max_wait(Duration::ZERO)].map(|limit| {
            let limits = Limits::builder().limit("l", limit).build().unwrap();
            let limiter = Limiter::new(limits, std::sync::Arc::clone(&backend));
            limiter.with_clock(clock.clone()).limit("l").unwrap()
        });
        Self {
            clock,
            plain: match plain {
                PlainRefunds::OfTheLine => limit.clone(),
                PlainRefunds::WithoutALine => without,
            },
            limit,
            charges: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    async fn step(&mut self, random: &mut Random) {
        let longest = [1, INTERVAL / 2, 2 * INTERVAL][usize::try_from(random.below(3)).unwrap()];
        self.clock
            .advance(Duration::from_micros(random.below(longest + 1)));
        match random.below(6) {
            0..4 => self.spend(1 + random.cost(2)).await,
            4 => self.refund(random, true).await,
            _ => self.refund(random, false).await,
        }
    }

    async fn spend(&mut self, cost: u32) {
        let now = self.now();
        let decision = self.limit.cost(cost).spend("a").await.unwrap();
        if decision.allowed() {
            self.charges.push(Charge {
                charged_at: now,
                starts_at: now + u64::try_from(decision.delay().as_micros()).unwrap(),
                cost,
                receipt: decision.receipt(),
                refunded_at: None,
                left: false,
            });
        }
    }

    /// Refunds one of the last charges. One that waits leaves the line, whether anything is given back or not.
    async fn refund(&mut self, random: &mut Random, by_receipt: bool) {
        let now = self.now();
        let back = usize::try_from(random.below(6)).unwrap();
        let Some(charge) = self.charges.iter_mut().rev().nth(back) else {
            return;
        };
        let Some(receipt) = charge.receipt.take() else {
            return;
        };
        let refunded = match by_receipt {
            true => self.limit.refund_receipt("a", receipt).await,
            false => self.plain.cost(charge.cost).refund("a").await,
        };
        charge.left = charge.starts_at > now;
        if refunded.unwrap().refunded() {
            charge.refunded_at = Some(now);
        }
    }

    /// By how much the starts of some window exceed the bound, at most.
    fn excess(&self) -> i64 {
        let starts = |charge: &&Charge| charge.refunded_at.is_none() && !charge.left;
        let mut started: Vec<_> = self.charges.iter().filter(starts).collect();
        started.sort_by_key(|charge| charge.starts_at);
        let mut most = i64::MIN;
        for (i, first) in started.iter().enumerate() {
            let mut taken = 0;
            for last in &started[i..] {
                let (from, to) = (first.starts_at, last.starts_at);
                taken += i64::from(last.cost);
                let given_back = self.charges.iter().filter(|charge| {
                    let at = charge.refunded_at;
                    at.is_some_and(|at| from <= at && at <= to) && charge.charged_at < from
                });
                let given_back: u32 = given_back.map(|charge| charge.cost).sum();
                let regained = i64::try_from((to - from) / INTERVAL).unwrap();
                let bound = i64::from(BURST) + regained + i64::from(given_back);
                most = most.max(taken - bound);
            }
        }
        most
    }
}

async fn worst_excess(plain: PlainRefunds) -> i64 {
    let (mut worst, mut waited, mut left) = (i64::MIN, 0, 0);
    for seed in 0..scaled(60) {
        let (mut random, mut history) = (Random(seed), History::new(plain));
        for _ in 0..150 {
            history.step(&mut random).await;
        }
        let charges = &history.charges;
        waited += charges
            .iter()
            .filter(|c| c.starts_at > c.charged_at)
            .count();
        left += charges.iter().filter(|charge| charge.left).count();
        worst = worst.max(history.excess());
    }
    assert!(waited > 1000 && left > 300, "{waited} waited, {left} left");
    worst
}

#[tokio::test]
async fn starts_stay_within_the_bound_whoever_leaves_and_is_refunded() {
    assert_eq!(
        worst_excess(PlainRefunds::OfTheLine).await,
        0,
        "the bound is reached, and never exceeded"
    );
}

#[tokio::test]
async fn bound_is_exceeded_if_plain_refunds_shorten_a_line() {
    assert!(worst_excess(PlainRefunds::WithoutALine).await > 0);
}

#[tokio::test]
async fn nobody_starves_and_nobody_overtakes() {
    let history = History::new(PlainRefunds::OfTheLine);
    let mut random = Random(5);
    let mut latest = 0;
    for _ in 0..2000 {
        let us = random.below(INTERVAL);
        history.clock.advance(Duration::from_micros(us));
        let now = history.now();
        let decision = history.limit.spend("a").await.unwrap();
        if decision.allowed() {
            let starts_at = now + u64::try_from(decision.delay().as_micros()).unwrap();
            assert!(
                latest <= starts_at,
                "each starts behind those who came before"
            );
            latest = starts_at;
        } else {
            let longest = latest - now;
            assert!(longest > 2_750_000, "only a full line turns callers away");
        }
    }
}

#[cfg(feature = "failure-policy")]
#[tokio::test]
async fn share_of_a_limit_has_a_line_of_its_own() {
    let down = tollgate::testing::MapBackend::default();
    let policy = FailurePolicy::new(down).share(1, 2);
    let policy = policy.max_in_flight(0);
    let limits = Limits::builder().limit("l", LINE).build().unwrap();
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, policy).with_clock(clock.clone());
    let limit = limiter.limit("l").unwrap();
    let mut receipts = Vec::new();
    // Half of the burst and of the rate, and the whole wait.
    for half_seconds in [0, 0, 1, 2, 3, 4, 5, 6] {
        let decision = limit.spend("a").await.unwrap();
        let waits = Duration::from_millis(500 * half_seconds);
        assert_eq!((decision.allowed(), decision.delay()), (true, waits));
        receipts.push(decision.receipt().unwrap());
    }
    assert!(!limit.spend("a").await.unwrap().allowed());
    let middle = limit.refund_receipt("a", receipts.remove(3)).await;
    assert!(!middle.unwrap().refunded());
    let last = limit.refund_receipt("a", receipts.pop().unwrap()).await;
    assert!(last.unwrap().refunded());
    let again = limit.spend("a").await.unwrap();
    assert_eq!(again.delay(), Duration::from_secs(3));
}

#[tokio::test]
async fn cached_denial_of_one_who_does_not_wait_keeps_nobody_from_the_line() {
    let cache = DenyCache::new(tollgate::testing::MapBackend::default());
    let limits = Limits::builder().limit("l", LINE).build().unwrap();
    let limiter = Limiter::new(limits, cache).with_clock(ManualClock::default());
    let limit = limiter.limit("l").unwrap();
    limit.cost(BURST).spend("a").await.unwrap();
    for _ in 0..2 {
        let denied = limit.no_wait().spend("a").await.unwrap();
        let wait = Duration::from_micros(INTERVAL);
        assert_eq!((denied.allowed(), denied.retry_after()), (false, wait));
    }
    assert!(limit.spend("a").await.unwrap().allowed());
    for _ in 0..11 {
        assert!(limit.spend("a").await.unwrap().allowed());
    }
    for _ in 0..2 {
        let denied = limit.spend("a").await.unwrap();
        let wait = Duration::from_micros(INTERVAL);
        assert_eq!((denied.allowed(), denied.retry_after()), (false, wait));
    }
}
