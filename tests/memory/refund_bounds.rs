//! The bound of each limit with refunds, by all sequences of requests and refunds up to a length.
//!
//! Cost that is refunded can be spent again, so a span admits at most [`Limit::most_within`] and what is refunded within
//! it. If all refunds have receipts, what stays charged to a window or a calendar quota is within the bound without that.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt;
use tollgate::{
    Decision, Limit, Limiter, Limits, Transaction,
    backend::{Backend, BackendError, async_trait},
    clock::{ManualClock, Timestamp},
    decision::{Outcome, Stored},
    limiter::LimiterError,
    quota::Per,
    tiers::Tier,
    transaction::Batch,
};

/// The first instant of Thursday, 1 January 2026.
const T: u64 = 1_767_225_600_000_000;
const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;

/// One bucket, which can be put back to what it was.
#[derive(Debug, Default)]
struct OneBucket(Mutex<Stored>);

#[async_trait]
impl Backend for OneBucket {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut stored = self.0.lock().unwrap();
        let now = batch.now.expect("the limiter has a clock");
        Ok(Outcome::decide(
            batch,
            now,
            std::slice::from_mut(&mut *stored),
        )?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Refunds {
    /// By receipt: the charge, and how much of it.
    Receipts,
    /// Without: a cost.
    Plain,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// For the next instant.
    Wait,
    Spend(u32),
    Refund {
        charge: usize,
        part: u32,
    },
    PlainRefund(u32),
}

struct Charge {
    at: u64,
    /// How much of it was not refunded by its receipt.
    kept: u32,
    decision: Decision,
}

/// What has come of a step.
#[derive(Clone, Copy)]
struct Event {
    at: u64,
    spent: u32,
    refunded: u32,
}

/// The most that any sequence has spent and kept, by the length of the span in microseconds.
#[derive(Default)]
struct Found {
    /// Within a span in which so much was refunded.
    spent: BTreeMap<(u64, u64), u64>,
    /// Of the charges within a span, what was not refunded.
    kept: BTreeMap<u64, u64>,
}

/// All sequences of steps up to a length. A step that changes nothing is as none, so nothing is lost by leaving it out.
struct Enumeration<'a> {
    bucket: Arc<OneBucket>,
    limiter: Limiter,
    clock: ManualClock,
    instants: &'a [u64],
    refunds: Refunds,
    place: usize,
    charges: Vec<Charge>,
    events: Vec<Event>,
    found: Found,
}

impl<'a> Enumeration<'a> {
    fn run(limit: &Limit, instants: &'a [u64], refunds: Refunds, length: u32) -> Found {
        let (bucket, clock) = (Arc::new(OneBucket::default()), ManualClock::default());
        let limits = Limits::builder().limit("l", limit.clone()).build().unwrap();
        let limiter = Limiter::new(limits, Arc::clone(&bucket)).with_clock(clock.clone());
        let mut all = Self {
            bucket,
            limiter,
            clock,
            instants,
            refunds,
            place: 0,
            charges: Vec::new(),
            events: Vec::new(),
            found: Found::default(),
        };
        all.descend(length);
        all.found
    }

    fn descend(&mut self, length: u32) {
        if length == 0 {
            return;
        }
        for step in self.steps() {
            let stored = self.bucket.0.lock().unwrap().clone();
            let kept: Vec<_> = self.charges.iter().map(|charge| charge.kept).collect();
            let (place, events) = (self.place, self.events.len());
            if self.take(step) {
                self.look_back();
                self.descend(length - 1);
            }
            *self.bucket.0.lock().unwrap() = stored;
            self.place = place;
            self.charges.truncate(kept.len());
            self.events.truncate(events);
            for (charge, kept) in self.charges.iter_mut().zip(kept) {
                charge.kept = kept;
            }
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Spend(1), Step::Spend(2)];
        if self.place + 1 < self.instants.len() {
            steps.push(Step::Wait);
        }
        match self.refunds {
            Refunds::Plain => steps.extend([Step::PlainRefund(1), Step::PlainRefund(2)]),
            Refunds::Receipts => {
                let charges = self.charges.iter().enumerate();
                steps.extend(charges.flat_map(|(charge, Charge { kept, .. })| {
                    (1..=*kept).map(move |part| Step::Refund { charge, part })
                }));
            }
        }
        steps
    }

    /// Whether the step changes anything.
    fn take(&mut self, step: Step) -> bool {
        let at = self.instants[self.place];
        self.clock.set(Timestamp::from_micros(at));
        let bucket = Transaction::new("l", "a");
        let (spent, refunded) = match step {
            Step::Wait => {
                self.place += 1;
                return true;
            }
            Step::Spend(cost) => (self.spend(at, cost), 0),
            Step::PlainRefund(cost) => (0, self.refund(&bucket.cost(cost), cost)),
            Step::Refund { charge, part } => {
                let Some(mut receipt) = self.charges[charge].decision.receipt() else {
                    return false;
                };
                let receipt = receipt.split(part);
                let refunded = self.refund(&bucket.of_receipt(&receipt), part);
                self.charges[charge].kept -= refunded;
                (0, refunded)
            }
        };
        self.events.push(Event {
            at,
            spent,
            refunded,
        });
        spent + refunded > 0
    }

    /// How much is spent.
    fn spend(&mut self, at: u64, cost: u32) -> u32 {
        let bucket = Transaction::new("l", "a").cost(cost);
        let spent = self.limiter.spend(&bucket);
        match spent.now_or_never().unwrap() {
            Ok(decision) if decision.allowed() => {
                let kept = cost;
                self.charges.push(Charge { at, kept, decision });
                cost
            }
            Ok(_) | Err(LimiterError::CostAboveBurst { .. }) => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// The cost, if any of it is given back.
    fn refund(&self, refund: &Transaction<'_>, cost: u32) -> u32 {
        let before = self.bucket.0.lock().unwrap().clone();
        let refunded = self.limiter.refund(refund).now_or_never().unwrap();
        match refunded {
            Ok(decision) if decision.refunded() => cost,
            Ok(_) | Err(LimiterError::NotWithTiers { .. }) => {
                assert_eq!(*self.bucket.0.lock().unwrap(), before);
                0
            }
            Err(LimiterError::CostAboveBurst { .. }) => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds up each span that ends with the last step.
    fn look_back(&mut self) {
        let Some(last) = self.events.last().filter(|event| event.spent > 0) else {
            return;
        };
        let (mut spent, mut refunded) = (0, 0);
        for event in self.events.iter().rev() {
            spent += u64::from(event.spent);
            refunded += u64::from(event.refunded);
            let span = (last.at - event.at + 1, refunded);
            let most = self.found.spent.entry(span).or_default();
            *most = spent.max(*most);
        }
        let mut kept = 0;
        for charge in self.charges.iter().rev() {
            kept += u64::from(charge.kept);
            let span = last.at - charge.at + 1;
            let most = self.found.kept.entry(span).or_default();
            *most = kept.max(*most);
        }
    }
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn row(len: u64) -> Vec<u64> {
    (T..T + len).collect()
}

/// No span admits more than the bound and what is refunded within it, and some admit as much: without refunds, and with
/// some.
#[track_caller]
fn assert_spent(limit: &Limit, instants: &[u64], refunds: Refunds, length: u32) -> Found {
    let found = Enumeration::run(limit, instants, refunds, length);
    let mut tight = [false; 2];
    for ((span, refunded), spent) in &found.spent {
        let bound = limit.most_within(us(*span)).unwrap() + refunded;
        assert!(
            *spent <= bound,
            "{limit}: {spent} in {span} us, {refunded} of it refunded"
        );
        tight[usize::from(*refunded > 0)] |= *spent == bound;
    }
    assert_eq!(tight, [true; 2], "{limit}, {refunds:?}");
    found
}

/// No span keeps more than `bound`, and some keep as much.
#[track_caller]
fn assert_kept(limit: &Limit, found: &Found, bound: impl Fn(u64) -> u64) {
    let mut tight = 0;
    for (span, kept) in &found.kept {
        let bound = bound(*span);
        assert!(*kept <= bound, "{limit}: {kept} stay in {span} us");
        tight += usize::from(*kept == bound);
    }
    assert!(tight > 0, "{limit}");
}

#[test]
fn gcra_admits_what_is_refunded_once_more() {
    for (burst, period) in [(1, 1), (2, 1), (2, 2), (3, 2)] {
        let limit = Limit::per(1, us(period)).burst(burst);
        assert_spent(&limit, &row(4), Refunds::Plain, 7);
        let found = assert_spent(&limit, &row(4), Refunds::Receipts, 7);
        // The refund of a charge that was made before the span comes on top, even if its time has come back already.
        let mut kept = found.kept.iter();
        let is_beyond = kept.any(|(span, kept)| *kept > limit.most_within(us(*span)).unwrap());
        assert!(is_beyond, "{limit}");
    }
}

#[test]
fn window_keeps_its_limit_with_receipts() {
    for (limit, window) in [(1, 2), (2, 1), (2, 3), (3, 2)] {
        let limit = Limit::window(limit, us(window));
        assert_spent(&limit, &row(4), Refunds::Plain, 7);
        let found = assert_spent(&limit, &row(4), Refunds::Receipts, 7);
        assert_kept(&limit, &found, |span| limit.most_within(us(span)).unwrap());
    }
}

#[test]
fn calendar_quota_keeps_its_number_with_receipts() {
    let ends = [HOUR, DAY, 4 * DAY, 31 * DAY];
    for (per, end) in [Per::Hour, Per::Day, Per::Week, Per::Month]
        .into_iter()
        .zip(ends)
    {
        let instants = [T + end - 2, T + end - 1, T + end, T + end + 1];
        let limit = Limit::quota(2, per);
        assert_spent(&limit, &instants, Refunds::Plain, 7);
        let found = assert_spent(&limit, &instants, Refunds::Receipts, 7);
        assert_kept(&limit, &found, |span| limit.most_within(us(span)).unwrap());
    }
}

#[test]
fn quota_from_first_use_meets_the_next_one_if_its_first_request_is_refunded() {
    for (quota, length) in [(1, 2), (2, 2), (2, 3), (3, 2)] {
        let limit = Limit::quota(quota, Per::first_use(us(length)));
        assert_spent(&limit, &row(5), Refunds::Plain, 7);
        let found = assert_spent(&limit, &row(5), Refunds::Receipts, 8);
        // The period goes on without the request that has started it.
        let touched = |span: u64| (span - 1).div_ceil(length) + 1;
        assert_kept(&limit, &found, |span| u64::from(quota) * touched(span));
    }
}

#[test]
fn tiers_refund_nothing() {
    let tier = |limit, window| Tier::new(limit, us(window));
    let bursts = [tier(1, 1), tier(2, 2).active(us(2)).cooldown(us(2))];
    for tiers in [&[tier(2, 2)][..], &bursts] {
        let limit = Limit::tiers(tiers.iter().copied()).unwrap();
        for refunds in [Refunds::Plain, Refunds::Receipts] {
            let found = Enumeration::run(&limit, &row(4), refunds, 7);
            assert_kept(&limit, &found, |span| limit.most_within(us(span)).unwrap());
            assert!(found.spent.keys().all(|(_, refunded)| *refunded == 0));
        }
    }
}
