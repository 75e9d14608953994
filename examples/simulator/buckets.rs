//! A bucket of each limit, whose states can be looked at.

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
        custom::{Algorithm, Answer, Batch, History, Outcome, State},
    },
    clock::{Clock, ManualClock, Timestamp},
    decision::Source,
    limit::LimitsError,
    transaction::Receipt,
};

/// The one client.
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
    /// When work ends, and its permits.
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

    /// Lets it be this instant, and ends the work that is over.
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

    /// Returns what the tiers have granted.
    pub(crate) fn history(&self) -> History {
        let states = self.states.lock();
        let mut histories = states.values().filter_map(|state| match state {
            State::Tiers(history) => Some(history.clone()),
            _ => None,
        });
        histories.next().unwrap_or_default()
    }

    /// Returns whether all buckets are like unused ones.
    pub(crate) fn are_full(&self) -> bool {
        let (now, limits) = (self.clock.now().as_micros(), self.limiter.limits());
        let algorithms = limits.iter().filter_map(|named| named.limit()?.algorithm());
        let keys = limits
            .iter()
            .filter_map(|named| named.bucket_key(CLIENT).ok());
        let states = self.states.lock();
        let is_full = |(key, algorithm): (String, &Algorithm)| {
            let full_at = |state| algorithm.full_at(state).unwrap_or(u64::MAX);
            states.get(&key).is_none_or(|state| full_at(state) <= now)
        };
        keys.zip(algorithms).all(is_full)
    }
}

fn transaction(limit: &'static str, units: u32) -> Transaction<'static> {
    Transaction::new(limit, CLIENT).cost(units)
}

/// The states of buckets by key.
#[derive(Debug, Default)]
struct States(Mutex<HashMap<String, State>>);

impl States {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut states = self.lock();
        let keys = batch.members.iter().map(|member| member.key().to_string());
        let keys: Vec<_> = keys.collect();
        let mut of_batch: Vec<_> = keys.iter().map(|key| states.remove(key)).collect();
        let outcome = Outcome::decide(batch, batch.now.unwrap_or_default(), &mut of_batch);
        let used = keys.into_iter().zip(of_batch);
        states.extend(used.filter_map(|(key, state)| Some((key, state?))));
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
