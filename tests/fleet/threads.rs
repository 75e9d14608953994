//! Threads that share a lease.

use tokio::{
    runtime::Builder,
    task::{self, JoinSet},
};
use tollgate::{Limit, Limiter, Limits, backend::Lease, decision::Source, limit::LimitName};

use crate::store::Store;

/// The lease is of three units, so that threads often take the last one at the same time.
#[test]
fn threads_never_take_the_same_leased_unit() {
    const BURST: u32 = 300_000;
    let name = LimitName::from("requests").lease(1, 100_000);
    let limits = Limits::builder().limit(name, Limit::per_hour(1).burst(BURST));
    // It answers a little later, so that units are charged ahead.
    let limiter = Limiter::new(limits.build().unwrap(), Lease::new(Store::yields(1), 1));
    let handle = limiter.limit("requests").unwrap();
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let mut callers = JoinSet::new();
        for _ in 0..4 {
            let handle = handle.clone();
            callers.spawn(async move {
                let mut leased = 0;
                for _ in 0..CALLS {
                    // Lets the tasks run that charge ahead.
                    task::yield_now().await;
                    let decision = handle.spend("busy").await.unwrap();
                    leased += u32::from(decision.source() == Source::Lease);
                }
                leased
            });
        }
        let leased: u32 = callers.join_all().await.iter().sum();
        assert!(leased > 0, "nothing was leased");
        limiter.close().await.unwrap();
        let left = handle.peek("busy").await.unwrap().remaining();
        assert_eq!(
            left,
            Some(BURST - 3 - 4 * CALLS),
            "each unit is charged once"
        );
    });
}

/// The calls of each thread.
const CALLS: u32 = 10_000;
