//! Records decisions: metrics, and events for subscribers that listen. Only spends are counted, not refunds.

use std::slice;

use tracing::{Level, level_filters::LevelFilter};

use super::{Transaction, charged::Client, decide::Call, error::LimiterError, lookup::canonical};
use crate::{
    decision::{Answer, Decision, ResultLabel, Source},
    id::{Id, MISSING},
    limit::{Limit, NamedLimit},
    metrics::Stopwatch,
    transaction::{Member, Operation},
};

/// Returns whether a subscriber may receive anything. `dispatcher::has_been_set` would not do: it stays true after the first
/// task that has kept its caller's subscriber, even if there was none.
#[inline]
pub(crate) fn is_listened_to() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

impl Call<'_> {
    /// Records the duration of the backend's answer.
    #[inline]
    pub(super) fn record_duration(&self, since: Stopwatch) {
        self.limiter.shared.durations.record(self.operation, since);
    }

    /// Records the decision on one transaction. It makes a decision of its own, because one that is borrowed is not made where it
    /// is returned.
    #[inline(never)]
    pub(super) fn record_one(
        &self,
        transaction: &Transaction<'_>,
        member: &Member<'_>,
        answer: &Answer,
        source: Source,
        passes: bool,
    ) {
        let decision = Decision::new(self.operation, member, answer, source, passes);
        self.record_all(slice::from_ref(transaction), slice::from_ref(&decision));
    }

    /// Records the decisions on transactions.
    #[inline]
    pub(super) fn record(&self, transactions: &[Transaction<'_>], decisions: &[Decision]) {
        if self.is_recorded() {
            self.record_all(transactions, decisions);
        }
    }

    /// Records transactions that were not decided.
    #[cold]
    pub(super) fn record_failure(&self, transactions: &[Transaction<'_>], error: &LimiterError) {
        if !self.is_recorded() || !matches!(error, LimiterError::Backend(_)) {
            return;
        }
        for transaction in transactions {
            if let Some(named) = transaction.named(self.limits) {
                let (limit, label) = (transaction.limit, ResultLabel::Error);
                named.meter().decided(limit, label);
                tracing::debug!(limit, result = label.as_str(), %error, "not decided");
            }
        }
    }

    /// Returns whether there is anything to record.
    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        let listens = cfg!(feature = "metrics") || tracing::enabled!(Level::DEBUG);
        listens && self.operation == Operation::Spend
    }

    #[inline(never)]
    fn record_all(&self, transactions: &[Transaction<'_>], decisions: &[Decision]) {
        let passes = !decisions.iter().any(Decision::denies);
        for (transaction, decision) in transactions.iter().zip(decisions) {
            let label = ResultLabel::of(decision, transaction.mode, passes);
            let label = label.filter(|_| !transaction.is_correction);
            let Some((label, named)) = label.zip(transaction.named(self.limits)) else {
                continue;
            };
            named.meter().decided(transaction.limit, label);
            if cfg!(feature = "metrics") && named.override_count() > 0 {
                record_utilization(named, transaction, decision);
            }
            emit(named, transaction, decision, label);
        }
    }
}

impl Client {
    /// Logs that the client has lost a permit.
    pub(super) fn log_loss(&self) {
        let transaction = self.transaction();
        let limits = self.limiter.in_force();
        if let Some(named) = transaction.named(&limits) {
            let id = shown_id(named, &transaction);
            tracing::debug!(
                limit = transaction.limit,
                id = &*id.shown(),
                "a lost permit"
            );
        }
    }
}

/// Records how much of its bucket a client with an override has used.
fn record_utilization(named: &NamedLimit, transaction: &Transaction<'_>, decision: &Decision) {
    // A denial by a cache, and a decision without the store, are about another bucket.
    if matches!(
        decision.source(),
        Source::Local | Source::Cache | Source::Lease
    ) {
        return;
    }
    let limit = own_limit(named, transaction).filter(|(_, is_own)| *is_own);
    let most = limit.and_then(|(limit, _)| limit.max_cost());
    if let Some((most, remaining)) = most.zip(decision.remaining()) {
        named.meter().used(transaction.limit, remaining, most);
    }
}

#[inline]
fn emit(
    named: &NamedLimit,
    transaction: &Transaction<'_>,
    decision: &Decision,
    label: ResultLabel,
) {
    let (limit, cost) = (transaction.limit, transaction.cost);
    let (result, remaining) = (label.as_str(), decision.remaining());
    if label == ResultLabel::Acquired {
        if tracing::enabled!(Level::TRACE) {
            let id = shown_id(named, transaction);
            tracing::trace!(limit, id = &*id.shown(), cost, result, remaining, "decided");
        }
    } else if tracing::enabled!(Level::DEBUG) {
        let id = shown_id(named, transaction);
        let limit_in_force = own_limit(named, transaction);
        let retry_after = decision.next_after().map(tracing::field::debug);
        tracing::debug!(
            limit,
            id = &*id.shown(),
            cost,
            result,
            remaining,
            retry_after,
            values = limit_in_force.map(|(limit, _)| tracing::field::display(limit)),
            overridden = limit_in_force.is_some_and(|(_, is_own)| is_own),
            "decided"
        );
    }
}

/// Returns the limit of a client for people, and whether it is an override.
fn own_limit<'a>(
    named: &'a NamedLimit,
    transaction: &Transaction<'a>,
) -> Option<(&'a Limit, bool)> {
    let mut folded = None;
    let own = named.own(canonical(named, transaction, &mut folded).ok()?);
    let default = named.limit().filter(|_| !named.is_block());
    let limit = own.or(transaction.values).or(default)?;
    Some((limit, own.is_some()))
}

fn shown_id(named: &NamedLimit, transaction: &Transaction<'_>) -> Id {
    let is_hidden = transaction.id.is_some() && (transaction.is_secret || named.redacts_ids());
    let mut folded = None;
    let id = canonical(named, transaction, &mut folded).unwrap_or(MISSING);
    Id::from(id).secret_if(is_hidden)
}
