//! Windows and quotas against independent models: a list of instants, and a counter with a calendar.

use std::time::Duration;

use futures_util::FutureExt;
use jiff::{
    Timestamp as Instant, ToSpan,
    civil::{DateTime, Time},
    tz::Offset,
};
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{Clock, ManualClock, Timestamp},
    limiter::LimiterError,
    quota::{CalendarUnit, Per, UtcOffset},
    testing::cases::history::Random,
    transaction::{Mode, Receipt},
};

use crate::support::scale::scaled;

/// A wait for what cannot happen.
const NEVER: u64 = u64::MAX;

/// What is decided: whether it passes or gives something back, and the figures after it.
#[derive(Debug, PartialEq)]
struct Answer {
    passed: bool,
    remaining: u64,
    next_after: u64,
    reset_after: u64,
    more_after: Option<u64>,
}

impl From<&Decision> for Answer {
    fn from(decision: &Decision) -> Self {
        let us = |wait: Duration| match wait {
            Decision::NEVER => NEVER,
            wait => u64::try_from(wait.as_micros()).unwrap(),
        };
        Self {
            passed: decision.allowed(),
            remaining: decision.remaining().unwrap().into(),
            next_after: us(decision.next_after()),
            reset_after: us(decision.reset_after()),
            more_after: decision.next_token_after().map(us),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Spend,
    Check,
    Debit,
    Refund,
    /// Of so much that was charged in this period, or at this instant.
    RefundReceipt(u64),
}

/// A bucket, and what is charged by an operation: the mark that its receipt has.
trait Model {
    /// `None` if there is no room to remember a debit.
    fn decide(&mut self, operation: Operation, now: u64, cost: u64) -> Option<Answer>;

    fn mark(&self, now: u64) -> u64;

    fn reset(&mut self);
}

/// Every unit that was not given back, in any order.
struct WindowModel {
    limit: u64,
    window: u64,
    units: Vec<u64>,
}

impl WindowModel {
    fn counting(&self, now: u64) -> Vec<u64> {
        let counts = |unit: &&u64| now < **unit + self.window;
        let mut units: Vec<u64> = self.units.iter().filter(counts).copied().collect();
        units.sort_unstable();
        units
    }

    fn figures(&self, units: &[u64], now: u64, cost: u64, passed: bool) -> Answer {
        let used = units.len() as u64;
        // How many fit once the oldest so many have left.
        let wait = |cost: u64| {
            let leaves = |left: &usize| used - *left as u64 + cost <= self.limit;
            match (0..=units.len()).find(leaves) {
                Some(0) => 0,
                Some(left) => units[left - 1] + self.window - now,
                None => NEVER,
            }
        };
        Answer {
            passed,
            remaining: self.limit.saturating_sub(used),
            next_after: wait(cost),
            reset_after: units.last().map_or(0, |unit| unit + self.window - now),
            more_after: (used > 0).then(|| wait(self.limit.saturating_sub(used) + 1)),
        }
    }
}

impl Model for WindowModel {
    fn decide(&mut self, operation: Operation, now: u64, cost: u64) -> Option<Answer> {
        let mut units = self.counting(now);
        let used = units.len() as u64;
        let passed = match operation {
            Operation::Spend | Operation::Check => used + cost <= self.limit,
            Operation::Debit if used + cost > 4096 => return None,
            Operation::Debit => true,
            Operation::Refund => used > 0 && cost > 0,
            Operation::RefundReceipt(at) => cost > 0 && units.contains(&at),
        };
        if passed {
            for _ in 0..cost {
                match operation {
                    Operation::Spend | Operation::Check | Operation::Debit => units.push(now),
                    Operation::Refund => drop(units.pop()),
                    Operation::RefundReceipt(at) => {
                        let place = units.iter().position(|unit| *unit == at);
                        place.map(|place| units.remove(place));
                    }
                }
            }
            units.sort_unstable();
            let writes = !matches!(operation, Operation::Check) && cost > 0;
            if writes {
                self.units.clone_from(&units);
            }
        }
        Some(self.figures(&units, now, cost, passed))
    }

    fn mark(&self, now: u64) -> u64 {
        now
    }

    fn reset(&mut self) {
        self.units.clear();
    }
}

/// What is used, since when, and until when that counts.
struct QuotaModel {
    quota: u64,
    per: Per,
    used: u64,
    start: u64,
}

impl QuotaModel {
    fn local(&self, at: u64) -> (DateTime, Offset) {
        let (_, offset) = self.per.calendar_unit().unwrap();
        let offset = Offset::from_seconds(i32::from(offset.as_minutes()) * 60).unwrap();
        let at = Instant::from_microsecond(at.try_into().unwrap()).unwrap();
        (offset.to_datetime(at), offset)
    }

    /// The first instant of the period of an instant, and that of the next one.
    fn period(&self, at: u64) -> (u64, u64) {
        let Some((unit, _)) = self.per.calendar_unit() else {
            let length = self.per.first_use_length().unwrap();
            return (at, at + u64::try_from(length.as_micros()).unwrap());
        };
        let (local, offset) = self.local(at);
        let date = local.date();
        let midnight = |date: jiff::civil::Date| date.to_datetime(Time::midnight());
        let (start, end) = match unit {
            CalendarUnit::Hour => {
                let start = date.at(local.hour(), 0, 0, 0);
                (start, start + 1.hour())
            }
            CalendarUnit::Day => (midnight(date), midnight(date) + 24.hours()),
            CalendarUnit::Week => {
                let since_monday = date.weekday().to_monday_zero_offset();
                let start = midnight(date) - i64::from(since_monday).days();
                (start, start + 7.days())
            }
            CalendarUnit::Month => {
                let start = midnight(date.first_of_month());
                (start, start + i64::from(date.days_in_month()).days())
            }
            _ => panic!("a unit that no test has"),
        };
        let us = |at| offset.to_timestamp(at).unwrap().as_microsecond();
        (us(start).try_into().unwrap(), us(end).try_into().unwrap())
    }

    fn figures(&self, (used, start): (u64, u64), now: u64, cost: u64, passed: bool) -> Answer {
        let end = self.period(if used > 0 { start } else { now }).1;
        Answer {
            passed,
            remaining: self.quota.saturating_sub(used),
            next_after: if used + cost <= self.quota {
                0
            } else {
                end - now
            },
            reset_after: if used > 0 { end - now } else { 0 },
            more_after: (used > 0).then(|| end - now),
        }
    }
}

impl Model for QuotaModel {
    fn decide(&mut self, operation: Operation, now: u64, cost: u64) -> Option<Answer> {
        let is_over = now >= self.period(self.start).1;
        let before = if is_over {
            (0, 0)
        } else {
            (self.used, self.start)
        };
        let (used, start) = before;
        let charged = |cost: u64| match used {
            _ if cost == 0 => before,
            0 => (cost, self.period(now).0),
            used => ((used + cost).min(u32::MAX.into()), start),
        };
        let (passed, after) = match operation {
            Operation::Spend | Operation::Check => (used + cost <= self.quota, charged(cost)),
            Operation::Debit => (true, charged(cost)),
            Operation::Refund => (used > 0 && cost > 0, (used.saturating_sub(cost), start)),
            Operation::RefundReceipt(period) => {
                let is_same = used > 0 && cost > 0 && period == start;
                (is_same, (used.saturating_sub(cost), start))
            }
        };
        let shown = if passed { after } else { before };
        if passed && cost > 0 && !matches!(operation, Operation::Check) {
            (self.used, self.start) = after;
        }
        Some(self.figures(shown, now, cost, passed))
    }

    fn mark(&self, _: u64) -> u64 {
        self.start
    }

    fn reset(&mut self) {
        self.used = 0;
    }
}

/// A receipt, with the mark that the model knows it by.
struct Held(Receipt, u64);

/// Lets a limiter and a model live through random operations, by a clock that steps back as well.
fn live_through(limit: &Limit, model: &mut impl Model, longest: u64, seed: u64) {
    let clock = ManualClock::default();
    let limits = Limits::builder().limit("l", limit.clone()).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let most = u64::from(limit.max_cost().unwrap());
    let (mut random, mut held, mut counts) = (Random(seed), Vec::new(), [0; 4]);
    for step in 0..scaled(20_000_u32) {
        move_clock(&clock, &mut random, longest);
        let now = clock.now().as_micros();
        if random.below(3000) == 0 {
            let bucket = [Transaction::new("l", "a")];
            let reset = limiter.reset(&bucket).now_or_never();
            reset.unwrap().unwrap();
            model.reset();
        }
        let (operation, receipt, cost) = operation(&mut random, &mut held, most);
        let expected = model.decide(operation, now, cost);
        let found = decide(&limiter, operation, receipt.as_ref(), cost);
        let found = match found {
            Ok(decision) => decision,
            Err(LimiterError::NoRoomForDebit { .. }) => {
                assert_eq!(expected, None, "step {step}");
                continue;
            }
            Err(error) => panic!("step {step}: {error}"),
        };
        let is_charge = matches!(operation, Operation::Spend | Operation::Debit);
        let receipt = found.receipt();
        assert_eq!(
            Some(Answer::from(&found)),
            expected,
            "step {step}: {operation:?} of {cost} at {now}"
        );
        assert_eq!(receipt.is_some(), is_charge && found.allowed() && cost > 0);
        held.extend(receipt.map(|receipt| Held(receipt, model.mark(now))));
        counts[usize::from(is_charge) * 2 + usize::from(found.allowed())] += 1;
    }
    assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
}

/// Mostly forwards, often to an instant that is full of meaning: an end, or one microsecond before it.
fn move_clock(clock: &ManualClock, random: &mut Random, longest: u64) {
    let now = clock.now().as_micros();
    let longest_step = [1, 2, 3 + longest / 50, longest];
    let longest_step = longest_step[usize::try_from(random.below(4)).unwrap()];
    let by = random.below(longest_step);
    let next = match random.below(12) {
        // The year 2112 comes before the end of a long run.
        _ if now > 4_000_000_000_000_000 => 1_767_225_600_000_000,
        0 => now.saturating_sub(by.min(longest / 20)),
        _ => now + by,
    };
    clock.set(Timestamp::from_micros(next));
}

fn operation(
    random: &mut Random,
    held: &mut Vec<Held>,
    most: u64,
) -> (Operation, Option<Receipt>, u64) {
    let usual = if random.below(4) == 0 {
        most
    } else {
        most.min(12)
    };
    let cost = random.below(usual + 1);
    match random.below(20) {
        0..9 => (Operation::Spend, None, cost),
        9 | 10 => (Operation::Check, None, cost),
        11 => (Operation::Debit, None, random.below(2 * most.min(3000))),
        12 | 13 => (Operation::Refund, None, random.below(2 * most.min(20))),
        _ if held.is_empty() => (Operation::Spend, None, cost),
        _ => {
            let recent = random.below(3).min(held.len() as u64 - 1);
            let place = held.len() - 1 - usize::try_from(recent).unwrap();
            let Held(mut receipt, mark) = held.remove(place);
            let part = receipt.split(random.cost(4));
            let cost = part.cost().into();
            held.push(Held(receipt, mark));
            (Operation::RefundReceipt(mark), Some(part), cost)
        }
    }
}

fn decide(
    limiter: &Limiter,
    operation: Operation,
    receipt: Option<&Receipt>,
    cost: u64,
) -> Result<Decision, LimiterError> {
    let bucket = Transaction::new("l", "a").cost(cost.try_into().unwrap());
    let decided = async {
        match (operation, receipt) {
            (Operation::Spend, _) => limiter.spend(&bucket).await,
            (Operation::Check, _) => limiter.check(&bucket).await,
            (Operation::Debit, _) => limiter.spend(&bucket.mode(Mode::Debit)).await,
            (_, Some(receipt)) => limiter.refund(&bucket.of_receipt(receipt)).await,
            (_, None) => limiter.refund(&bucket).await,
        }
    };
    decided.now_or_never().unwrap()
}

#[test]
fn windows_are_decided_as_by_a_list_of_instants() {
    let windows = [(1, 10), (2, 1), (5, 100), (40, 1_000_003), (4096, 10_000)];
    for (seed, (limit, window)) in windows.into_iter().enumerate() {
        let us = Duration::from_micros(window);
        let units = Vec::new();
        let mut model = WindowModel {
            limit: limit.into(),
            window,
            units,
        };
        live_through(&Limit::window(limit, us), &mut model, window, seed as u64);
    }
}

#[test]
fn quotas_are_decided_as_by_a_counter_with_a_calendar() {
    const DAY: u64 = 86_400_000_000;
    let offset = |minutes| UtcOffset::minutes(minutes);
    let quotas = [
        (1, Per::Hour, DAY / 24),
        (5, Per::Hour.at_offset(offset(-1439)), DAY / 24),
        (7, Per::Day, DAY),
        (1000, Per::Day.at_offset(offset(1439)), DAY),
        (6, Per::Week.at_offset(offset(90)), 7 * DAY),
        (9, Per::Month, 31 * DAY),
        (u32::MAX, Per::Month.at_offset(offset(-720)), 31 * DAY),
        (3, Per::first_use(Duration::from_micros(1)), 2),
        (8, Per::first_use(Duration::from_secs(60)), 60_000_000),
    ];
    for (seed, (quota, per, longest)) in quotas.into_iter().enumerate() {
        let mut model = QuotaModel {
            quota: quota.into(),
            per,
            used: 0,
            start: ManualClock::default().now().as_micros(),
        };
        let limit = Limit::quota(quota, per);
        live_through(&limit, &mut model, longest / 2 + 2, seed as u64);
    }
}
