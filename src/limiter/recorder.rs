//! Records decisions: metrics, and events for subscribers that listen.

use std::borrow::Borrow;

use tracing::{Level, field::DisplayValue, level_filters::LevelFilter};

use super::{limiter_error::LimiterError, prepare::canonical, transactions::Transactions};
use crate::{
    decision::{Decision, Decisions, ResultLabel, Source},
    id::{Id, redacted},
    limit::{Limit, Limits, NamedLimit},
    metrics::{Durations, Stopwatch},
    transaction::{LimitRef, Mode, Operation, Transaction},
};

/// Records decisions and their duration. Only spends are counted, not refunds.
#[derive(Clone, Copy)]
pub(crate) struct DecisionRecorder<'a> {
    durations: &'a Durations,
    limits: &'a Limits,
    operation: Operation,
}

impl<'a> DecisionRecorder<'a> {
    #[inline(always)]
    pub(super) fn new(durations: &'a Durations, limits: &'a Limits, operation: Operation) -> Self {
        Self {
            durations,
            limits,
            operation,
        }
    }

    /// Records the duration of the backend's answer.
    #[inline(always)]
    pub(super) fn applied(self, since: Stopwatch) {
        self.durations.record(self.operation, since);
    }

    /// Records the decisions.
    #[inline(always)]
    pub(crate) fn record<'t>(
        self,
        transactions: &(impl Transactions<'t> + ?Sized),
        decisions: &impl Decisions,
    ) {
        if self.listens() {
            record_all(self.limits, transactions, decisions);
        }
    }

    /// Records an error, and returns it.
    #[inline(always)]
    pub(super) fn failed<'t>(
        self,
        transactions: &(impl Transactions<'t> + ?Sized),
        error: LimiterError,
    ) -> LimiterError {
        if self.listens() && matches!(error, LimiterError::Backend(_)) {
            record_failures(self.limits, transactions, &error);
        }
        error
    }

    /// Returns whether there is anything to record.
    #[inline(always)]
    pub(crate) fn listens(self) -> bool {
        let listens = cfg!(feature = "metrics") || emits_events();
        listens && self.operation == Operation::Spend
    }
}

#[inline(never)]
fn record_all<'t>(
    limits: &Limits,
    transactions: &(impl Transactions<'t> + ?Sized),
    decisions: &impl Decisions,
) {
    let allowed = decisions.allowed();
    for (place, decision) in decisions.members().iter().enumerate() {
        let transaction = transactions.at(place);
        record_one(limits, &transaction.borrow().into(), decision, allowed);
    }
}

#[cold]
fn record_failures<'t>(
    limits: &Limits,
    transactions: &(impl Transactions<'t> + ?Sized),
    error: &LimiterError,
) {
    for place in 0..transactions.len() {
        record_failure(limits, transactions.at(place).borrow().limit, error);
    }
}

/// Returns whether a subscriber may receive anything. `dispatcher::has_been_set` would not do: it stays true after the first
/// task that has kept its caller's subscriber, even if there was none.
#[inline(always)]
pub(crate) fn is_listened_to() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Returns whether a subscriber receives the events of decisions.
#[inline(always)]
pub(super) fn emits_events() -> bool {
    tracing::enabled!(Level::DEBUG)
}

#[inline(always)]
fn record_one(limits: &Limits, transaction: &Recorded<'_>, decision: &Decision, allowed: bool) {
    if transaction.is_correction {
        return;
    }
    let label = ResultLabel::of(decision, transaction.mode, allowed);
    let Some((label, named)) = label.zip(limits.find(transaction.limit)) else {
        return;
    };
    named.meter().decided(transaction.limit.as_str(), label);
    if cfg!(feature = "metrics") && named.overrides().len() > 0 {
        utilization(named, transaction, decision);
    }
    tell(limits, named, transaction, decision, label);
}

fn record_failure(limits: &Limits, limit: LimitRef<'_>, error: &LimiterError) {
    if let Some(named) = limits.find(limit) {
        let (limit, result) = (limit.as_str(), ResultLabel::Error);
        named.meter().decided(limit, result);
        tracing::debug!(limit, result = result.as_str(), %error, "not decided");
    }
}

/// The recorded part of a transaction.
pub(crate) struct Recorded<'t> {
    limit: LimitRef<'t>,
    id: &'t str,
    is_canonical: bool,
    is_correction: bool,
    is_secret: bool,
    cost: u32,
    mode: Mode,
}

impl<'t> From<&Transaction<'t>> for Recorded<'t> {
    #[inline(always)]
    fn from(transaction: &Transaction<'t>) -> Self {
        Self {
            limit: transaction.limit,
            id: transaction.id,
            is_canonical: transaction.is_canonical(),
            is_correction: transaction.is_correction(),
            is_secret: transaction.is_secret(),
            cost: transaction.cost,
            mode: transaction.mode,
        }
    }
}

impl<'a> Recorded<'a> {
    /// Returns the id in the canonical form, under which its bucket is stored; `None` if there is no id.
    fn canonical(&self, named: &NamedLimit, room: &'a mut Option<Id>) -> Option<&'a str> {
        canonical(named, self.id, self.is_canonical, room).ok()
    }
}

/// A local decision can use a share of the limit, and a lease holds a part of it, so their `remaining` says nothing about
/// the limit.
fn utilization(named: &NamedLimit, transaction: &Recorded<'_>, decision: &Decision) {
    if matches!(decision.source(), Source::Local | Source::Lease) {
        return;
    }
    let mut room = None;
    let id = transaction.canonical(named, &mut room);
    let own = id.and_then(|id| named.own(id));
    let most = own.and_then(|own| own.limit.max_cost());
    if let Some((most, remaining)) = most.zip(decision.remaining()) {
        let most = most.saturating_sub(decision.reserved());
        named
            .meter()
            .used(transaction.limit.as_str(), remaining, most);
    }
}

#[inline]
fn tell(
    limits: &Limits,
    named: &NamedLimit,
    transaction: &Recorded<'_>,
    decision: &Decision,
    label: ResultLabel,
) {
    let (limit, cost) = (transaction.limit.as_str(), transaction.cost);
    let result = label.as_str();
    let id = || {
        let mut room = None;
        let id = transaction.canonical(named, &mut room);
        let id = id.unwrap_or(transaction.id);
        match transaction.is_secret {
            true => hidden(id),
            false => logged(limits, id),
        }
    };
    if matches!(label, ResultLabel::Acquired) {
        if tracing::enabled!(Level::TRACE) {
            let remaining = decision.remaining();
            let id = id();
            tracing::trace!(limit, id = id.as_str(), cost, result, remaining, "decided");
        }
    } else if tracing::enabled!(Level::DEBUG) {
        let remaining = decision.remaining();
        let id = id();
        let (values, overridden) = values(named, transaction);
        let retry_after = (decision.next_after() != Decision::NEVER).then(|| decision.next_after());
        let retry_after = retry_after.map(tracing::field::debug);
        tracing::debug!(
            limit,
            id = id.as_str(),
            cost,
            result,
            remaining,
            retry_after,
            values,
            overridden,
            "decided"
        );
    }
}

/// Returns the values of a client's limit for events, and whether they are those of an override.
fn values<'n>(
    named: &'n NamedLimit,
    transaction: &Recorded<'_>,
) -> (Option<DisplayValue<&'n Limit>>, bool) {
    let mut room = None;
    let id = transaction.canonical(named, &mut room);
    let (limit, is_override) = named.shown(id.unwrap_or_default());
    (limit.map(tracing::field::display), is_override)
}

/// Returns an id for events and errors.
pub(super) fn logged(limits: &Limits, id: &str) -> Id {
    match limits.redacts_ids() {
        true => hidden(id),
        false => id.into(),
    }
}

/// Returns the hash of an id. Requests without an id share one that is known.
pub(super) fn hidden(id: &str) -> Id {
    match id {
        Id::MISSING => id.into(),
        id => redacted(id).as_str().into(),
    }
}
