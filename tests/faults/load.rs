//! Load on a stack: tasks that spend until they are stopped, and the result of each call.

use std::time::{Duration, Instant};

use tollgate::Limiter;
use tracing::instrument::WithSubscriber;

use crate::{
    eventually::eventually_async,
    redis_support::{Callers, mixed},
    report::{Report, Sum},
    stack::{Answer, Stack, spend},
};

/// The limits, and how many tasks spend from each, one call after the other.
const TASKS: [(&str, usize); 3] = [("local", 5), ("refuse", 2), ("allow", 2)];

/// The store has returned after this number of decisions in a row.
const RETURNED: usize = 5;

/// One call, and its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) limit: &'static str,
    /// The number of the id.
    pub(crate) id: usize,
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
    pub(crate) answer: Answer,
}

/// A stack under load.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) stack: Stack,
    callers: Callers<Call>,
}

impl Load {
    fn start(stack: Stack) -> Self {
        let mut callers = Callers::new();
        for (limit, tasks) in TASKS {
            let limiter = stack.limiter.clone();
            let dispatch = stack.dispatch.clone();
            callers.start(tasks, move |number| {
                let call = call(limiter.clone(), limit, mixed(number, 25));
                call.with_subscriber(dispatch.clone())
            });
        }
        Self { stack, callers }
    }

    /// Waits until this number of further calls was answered.
    pub(crate) async fn more(&self, calls: usize) {
        self.callers.more(calls).await;
    }

    /// Waits until the breaker has opened and this number of calls was answered after that.
    pub(crate) async fn more_without_the_store(&self, calls: usize) {
        eventually_async("the breaker opens", async || self.stack.opened() > 0).await;
        self.more(calls).await;
    }

    /// Waits until the store has decided some calls in a row that began after `fault`.
    async fn returns_after(&self, fault: Instant) {
        let has_returned = |calls: &[Call]| {
            let after = calls
                .iter()
                .filter(|call| call.limit == "allow" && call.begun >= fault);
            let in_a_row = after
                .rev()
                .take_while(|call| call.answer != Answer::Without);
            in_a_row.count() >= RETURNED
        };
        eventually_async("the store decides again", async || {
            self.callers.look(has_returned)
        })
        .await;
    }

    /// Whether a call was decided without the store.
    pub(crate) fn any_without(&self) -> bool {
        let is_without = |call: &Call| call.answer == Answer::Without;
        self.callers.look(|calls| calls.iter().any(is_without))
    }
}

/// Runs load on a stack while `fault` breaks the store and mends it, and returns the instant of the fault. No client is
/// admitted more than `at_most` says, and none is denied wrongly.
pub(crate) async fn scenario(
    stack: Stack,
    at_most: impl Fn(&str, &Sum) -> u32,
    fault: impl AsyncFnOnce(&Load) -> Instant,
) -> Report {
    let load = Load::start(stack);
    load.more(1000).await;
    let begun = fault(&load).await;
    load.returns_after(Instant::now()).await;
    load.more(500).await;
    let report = Report {
        stack: load.stack,
        calls: load.callers.stop().await,
    };
    report.assert_admitted(begun, at_most);
    report.assert_none_denied_wrongly();
    report
}

async fn call(limiter: Limiter, limit: &'static str, id: usize) -> Call {
    let begun = Instant::now();
    let answer = spend(&limiter, limit, &id_of(id)).await;
    Call {
        limit,
        id,
        begun,
        took: begun.elapsed(),
        answer,
    }
}

pub(crate) fn id_of(number: usize) -> String {
    format!("client{number}")
}
