//! The example `custom_wrapper`: a wrapper that is written with the public API alone.

#[path = "../../examples/custom_wrapper/remembering.rs"]
mod remembering;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError},
    clock::{Clock, ManualClock},
    decision::{Outcome, Source},
    quota::Per,
    testing::{MapBackend, conformance},
    transaction::Batch,
};

use self::remembering::Remembering;

conformance!(custom_wrapper, Remembering::new(MapBackend::default()), without: [figures]);

/// Counts the batches that reach a store.
#[derive(Debug, Default)]
struct Counted {
    store: MemoryBackend,
    batches: AtomicUsize,
}

#[async_trait]
impl Backend for Counted {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.store.apply(batch).await
    }
}

/// A limiter with the wrapper, one without it, and their clock.
struct Sides {
    wrapped: Limiter,
    bare: Limiter,
    store: Arc<Counted>,
    clock: Arc<ManualClock>,
}

impl Sides {
    fn new(limit: Limit) -> Self {
        let limits = Limits::builder().limit("requests", limit);
        let limits = limits.limit("others", Limit::per_second(1000)).build();
        let (limits, store) = (limits.unwrap(), Arc::<Counted>::default());
        let clock = Arc::new(ManualClock::default());
        let limiter = Limiter::new(limits.clone(), Remembering::new(Arc::clone(&store)));
        Self {
            wrapped: limiter.with_clock(Arc::clone(&clock)),
            bare: Limiter::new(limits, MemoryBackend::new()).with_clock(Arc::clone(&clock)),
            store,
            clock,
        }
    }

    fn batches(&self) -> usize {
        self.store.batches.load(Ordering::Relaxed)
    }

    /// Spends on both sides, which must agree, and returns who has decided.
    async fn spend(&self) -> (bool, Source) {
        let spend = Transaction::new("requests", "alice");
        let bare = self.bare.spend(&spend).await.unwrap();
        let wrapped = self.wrapped.spend(&spend).await.unwrap();
        let figures = |of: &tollgate::Decision| {
            (
                of.allowed(),
                of.remaining(),
                of.retry_after(),
                of.next_after(),
                of.reset_after(),
            )
        };
        assert_eq!(
            figures(&bare),
            figures(&wrapped),
            "at {:?}",
            self.clock.now()
        );
        (wrapped.allowed(), wrapped.source())
    }
}

#[tokio::test]
async fn denials_are_remembered_until_the_cost_passes() {
    const WAIT: Duration = Duration::from_secs(3);
    for limit in [
        Limit::every(WAIT).burst(2),
        Limit::window(2, WAIT),
        Limit::quota(2, Per::first_use(WAIT)),
    ] {
        let sides = Sides::new(limit);
        assert_eq!(sides.spend().await, (true, Source::Store));
        assert_eq!(sides.spend().await, (true, Source::Store));
        assert_eq!(sides.spend().await, (false, Source::Store));
        for _ in 0..29 {
            sides.clock.advance(WAIT / 30);
            assert_eq!(sides.spend().await, (false, Source::Cache));
        }
        assert_eq!(sides.batches(), 3);
        sides.clock.advance(WAIT / 30);
        assert_eq!(sides.spend().await, (true, Source::Store));
    }
}

#[tokio::test]
async fn refunds_and_other_costs_reach_the_store() {
    let sides = Sides::new(Limit::per_hour(2));
    let one = Transaction::new("requests", "alice");
    for _ in 0..3 {
        sides.spend().await;
    }
    assert_eq!(sides.spend().await, (false, Source::Cache));
    let other = sides.wrapped.check(&one.cost(0)).await.unwrap();
    assert_eq!((other.allowed(), other.source()), (true, Source::Store));
    for limiter in [&sides.wrapped, &sides.bare] {
        limiter.refund(&one).await.unwrap();
    }
    assert_eq!(sides.spend().await, (true, Source::Store));
}

#[tokio::test]
async fn batch_with_a_denied_member_does_not_reach_the_store() {
    let sides = Sides::new(Limit::per_hour(2));
    for _ in 0..3 {
        sides.spend().await;
    }
    let batch = [
        Transaction::new("others", "alice"),
        Transaction::new("requests", "alice"),
    ];
    let before = sides.batches();
    let decision = sides.wrapped.spend_batch(&batch).await.unwrap();
    assert!(!decision.allowed());
    assert_eq!(sides.batches(), before);
}
