//! Limits that come with the transaction decide as those with a name, wherever their buckets are.

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, Transaction, backend::Backend, clock::ManualClock, quota::Per,
    testing::random::Random,
};

use crate::{CLUSTER, SERVER, connect};

const NAMES: [&str; 4] = ["rate", "window", "quota", "permits"];

fn plans() -> [Limit; 4] {
    [
        Limit::per_minute(7).burst(5),
        Limit::window(6, Duration::from_secs(10)),
        Limit::quota(9, Per::Hour),
        Limit::concurrent(3),
    ]
}

/// A limiter with these limits under the names.
fn limiter(limits: [Limit; 4], backend: impl Backend, clock: &ManualClock) -> Limiter {
    let named = NAMES.into_iter().zip(limits);
    let limits = named.fold(Limits::builder(), |limits, (name, limit)| {
        limits.limit(name, limit)
    });
    Limiter::new(limits.build().unwrap(), backend).with_clock(clock.clone())
}

/// Spends alone and in batches, at random instants, by limiters of both kinds.
async fn decides_equally(named: impl Backend, with_values: impl Backend) {
    let (clock, plans) = (ManualClock::default(), plans());
    let named = limiter(plans.clone(), named, &clock);
    let others = [(); 4].map(|()| Limit::per_hour(1));
    let with_values = limiter(others, with_values, &clock);
    let (mut random, mut denied) = (Random(7), 0);
    for step in 0..400 {
        clock.advance(Duration::from_micros(random.below(4_000_000)));
        let (mut plain, mut valued) = (Vec::new(), Vec::new());
        let first = random.below(4);
        for next in 0..=random.below(2) {
            let plan = usize::try_from((first + next) % 4).unwrap();
            let client = random.below(3);
            let cost = 1 + u32::try_from(random.below(3)).unwrap();
            // No other test has buckets with these ids.
            let id = |kind| format!("limits-{kind}-{client}");
            plain.push((NAMES[plan], id("named"), cost));
            valued.push((plan, id("values"), cost));
        }
        let plain = plain
            .iter()
            .map(|(name, id, cost)| Transaction::new(name, id).cost(*cost));
        let valued = valued.iter().map(|(plan, id, cost)| {
            let transaction = Transaction::new(NAMES[*plan], id).cost(*cost);
            transaction.limit_values(&plans[*plan])
        });
        let plain = named.spend_batch(&plain.collect::<Vec<_>>()).await.unwrap();
        let valued = with_values.spend_batch(&valued.collect::<Vec<_>>()).await;
        let valued = valued.unwrap();
        assert_eq!(plain.allowed(), valued.allowed(), "step {step}");
        denied += u32::from(!plain.allowed());
        for (one, other) in plain.members().iter().zip(valued.members()) {
            let figures = [one, other].map(|decision| {
                let times = (decision.next_after(), decision.reset_after());
                (decision.allowed(), decision.remaining(), times)
            });
            assert_eq!(figures[0], figures[1], "step {step}");
        }
    }
    assert!((50..350).contains(&denied), "{denied}");
}

#[tokio::test]
async fn values_decide_as_named_limits_on_a_server() {
    decides_equally(connect(SERVER.url()).await, connect(SERVER.url()).await).await;
}

#[tokio::test]
async fn values_decide_as_named_limits_on_a_cluster() {
    decides_equally(connect(CLUSTER.url()).await, connect(CLUSTER.url()).await).await;
}
