//! The environment of a conformance test: one backend, one manual clock, and its own ids.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    backend::Backend,
    clock::{Clock, ManualClock, Timestamp},
    decision::{BatchDecision, Decision},
    limit::{Limit, LimitName, Limits},
    limiter::{LimitHandle, Limiter},
    transaction::{Mode, Transaction},
};

/// T is 1 s, τ is 10 s.
pub(super) const TEN: Limit = Limit::per_second(1).burst(10);
/// T is 142 857 1/7 us.
pub(super) const SEVEN: Limit = Limit::per_second(7);
/// The deepest debt: the time until the bucket is full, in microseconds.
pub(super) const DEEPEST: u128 = 1 << 51;

static WORLDS: AtomicU64 = AtomicU64::new(0);

pub struct World {
    pub clock: ManualClock,
    backend: Arc<dyn Backend>,
    prefix: String,
}

impl World {
    pub fn new(backend: impl Backend) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        Self {
            clock: ManualClock::default(),
            backend: Arc::new(backend),
            prefix: format!("{}-{number}", started.as_nanos()),
        }
    }

    /// Returns an id that no other test uses, because a store may outlive the test.
    pub fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// A limiter with these limits on the world's backend and clock.
    pub fn limiter<N: Into<LimitName>, const LEN: usize>(
        &self,
        limits: [(N, Limit); LEN],
    ) -> Limiter {
        let builder = limits
            .into_iter()
            .fold(Limits::builder(), |limits, (name, limit)| {
                limits.limit(name, limit)
            });
        self.limiter_of(builder.build().unwrap())
    }

    /// A limiter with these limits on the world's backend and clock.
    pub fn limiter_of(&self, limits: Limits) -> Limiter {
        self.limiter_without_clock(limits)
            .with_clock(self.clock.clone())
    }

    /// A limiter that decides by the backend's own clock.
    pub fn limiter_without_clock(&self, limits: Limits) -> Limiter {
        Limiter::new(limits, Arc::clone(&self.backend))
    }

    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }

    /// The bucket of a client under a limit.
    pub fn bucket(&self, limit: Limit) -> TestedBucket {
        let limiter = self.limiter([("l", limit)]);
        TestedBucket {
            limit: limiter.limit("l").unwrap(),
            id: self.id("a"),
        }
    }

    pub fn advance(&self, us: u64) {
        self.clock.advance(Duration::from_micros(us));
    }

    pub fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    pub fn set(&self, us: u64) {
        self.clock.set(Timestamp::from_micros(us));
    }
}

/// One bucket. Each call has a cost, and is decided.
pub struct TestedBucket {
    limit: LimitHandle,
    id: String,
}

impl TestedBucket {
    pub async fn spend(&self, cost: u32) -> Decision {
        self.limit.cost(cost).spend(&self.id).await.unwrap()
    }

    pub async fn check(&self, cost: u32) -> Decision {
        self.limit.cost(cost).check(&self.id).await.unwrap()
    }

    pub async fn refund(&self, cost: u32) -> Decision {
        self.limit.cost(cost).refund(&self.id).await.unwrap()
    }

    pub async fn debit(&self, cost: u32) -> Decision {
        let debit = self.limit.cost(cost).mode(Mode::Debit);
        debit.spend(&self.id).await.unwrap()
    }
}

/// Spends a cost from the bucket of a client.
pub(super) async fn spend(limiter: &Limiter, limit: &str, id: &str, cost: u32) -> Decision {
    let transaction = Transaction::new(limit, id).cost(cost);
    limiter.spend(&transaction).await.unwrap()
}

/// All figures of a decision, with spans in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    pub allowed: bool,
    pub remaining: u32,
    pub next_after: u128,
    pub reset_after: u128,
}

/// Shorthand for tables.
pub const fn figures(
    allowed: bool,
    remaining: u32,
    next_after: u128,
    reset_after: u128,
) -> Figures {
    Figures {
        allowed,
        remaining,
        next_after,
        reset_after,
    }
}

impl From<&Decision> for Figures {
    #[track_caller]
    fn from(decision: &Decision) -> Self {
        let next_after = decision.next_after();
        let retry_after = decision.retry_after();
        assert!(
            retry_after == next_after || (decision.allowed() && retry_after.is_zero()),
            "{decision:?}"
        );
        Self {
            allowed: decision.allowed(),
            remaining: decision.remaining().expect("a limit is configured"),
            next_after: next_after.as_micros(),
            reset_after: decision.reset_after().as_micros(),
        }
    }
}

impl PartialEq<Figures> for Decision {
    fn eq(&self, figures: &Figures) -> bool {
        Figures::from(self) == *figures
    }
}

/// The figures of each member of a batch.
#[track_caller]
pub fn members(batch: &BatchDecision) -> Vec<Figures> {
    batch.members().iter().map(Figures::from).collect()
}
