use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tollgate::{
    Decision,
    backend::{Backend, BackendError, async_trait},
    clock::{Clock, SystemClock, Timestamp},
    decision::{Answer, Outcome, Source},
    transaction::{Algorithm, Batch, Member, Operation},
};

/// The longest time for which a denial is remembered. A client is denied wrongly for no longer than this if another
/// process refunds something to it, or if a refund overtakes a denial.
const LIFETIME: Duration = Duration::from_secs(5);

/// The most denials that are remembered.
const CAPACITY: usize = 10_000;

/// Remembers the denials of another backend.
#[derive(Debug)]
pub(crate) struct Remembering<B> {
    inner: B,
    clock: SystemClock,
    denials: Mutex<HashMap<String, Denial>>,
}

/// A denial, and the question that led to it.
#[derive(Debug)]
struct Denial {
    algorithm: Algorithm,
    cost: u32,
    min_cost: u32,
    joins_line: bool,
    /// Whether the time was the client's, and not ours.
    is_clients: bool,
    /// When the store was asked, and until when the client is certainly denied, by the same clock.
    asked: Timestamp,
    until: Timestamp,
    answer: Answer,
    /// When the store has denied, by its own clock.
    denied: Timestamp,
}

impl Denial {
    /// Returns whether it also denies this member at `now`.
    fn denies(&self, member: &Member<'_>, is_clients: bool, now: Timestamp) -> bool {
        self.algorithm == *member.algorithm
            && (self.cost, self.min_cost) == (member.cost, member.min_cost)
            && self.joins_line == member.joins_line()
            && self.is_clients == is_clients
            && (self.asked..self.until).contains(&now)
    }
}

impl<B: Backend> Remembering<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self {
            inner,
            clock: SystemClock::new(),
            denials: Mutex::default(),
        }
    }

    fn now(&self, batch: &Batch<'_>) -> Timestamp {
        batch.now.unwrap_or_else(|| self.clock.now())
    }

    fn denials(&self) -> MutexGuard<'_, HashMap<String, Denial>> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the outcome of a batch if one of its members is certainly denied. The other members are not looked at.
    fn remembered(&self, batch: &Batch<'_>) -> Option<Outcome> {
        if !matches!(batch.operation, Operation::Check | Operation::Spend) {
            return None;
        }
        let (now, denials) = (self.now(batch), self.denials());
        let votes = |(_, member): &(usize, &Member<'_>)| member.mode.votes();
        let mut members = batch.members.iter().enumerate().filter(votes);
        let (place, member, denial) = members.find_map(|(place, member)| {
            let denial = denials.get(&member.key.to_string())?;
            let denies = denial.denies(member, batch.now.is_some(), now);
            denies.then_some((place, member, denial))
        })?;
        let age = now.saturating_duration_since(denial.asked);
        let mut answers = vec![Answer::UNKNOWN; batch.members.len()];
        answers[place] = denial.answer.later(member.algorithm, age);
        Some(Outcome::new(denial.denied.saturating_add(age), answers).by(Source::Cache))
    }

    /// Forgets the denials of the buckets that a batch gives something back to.
    fn forget(&self, batch: &Batch<'_>) {
        if matches!(batch.operation, Operation::Refund | Operation::Reset) {
            let mut denials = self.denials();
            for member in batch.members {
                denials.remove(&member.key.to_string());
            }
        }
    }

    fn learn(&self, batch: &Batch<'_>, asked: Timestamp, decided: &Result<Outcome, BackendError>) {
        self.forget(batch);
        let (Operation::Check | Operation::Spend, Ok(outcome)) = (batch.operation, decided) else {
            return;
        };
        let members = batch.members.iter().zip(outcome.answers());
        for (place, (member, answer)) in members.enumerate() {
            let key = member.key.to_string();
            if answer.passed() {
                // The charge has changed the bucket.
                self.denials().remove(&key);
            } else if member.mode.votes()
                && let Some(decision) = outcome.decision_on(batch, place)
                // A permit of a concurrency limit can come back at any time.
                && decision.next_after() != Decision::NEVER
            {
                let denial = Denial {
                    algorithm: member.algorithm.clone(),
                    cost: member.cost,
                    min_cost: member.min_cost,
                    joins_line: member.joins_line(),
                    is_clients: batch.now.is_some(),
                    asked,
                    until: asked.saturating_add(decision.next_after().min(LIFETIME)),
                    answer: *answer,
                    denied: outcome.now,
                };
                let mut denials = self.denials();
                if denials.len() >= CAPACITY {
                    denials.clear();
                }
                denials.insert(key, denial);
            }
        }
    }
}

#[async_trait]
impl<B: Backend> Backend for Remembering<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if let Some(outcome) = self.remembered(batch) {
            return Ok(outcome);
        }
        // Also before, because the caller may leave while the store gives something back.
        self.forget(batch);
        let asked = self.now(batch);
        let decided = self.inner.apply(batch).await;
        self.learn(batch, asked, &decided);
        decided
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        if let Some(outcome) = self.remembered(batch) {
            return Some(Ok(outcome));
        }
        let asked = self.now(batch);
        let decided = self.inner.try_apply(batch)?;
        self.learn(batch, asked, &decided);
        Some(decided)
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(&self.inner)
    }
}
