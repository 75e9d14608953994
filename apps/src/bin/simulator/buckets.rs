//! A bucket of each limit, with access to its state.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use tollgate::{
    Decision, Limit, Limiter, Limits, Transaction,
    backend::{
        Backend, BackendError, async_trait,
        custom::{Answer, Batch, Outcome, State},
    },
    clock::{Clock, ManualClock, Timestamp},
    decision::Source,
    limit::LimitsError,
    tiers::TierState,
    transaction::Receipt,
};

/// The only client.
const CLIENT: &str = "page";

/// The names of the limits.
pub(crate) const NAMES: [&str; 5] = ["tiers", "gcra", "window", "quota", "concurrent"];

#[derive(Debug)]
pub(crate) struct Buckets {
    limiter: Limiter,
    clock: ManualClock,
    states: Arc<States>,
    /// How long the work of each request lasts that holds permits.
    work: Duration,
    /// The instants at which work ends, with the receipts of its permits.
    running: VecDeque<(Timestamp, Receipt)>,
}

impl Buckets {
    /// A limit for each of the [`NAMES`].
    pub(crate) fn new(limits: [Limit; 5], work: Duration) -> Result<Self, LimitsError> {
        let named = NAMES.into_iter().zip(limits);
        let builder = named.fold(Limits::builder(), |builder, (name, limit)| {
            builder.limit(name, limit)
        });
        let (clock, states) = (ManualClock::new(Timestamp::default()), Arc::default());
        let limiter = Limiter::new(builder.build()?, Arc::clone(&states));
        Ok(Self {
            limiter: limiter.with_clock(clock.clone()),
            clock,
            states,
            work,
            running: VecDeque::new(),
        })
    }

    /// Moves the clock to this instant, and ends the work that is over by then.
    pub(crate) fn go_to(&mut self, now: Timestamp) {
        while self.running.front().is_some_and(|(end, _)| *end <= now)
            && let Some((end, receipt)) = self.running.pop_front()
        {
            self.clock.set(end);
            let permits = transaction("concurrent", receipt.cost());
            let permits = permits.of_receipt(&receipt);
            // A backend of this process always answers at once.
            let _ = self.limiter.refund(&permits).now_or_never();
        }
        self.clock.set(now);
    }

    /// Requests this many units of a limit. `None` is a denial that no wait ends.
    pub(crate) fn spend(&mut self, limit: &'static str, units: u32) -> Option<Decision> {
        let decision = self.limiter.try_spend(&transaction(limit, units))?.ok()?;
        if limit == "concurrent"
            && let Some(receipt) = decision.receipt()
        {
            let end = self.clock.now().saturating_add(self.work);
            self.running.push_back((end, receipt));
        }
        Some(decision)
    }

    /// Returns the number of units left.
    pub(crate) fn left(&self, limit: &'static str) -> u32 {
        let state = self.limiter.peek(&transaction(limit, 1)).now_or_never();
        state.and_then(|state| state.ok()?.remaining()).unwrap_or(0)
    }

    /// Returns the state of each tier, lowest first.
    pub(crate) fn tiers(&self) -> Vec<TierState> {
        let limits = self.limiter.limits();
        let Some(tiers) = limits.get("tiers") else {
            return Vec::new();
        };
        let key = tiers.bucket_key(CLIENT).unwrap_or_default();
        let buckets = self.states.lock();
        let state = buckets.get(&key).map(|bucket| &bucket.state);
        let limit = tiers.limit();
        limit.map_or_else(Vec::new, |limit| limit.tier_states(state, self.clock.now()))
    }

    /// Returns whether all buckets are full.
    pub(crate) fn are_full(&self) -> bool {
        let now = self.clock.now();
        let buckets = self.states.lock();
        buckets.values().all(|bucket| bucket.full_at <= now)
    }
}

fn transaction(limit: &'static str, units: u32) -> Transaction<'static> {
    Transaction::new(limit, CLIENT).cost(units)
}

/// The states of buckets by key.
#[derive(Debug, Default)]
struct States(Mutex<HashMap<String, Bucket>>);

#[derive(Debug)]
struct Bucket {
    state: State,
    full_at: Timestamp,
}

impl States {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut buckets = self.lock();
        let now = batch.now.unwrap_or_default();
        let keys: Vec<_> = batch.keys().map(|key| key.to_string()).collect();
        let states = keys.iter().map(|key| Some(buckets.get(key)?.state.clone()));
        let (outcome, changes) = batch.decide(now, states);
        for change in changes {
            let key = &keys[change.index];
            let full_at = now.saturating_add(change.full_after.unwrap_or(Duration::MAX));
            match change.state {
                Some(state) => buckets.insert(key.clone(), Bucket { state, full_at }),
                None => buckets.remove(key),
            };
        }
        outcome
    }
}

#[async_trait]
impl Backend for States {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.decide(batch)
    }

    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        let outcome = self.decide(batch);
        Some(outcome.map(|outcome| {
            answers.copy_from_slice(&outcome.answers);
            outcome.source
        }))
    }
}
