//! Records decisions as metrics, and as events if a subscriber listens. Only spends are counted, not refunds.

use std::slice;

use tracing::{Level, level_filters::LevelFilter};

use super::error::LimiterError;
use crate::{
    batch::Member,
    decision::{Answer, Decision, Source},
    limit::Limit,
    transaction::{Operation, ResultLabel},
};

/// Returns whether a subscriber may receive anything. `dispatcher::has_been_set` does not tell: once a task was spawned with its
/// caller's subscriber, it returns true, even if that caller had none.
#[inline]
pub(crate) fn is_listened_to() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Records the decisions on members.
#[inline]
pub(super) fn record(operation: Operation, members: &[Member<'_>], decisions: &[Decision]) {
    if is_recorded(operation) {
        record_all(members, decisions);
    }
}

/// Records the decision on one member. It builds a `Decision` of its own. If it borrowed the caller's, the caller would have to
/// copy that one to return it.
#[inline(never)]
pub(super) fn record_one(
    operation: Operation,
    member: &Member<'_>,
    answer: &Answer,
    source: Source,
    passes: bool,
) {
    let decision = Decision::new(operation, member, answer, source, passes);
    record_all(slice::from_ref(member), slice::from_ref(&decision));
}

/// Records members that were not decided.
#[cold]
pub(super) fn record_failure(operation: Operation, members: &[Member<'_>], error: &LimiterError) {
    if !is_recorded(operation) || !matches!(error, LimiterError::Backend(_)) {
        return;
    }
    for member in members {
        let limit = member.limit.name();
        let label = ResultLabel::Error;
        member.limit.meter().decided(limit, label);
        tracing::debug!(limit, result = label.as_str(), %error, "not decided");
    }
}

/// Returns whether there is anything to record.
#[inline]
pub(super) fn is_recorded(operation: Operation) -> bool {
    let listens = cfg!(feature = "metrics") || tracing::enabled!(Level::DEBUG);
    listens && operation == Operation::Spend
}

#[inline(never)]
fn record_all(members: &[Member<'_>], decisions: &[Decision]) {
    let passes = !decisions.iter().any(Decision::denies);
    for (member, decision) in members.iter().zip(decisions) {
        let label = decision.label(member.mode(), passes);
        let Some(label) = label.filter(|_| !member.role.is_correction) else {
            continue;
        };
        member.limit.meter().decided(member.limit.name(), label);
        if cfg!(feature = "metrics") && member.limit.override_count() > 0 {
            record_utilization(member, decision);
        }
        emit(member, decision, label);
    }
}

/// Logs that a client has lost a permit.
pub(super) fn record_loss(member: &Member<'_>) {
    let id = member.logged_id();
    tracing::debug!(
        limit = member.limit.name(),
        id = &*id.shown(),
        "a lost permit"
    );
}

/// Records how much of its bucket a client with an override has used.
fn record_utilization(member: &Member<'_>, decision: &Decision) {
    // The figures of a cache, a lease or a local decision are not those of the store's bucket.
    if matches!(
        decision.source(),
        Source::Local | Source::Cache | Source::Lease
    ) {
        return;
    }
    let most = member.by.and_then(Limit::max_cost);
    let most = most.filter(|_| member.is_overridden());
    if let Some((most, remaining)) = most.zip(decision.remaining()) {
        let meter = member.limit.meter();
        meter.used(member.limit.name(), remaining, most);
    }
}

#[inline]
fn emit(member: &Member<'_>, decision: &Decision, label: ResultLabel) {
    let limit = member.limit.name();
    let cost = member.ask.cost;
    let result = label.as_str();
    let remaining = decision.remaining();
    if label == ResultLabel::Acquired {
        if tracing::enabled!(Level::TRACE) {
            let id = member.logged_id();
            tracing::trace!(limit, id = &*id.shown(), cost, result, remaining, "decided");
        }
    } else if tracing::enabled!(Level::DEBUG) {
        let id = member.logged_id();
        let is_own = member.is_overridden();
        let values = member.by.filter(|_| is_own || !member.limit.is_block());
        let retry_after = decision.next_after().map(tracing::field::debug);
        tracing::debug!(
            limit,
            id = &*id.shown(),
            cost,
            result,
            remaining,
            retry_after,
            values = values.map(|values| tracing::field::display(format!("{values:#}"))),
            overridden = is_own,
            "decided"
        );
    }
}
