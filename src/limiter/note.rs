//! What is told of decisions: counts, and events for those who listen.

use std::{slice, sync::LazyLock};

use ahash::RandomState;
use tracing::Level;

use super::resolve::{Found, LimiterError};
use crate::{
    decision::{BatchDecision, Decision, Fate, Source},
    id::{Folded, Id},
    limit::{Limits, NamedLimit},
    metrics::{Durations, Stopwatch},
    transaction::{Operation, Transaction},
};

/// Notes what is decided, and how long that takes. Only what is asked for is told, not what is given back.
pub(super) struct Note<'a> {
    durations: &'a Durations,
    limits: &'a Limits,
    operation: Operation,
    since: Stopwatch,
}

impl<'a> Note<'a> {
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

    /// The decision for what no backend has to decide.
    #[cold]
    pub(super) fn without_backend(
        &self,
        transaction: &Transaction<'_>,
        found: &Found<'_>,
    ) -> Decision {
        let decision = match *found {
            Found::Refused { shadow } => Decision::refused(self.operation, shadow),
            _ => Decision::NOT_LIMITED,
        };
        self.tell(transaction, &decision, decision.allowed());
        decision
    }

    #[inline(always)]
    pub(super) fn decision(
        &self,
        transaction: &Transaction<'_>,
        decided: &Result<Decision, LimiterError>,
    ) {
        self.durations.record(self.operation, self.since);
        match decided {
            Ok(decision) => {
                let passes = decision.allowed() || !transaction.mode.votes();
                self.tell(transaction, decision, passes);
            }
            Err(error) => self.fail(slice::from_ref(transaction), error),
        }
    }

    #[inline]
    pub(super) fn batch(
        &self,
        transactions: &[Transaction<'_>],
        decided: &Result<BatchDecision, LimiterError>,
    ) {
        self.durations.record(self.operation, self.since);
        match decided {
            Ok(batch) => {
                for (transaction, decision) in transactions.iter().zip(batch.members()) {
                    self.tell(transaction, decision, batch.allowed());
                }
            }
            Err(error) => self.fail(transactions, error),
        }
    }

    #[inline]
    fn tell(&self, transaction: &Transaction<'_>, decision: &Decision, passes: bool) {
        let listens = cfg!(feature = "metrics") || tracing::enabled!(Level::DEBUG);
        if self.operation != Operation::Spend || transaction.is_correction() || !listens {
            return;
        }
        let fate = Fate::of(decision, transaction.mode, passes);
        let Some((fate, named)) = fate.zip(self.limits.get(transaction.limit)) else {
            return;
        };
        named.meter().decided(transaction.limit, fate);
        if cfg!(feature = "metrics") && named.overrides().len() > 0 {
            utilization(named, transaction, decision);
        }
        tell(self.limits, transaction, decision, fate);
    }

    #[cold]
    fn fail(&self, transactions: &[Transaction<'_>], error: &LimiterError) {
        if self.operation != Operation::Spend || !matches!(error, LimiterError::Backend(_)) {
            return;
        }
        for transaction in transactions {
            if let Some(named) = self.limits.get(transaction.limit) {
                named.meter().decided(transaction.limit, Fate::Error);
                let (limit, result) = (transaction.limit, Fate::Error.as_str());
                tracing::debug!(limit, result, %error, "not decided");
            }
        }
    }
}

/// What is decided locally may be by a share of the limit, of which what remains says nothing.
fn utilization(named: &NamedLimit, transaction: &Transaction<'_>, decision: &Decision) {
    if decision.source() == Source::Local {
        return;
    }
    let folded = named.name.format().fold(transaction.id);
    let own = folded
        .as_ref()
        .ok()
        .and_then(|id: &Folded<'_>| named.override_of(id));
    let most = own.and_then(|own| own.limit.max_cost());
    if let Some((most, remaining)) = most.zip(decision.remaining()) {
        named.meter().used(transaction.limit, remaining, most);
    }
}

#[inline]
fn tell(limits: &Limits, transaction: &Transaction<'_>, decision: &Decision, fate: Fate) {
    let Transaction { limit, cost, .. } = *transaction;
    let result = fate.as_str();
    if matches!(fate, Fate::Acquired) {
        if tracing::enabled!(Level::TRACE) {
            let remaining = decision.remaining();
            let id = shown(limits, transaction.id);
            tracing::trace!(limit, id = id.as_str(), cost, result, remaining, "decided");
        }
    } else if tracing::enabled!(Level::DEBUG) {
        let remaining = decision.remaining();
        let id = shown(limits, transaction.id);
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

/// An id as events show it. One that is redacted is the same each time within a process, and cannot be found out from it.
pub(super) fn shown(limits: &Limits, id: &str) -> Id {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    match limits.redacts_ids() && id != Id::MISSING {
        true => Id::display(format_args!("redacted-{:016x}", SECRET.hash_one(id))),
        false => id.into(),
    }
}
