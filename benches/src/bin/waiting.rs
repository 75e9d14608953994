//! Prints how well a thousand callers in line keep to their order and their instants, and how often they call the
//! store.
//!
//! `waiting [url]`: in memory without a URL, otherwise on that Redis server. There, the server's clock decides, so it must be
//! that of this machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::task::JoinSet;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RedisBackend,
    backend::{Backend, BackendError, async_trait},
    clock::{Clock, Timestamp},
    decision::Outcome,
    transaction::Batch,
};
use tollgate_benches::load;

const WAITERS: u32 = 1000;
const PATIENCE: Duration = Duration::from_secs(5);

/// The time since the start of a round, counted since 1970.
#[derive(Clone, Copy, Debug)]
struct Monotonic {
    began: Instant,
    at: Duration,
}

impl Clock for Monotonic {
    fn now(&self) -> Timestamp {
        let now = self.at + self.began.elapsed();
        Timestamp::from_micros(u64::try_from(now.as_micros()).expect("it is before 2112"))
    }
}

/// A backend that counts its decisions.
#[derive(Debug)]
struct Counted(Arc<dyn Backend>, Arc<AtomicU32>);

#[async_trait]
impl Backend for Counted {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.apply(batch).await
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        let decided = self.0.try_apply(batch)?;
        self.1.fetch_add(1, Ordering::Relaxed);
        Some(decided)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let url = std::env::args().nth(1);
    let is_server = url.is_some();
    let backend: Arc<dyn Backend> = match url {
        None => Arc::new(MemoryBackend::new()),
        Some(url) => {
            let redis = RedisBackend::builder(&*url).timeout(PATIENCE).build();
            let redis = redis.expect("the URL is one of Redis");
            redis.connected(PATIENCE).await.expect("Redis answers");
            Arc::new(redis)
        }
    };
    for round in 1..=5 {
        measure(round, &backend, is_server).await;
    }
}

/// A caller's start.
struct Start {
    /// The instant of its turn, and the instant at which it has started, in microseconds.
    turn: u64,
    at: u64,
    /// How many have started before it.
    place: u32,
}

async fn measure(round: u32, backend: &Arc<dyn Backend>, is_server: bool) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Counted(Arc::clone(backend), Arc::clone(&calls));
    let clock = Monotonic {
        began: Instant::now(),
        at: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default(),
    };
    let line = Limit::per_second(1000)
        .burst(1)
        .max_wait(Duration::from_secs(2));
    let limits = Limits::builder().limit("line", line).build();
    let limiter = Limiter::new(limits.expect("it is a limit"), counted);
    let limiter = match is_server {
        true => limiter,
        false => limiter.with_clock(clock),
    };
    let line = limiter.limit("line").expect("it is there");
    let id: Arc<str> = format!("{round}-{}", clock.now().as_micros()).into();
    let order = Arc::new(AtomicU32::new(0));
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (line, id, order) = (line.clone(), Arc::clone(&id), Arc::clone(&order));
        waiters.spawn(async move {
            let decision = line.acquire(&id).await.expect("the store answers");
            let (at, place) = (clock.now(), order.fetch_add(1, Ordering::Relaxed));
            assert!(decision.allowed());
            let decided = decision.decided_at().expect("it is limited").as_micros();
            let delay = u64::try_from(decision.delay().as_micros()).unwrap_or(u64::MAX);
            Start {
                turn: decided + delay,
                at: at.as_micros(),
                place,
            }
        });
    }
    report(waiters.join_all().await, calls.load(Ordering::Relaxed));
}

fn report(mut starts: Vec<Start>, calls: u32) {
    starts.sort_unstable_by_key(|start| start.place);
    // Of two callers that start at the same moment on two threads, either may report it first.
    let overtaking = starts.windows(2).filter_map(|pair| {
        let ahead = pair[0].turn.saturating_sub(pair[1].turn);
        Some(ahead).filter(|ahead| *ahead > 0)
    });
    let overtaking: Vec<_> = overtaking.collect();
    let (overtaken, ahead) = (overtaking.len(), overtaking.iter().max().unwrap_or(&0));
    let early = starts.iter().filter(|start| start.at < start.turn).count();
    let mut late: Vec<_> = starts
        .iter()
        .map(|start| (start.at.saturating_sub(start.turn), start.place))
        .collect();
    late.sort_unstable();
    let [(half, _), (most, _), (worst, place)] = [500, 990, 999].map(|i| late[i]);
    println!(
        "{WAITERS} waiters: {calls} calls, {early} early, {overtaken} out of order by up to {ahead} us; late by {half} us (median), \
         {most} us (99 %), {worst} us (worst, number {place}); load {}",
        load()
    );
}
