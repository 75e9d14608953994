//! The conformance suite fails for backends that are wrong.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule, Transaction,
    backend::{Backend, BackendError, async_trait},
    clock::{Clock, SystemClock, Timestamp},
    decision::{Outcome, Stored},
    key::Everyone,
    testing::{
        block_on,
        cases::{batch, single, world::World},
    },
    transaction::{Batch, Operation},
};
use tower::{Layer, ServiceExt};

use crate::support::Hello;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    /// Others decide between what is read and what is written.
    Torn,
    /// Only the first bucket of a batch is stored.
    FirstOnly,
    /// Its own clock decides, whatever the batch says.
    OwnClock,
    /// A check is charged.
    ChargesChecks,
    None,
}

#[derive(Debug)]
struct Wrong {
    mistake: Mistake,
    buckets: Mutex<HashMap<String, Stored>>,
    clock: SystemClock,
}

impl Wrong {
    fn new(mistake: Mistake) -> Self {
        Self {
            mistake,
            buckets: Mutex::default(),
            clock: SystemClock::new(),
        }
    }
}

#[async_trait]
impl Backend for Wrong {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut batch = *batch;
        if self.mistake == Mistake::ChargesChecks && batch.operation == Operation::Check {
            batch.operation = Operation::Spend;
        }
        let given = batch.now.filter(|_| self.mistake != Mistake::OwnClock);
        let now = given.unwrap_or_else(|| self.clock.now());
        let keys = batch.members.iter().map(|member| member.key.to_string());
        let keys: Vec<_> = keys.collect();
        let mut buckets = Some(self.buckets.lock().unwrap());
        let load = |key| buckets.as_ref().unwrap().get(key).cloned();
        let stored = keys.iter().map(|key| load(key).unwrap_or_default());
        let mut stored: Vec<_> = stored.collect();
        if self.mistake == Mistake::Torn {
            drop(buckets.take());
            std::thread::yield_now();
        }
        let outcome = Outcome::decide(&batch, now, &mut stored)?;
        let mut buckets = buckets.unwrap_or_else(|| self.buckets.lock().unwrap());
        let written = match self.mistake {
            Mistake::FirstOnly => 1,
            _ => keys.len(),
        };
        buckets.extend(keys.into_iter().zip(stored).take(written));
        Ok(outcome)
    }
}

/// Whether a case passes.
fn passes<F: Future<Output = ()>>(mistake: Mistake, case: fn(World) -> F) -> bool {
    let test = || block_on(async { case(World::new(Wrong::new(mistake))).await });
    catch_unwind(AssertUnwindSafe(test)).is_ok()
}

#[test]
fn each_mistake_fails_its_case_and_only_with_the_mistake() {
    let first = batch::batch_refunds_and_resets_each_member;
    assert!(passes(Mistake::None, first) && !passes(Mistake::FirstOnly, first));
    let clock = single::figures_follow_the_walkthrough;
    assert!(passes(Mistake::None, clock) && !passes(Mistake::OwnClock, clock));
    let check = single::check_answers_what_spend_would_and_writes_nothing;
    assert!(passes(Mistake::None, check) && !passes(Mistake::ChargesChecks, check));
}

#[test]
fn two_steps_instead_of_one_are_seen_sooner_or_later() {
    let case = single::simultaneous_spends_admit_the_limit;
    assert!(passes(Mistake::None, case));
    while passes(Mistake::Torn, case) {}
}

/// A backend that denies in the terms of another algorithm.
#[derive(Debug)]
struct Misplaced;

#[async_trait]
impl Backend for Misplaced {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let window = Limit::window(1, Duration::from_secs(60));
        let mut member = batch.members[0];
        member.algorithm = window.algorithm().unwrap();
        let members = [member];
        let batch = Batch::new(batch.operation, &members);
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        let mut stored = [Stored::default()];
        Outcome::decide(&batch, now, &mut stored)?;
        Ok(Outcome::decide(&batch, now, &mut stored)?)
    }
}

#[test]
fn answer_of_another_algorithm_is_an_error_and_admits_nobody() {
    let limits = Limits::builder().limit("requests", Limit::per_second(1));
    let limiter = Limiter::new(limits.build().unwrap(), Misplaced);
    let transaction = Transaction::new("requests", "a");
    let one = block_on(limiter.spend(&transaction)).unwrap_err();
    let batch = block_on(limiter.spend_batch(&[transaction])).unwrap_err();
    for error in [one, batch] {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert!(source.unwrap().contains("another algorithm"), "{error}");
    }
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", Everyone));
    let request = http::Request::new(http_body_util::Full::<bytes::Bytes>::default());
    let response = block_on(layer.layer(Hello).oneshot(request)).unwrap();
    assert_eq!(response.status(), 503);
}
