//! Records decisions: metrics, and events for subscribers that listen.

use std::sync::LazyLock;

use ahash::RandomState;
use tracing::Level;

use super::{limiter_error::LimiterError, prepare::canonical};
use crate::{
    decision::{Decision, Decisions, ResultLabel, Source},
    id::Id,
    limit::{Limits, NamedLimit},
    metrics::{Durations, Stopwatch},
    transaction::{Operation, Transaction},
};

/// Records decisions and their duration. Only spends are counted, not refunds.
pub(super) struct DecisionRecorder<'a> {
    durations: &'a Durations,
    limits: &'a Limits,
    operation: Operation,
    since: Stopwatch,
}

impl<'a> DecisionRecorder<'a> {
    #[inline(always)]
    pub(super) fn start(
        durations: &'a Durations,
        limits: &'a Limits,
        operation: Operation,
    ) -> Self {
        Self {
            durations,
            limits,
            operation,
            since: Stopwatch::start(),
        }
    }

    /// Records the duration of the backend's answer.
    #[inline(always)]
    pub(super) fn applied(&self) {
        self.durations.record(self.operation, self.since);
    }

    #[inline(always)]
    pub(super) fn record(
        &self,
        transactions: &[Transaction<'_>],
        decided: &Result<(), LimiterError>,
        decisions: &impl Decisions,
    ) {
        let listens = cfg!(feature = "metrics") || tracing::enabled!(Level::DEBUG);
        if !listens || self.operation != Operation::Spend {
            return;
        }
        match decided {
            Ok(()) => {
                for (transaction, decision) in transactions.iter().zip(decisions.members()) {
                    self.tell(transaction, decision, decisions.allowed());
                }
            }
            Err(error) => self.fail(transactions, error),
        }
    }

    #[inline]
    fn tell(&self, transaction: &Transaction<'_>, decision: &Decision, passes: bool) {
        if transaction.is_correction() {
            return;
        }
        let fate = ResultLabel::of(decision, transaction.mode, passes);
        let Some((fate, named)) = fate.zip(self.limits.find(transaction.limit)) else {
            return;
        };
        named.meter().decided(transaction.limit.as_str(), fate);
        if cfg!(feature = "metrics") && named.overrides().len() > 0 {
            utilization(named, transaction, decision);
        }
        tell(self.limits, named, transaction, decision, fate);
    }

    #[cold]
    fn fail(&self, transactions: &[Transaction<'_>], error: &LimiterError) {
        if !matches!(error, LimiterError::Backend(_)) {
            return;
        }
        for transaction in transactions {
            if let Some(named) = self.limits.find(transaction.limit) {
                named
                    .meter()
                    .decided(transaction.limit.as_str(), ResultLabel::Error);
                let (limit, result) = (transaction.limit.as_str(), ResultLabel::Error.as_str());
                tracing::debug!(limit, result, %error, "not decided");
            }
        }
    }
}

/// A local decision can use a share of the limit, and a lease holds a part of it, so their `remaining` says nothing about
/// the limit.
fn utilization(named: &NamedLimit, transaction: &Transaction<'_>, decision: &Decision) {
    if matches!(decision.source(), Source::Local | Source::Lease) {
        return;
    }
    let mut room = None;
    let id = canonical(named, transaction, &mut room);
    let own = id.ok().and_then(|id| named.own(id));
    let most = own.and_then(|own| own.limit.max_cost());
    if let Some((most, remaining)) = most.zip(decision.remaining()) {
        named
            .meter()
            .used(transaction.limit.as_str(), remaining, most);
    }
}

#[inline]
fn tell(
    limits: &Limits,
    named: &NamedLimit,
    transaction: &Transaction<'_>,
    decision: &Decision,
    fate: ResultLabel,
) {
    let (limit, cost) = (transaction.limit.as_str(), transaction.cost);
    let result = fate.as_str();
    let id = || {
        let mut room = None;
        let id = canonical(named, transaction, &mut room);
        shown(limits, id.unwrap_or(transaction.id))
    };
    if matches!(fate, ResultLabel::Acquired) {
        if tracing::enabled!(Level::TRACE) {
            let remaining = decision.remaining();
            let id = id();
            tracing::trace!(limit, id = id.as_str(), cost, result, remaining, "decided");
        }
    } else if tracing::enabled!(Level::DEBUG) {
        let remaining = decision.remaining();
        let id = id();
        let retry_after = (decision.next_after() != Decision::NEVER).then(|| decision.next_after());
        let retry_after = retry_after.map(tracing::field::debug);
        tracing::debug!(
            limit,
            id = id.as_str(),
            cost,
            result,
            remaining,
            retry_after,
            "decided"
        );
    }
}

/// Returns an id for events. A redacted id is stable within a process, and does not reveal the original.
pub(super) fn shown(limits: &Limits, id: &str) -> Id {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    match limits.redacts_ids() && id != Id::MISSING {
        true => Id::display(format_args!("redacted-{:016x}", SECRET.hash_one(id))),
        false => id.into(),
    }
}
