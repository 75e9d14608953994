//! Replays Boulder's own figures (`data/gcra.json`) through a [`Limiter`].
//!
//! Boulder truncates to nanoseconds and we are exact in microseconds, so spans are compared to
//! within one. At an instant between two microseconds a denied step is replayed just before it and
//! an allowed one just after, so that every step is replayed, and each leaves the same state.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
    limiter::LimiterError,
    transaction::Mode,
};

const T0: u64 = 1_767_225_600_000_000;
/// The name of a limit that is known and off.
const OFF: &str = "off";
/// Boulder's `remaining` where no limit is configured.
const SENTINEL: u64 = i64::MAX as u64;
/// Boulder truncates where we round up.
const TOLERANCE: u64 = 1;

#[derive(Deserialize)]
struct File {
    limits: BTreeMap<String, Parameters>,
    suites: Vec<Suite>,
}

#[derive(Deserialize)]
struct Parameters {
    burst: u32,
    count: u32,
    period: u64,
}

#[derive(Deserialize)]
struct Suite {
    id: String,
    initial_tat: BTreeMap<String, i64>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    n: u32,
    t: u64,
    op: Op,
    txns: Vec<Txn>,
    expect: Expect,
    stored_tat_after: BTreeMap<String, Option<u64>>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Op {
    Spend,
    Check,
    Refund,
    Reset,
}

#[derive(Deserialize)]
struct Txn {
    key: Option<String>,
    limit: Option<String>,
    kind: Kind,
    cost: i64,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    CheckAndSpend,
    CheckOnly,
    SpendOnly,
    AllowOnly,
    ResetOnly,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expect {
    Error { error: String },
    Reset { ok: bool },
    Decision(Figures),
}

#[derive(Deserialize)]
struct Figures {
    allowed: bool,
    remaining: u64,
    retry_in: u64,
    reset_in: u64,
    new_tat: Option<u64>,
}

/// The number of times that each way of replaying a step was taken.
#[derive(Debug, Default, PartialEq)]
struct Replayed {
    exactly: usize,
    between_microseconds: usize,
    by_its_type: usize,
}

/// A limiter on an empty backend at `t0`.
struct Replay {
    limiter: Limiter,
    clock: ManualClock,
}

impl Replay {
    fn new(file: &File) -> Self {
        let mut limits = Limits::builder().name(OFF);
        for (name, parameters) in &file.limits {
            let period = Duration::from_nanos(parameters.period);
            let limit = Limit::new(parameters.burst, parameters.count, period).unwrap();
            limits = limits.limit(name.as_str(), limit);
        }
        let clock = ManualClock::new(Timestamp::from_micros(T0));
        let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
        Self {
            limiter: limiter.with_clock(clock.clone()),
            clock,
        }
    }

    fn set(&self, offset_us: u64) {
        self.clock.set(Timestamp::from_micros(T0 + offset_us));
    }

    fn decide(&self, op: Op, transactions: &[Transaction<'_>]) -> Result<Decision, LimiterError> {
        block_on(async {
            let limiter = &self.limiter;
            let batch = match (op, transactions) {
                (Op::Spend, [one]) => return limiter.spend(one).await,
                (Op::Check, [one]) => return limiter.check(one).await,
                (Op::Refund, [one]) => return limiter.refund(one).await,
                (Op::Spend, _) => limiter.spend_batch(transactions).await,
                (Op::Check, _) => limiter.check_batch(transactions).await,
                (Op::Refund, _) => limiter.refund_batch(transactions).await,
                (Op::Reset, _) => {
                    limiter.reset(transactions).await?;
                    return limiter.check(&Transaction::new(OFF, "nobody")).await;
                }
            };
            batch.map(|batch| batch.decision().clone())
        })
    }

    /// Returns the stored TAT of a bucket as an offset from `t0`, or from now if the bucket is full.
    fn tat(&self, limit: &str, id: &str) -> u64 {
        let probe = Transaction::new(limit, id).cost(0);
        let decision = self.decide(Op::Check, &[probe]).unwrap();
        self.now() + micros(decision.reset_after().unwrap())
    }

    fn now(&self) -> u64 {
        tollgate::clock::Clock::now(&self.clock).as_micros() - T0
    }

    fn replay(&self, step: &Step, replayed: &mut Replayed) {
        let transactions: Option<Vec<_>> = step.txns.iter().map(Txn::to_transaction).collect();
        let Some(transactions) = transactions else {
            assert!(matches!(&step.expect, Expect::Error { error } if error == "cost_negative"));
            replayed.by_its_type += 1;
            return;
        };
        let between = !step.t.is_multiple_of(1000);
        let denied = matches!(&step.expect, Expect::Decision(figures) if !figures.allowed);
        let later = u64::from(between && !denied);
        self.set(step.t / 1000 + later);
        let answer = self.decide(step.op, &transactions);
        match &step.expect {
            Expect::Error { error } => assert_eq!(kind_of(&answer.unwrap_err()), error),
            Expect::Reset { ok } => assert!(*ok && answer.is_ok()),
            Expect::Decision(figures) => {
                figures.compare(step, &answer.unwrap(), TOLERANCE + u64::from(between));
            }
        }
        self.compare_stored(step, TOLERANCE + later);
        if between {
            replayed.between_microseconds += 1;
        } else {
            replayed.exactly += 1;
        }
    }

    fn compare_stored(&self, step: &Step, tolerance: u64) {
        for txn in &step.txns {
            let (Some(key), Some(limit)) = (&txn.key, &txn.limit) else {
                continue;
            };
            let stored = step.stored_tat_after[key].unwrap_or(0) / 1000;
            let tat = self.tat(limit, key);
            close("stored TAT", tat, stored.max(self.now()), tolerance);
        }
    }
}

impl Txn {
    /// `None` if our types cannot express it.
    fn to_transaction(&self) -> Option<Transaction<'_>> {
        let limit = self.limit.as_deref().unwrap_or(OFF);
        let id = self.key.as_deref().unwrap_or("anyone");
        let mode = match self.kind {
            Kind::CheckAndSpend | Kind::AllowOnly | Kind::ResetOnly => Mode::CheckAndSpend,
            Kind::CheckOnly => Mode::CheckOnly,
            Kind::SpendOnly => Mode::SpendOnly,
        };
        let cost = u32::try_from(self.cost).ok()?;
        Some(Transaction::new(limit, id).cost(cost).mode(mode))
    }
}

impl Figures {
    fn compare(&self, step: &Step, decision: &Decision, tolerance: u64) {
        assert_eq!(decision.allowed(), self.allowed, "allowed");
        if self.remaining == SENTINEL {
            assert!(!decision.limited());
            assert_eq!(self.new_tat, None);
            return;
        }
        assert_eq!(
            decision.remaining().map(u64::from),
            Some(self.remaining),
            "remaining"
        );
        let wait = if self.allowed {
            assert_eq!(decision.retry_after(), Some(Duration::ZERO));
            decision.next_after().unwrap()
        } else {
            decision.retry_after().unwrap()
        };
        let reset = micros(decision.reset_after().unwrap());
        close("retry_in", micros(wait), self.retry_in / 1000, tolerance);
        close("reset_in", reset, self.reset_in / 1000, tolerance);
        let tat = self
            .new_tat
            .expect("only the sentinel has none")
            .max(step.t);
        close("new_tat", step.t / 1000 + reset, tat / 1000, tolerance + 1);
    }
}

#[track_caller]
fn close(what: &str, ours: u64, theirs: u64, tolerance: u64) {
    assert!(
        ours.abs_diff(theirs) <= tolerance,
        "{what}: {ours} us, expected {theirs} us"
    );
}

fn kind_of(error: &LimiterError) -> &'static str {
    match error {
        LimiterError::CostAboveBurst { .. } => "cost_over_burst",
        LimiterError::DuplicateBucket { .. } => "duplicate_bucket",
        _ => "another",
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

fn file() -> File {
    serde_json::from_str(include_str!("../data/gcra.json")).unwrap()
}

#[test]
fn every_step_of_every_suite_is_as_boulder_has_it() {
    let file = file();
    let mut replayed = Replayed::default();
    for suite in &file.suites {
        assert!(
            suite.initial_tat.is_empty(),
            "no suite begins with a bucket"
        );
        let replay = Replay::new(&file);
        for step in &suite.steps {
            println!("{} step {}", suite.id, step.n);
            replay.replay(step, &mut replayed);
        }
    }
    let all = Replayed {
        exactly: 118,
        between_microseconds: 5,
        by_its_type: 1,
    };
    assert_eq!((file.suites.len(), replayed), (12, all));
}
