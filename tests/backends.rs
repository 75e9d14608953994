//! The conformance suite on each backend, and the backends against each other.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod conformance;

use std::{sync::Arc, time::Duration};

use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{Clock, ManualClock, Timestamp},
    decision::BatchDecision,
    limiter::LimiterError,
    transaction::Mode,
};

use self::conformance::{conformance, map_backend::MapBackend};

conformance!(memory, MemoryBackend::new());
conformance!(memory_of_one_shard, MemoryBackend::with_max_buckets(4000));
conformance!(map, MapBackend::default());

/// Small random numbers, the same in each run.
struct Random(u64);

impl Random {
    /// A number below `n`, by SplitMix64.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn cost(&mut self, below: u64) -> u32 {
        u32::try_from(self.below(below)).unwrap()
    }
}

/// Memory and map with the same limits, the one and the other set of them.
struct Pair {
    clock: ManualClock,
    map: Arc<MapBackend>,
    limiters: [[Limiter; 2]; 2],
    latest: Timestamp,
    steps_back: u32,
}

const NAMES: [&str; 4] = ["a", "b", "c", "off"];
const IDS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];

impl Pair {
    fn new() -> Self {
        let clock = ManualClock::default();
        let (memory, map) = (
            Arc::new(MemoryBackend::new()),
            Arc::new(MapBackend::default()),
        );
        let limiters = [generous(), strict()].map(|limits| {
            [
                Limiter::new(limits.clone(), Arc::clone(&memory)).with_clock(clock.clone()),
                Limiter::new(limits, Arc::clone(&map)).with_clock(clock.clone()),
            ]
        });
        Self {
            latest: clock.now(),
            clock,
            map,
            limiters,
            steps_back: 0,
        }
    }

    /// Mostly forwards, and back as far as no backend may have forgotten a full bucket.
    fn step(&mut self, random: &mut Random) {
        let now = self.clock.now();
        if random.below(8) == 0 {
            let earliest = self.map.latest_full(self.latest).as_micros();
            let reach = now.as_micros().saturating_sub(earliest);
            let back = random.below(reach.min(500_000) + 1);
            self.clock
                .set(Timestamp::from_micros(now.as_micros() - back));
            self.steps_back += u32::from(back > 0);
        } else {
            let longest = [10, 1000, 20_000, 200_000][usize::try_from(random.below(4)).unwrap()];
            self.clock
                .advance(Duration::from_micros(random.below(longest)));
        }
        self.latest = self.latest.max(self.clock.now());
    }

    async fn compare(&self, which: usize, operation: u64, batch: &[Transaction<'_>]) -> Seen {
        let [memory, map] = &self.limiters[which];
        let memory = seen(decide(memory, operation, batch).await);
        let map = seen(decide(map, operation, batch).await);
        assert_eq!(
            memory,
            map,
            "operation {operation} at {:?}: {batch:?}",
            self.clock.now()
        );
        memory
    }
}

fn generous() -> Limits {
    Limits::builder()
        .limit("a", Limit::per_second(7).burst(20))
        .limit(
            "b",
            Limit::new(10, 3, Duration::from_micros(1_000_001)).unwrap(),
        )
        .limit("c", Limit::per_minute(1).burst(50))
        .name("off")
        .build()
        .unwrap()
}

/// Other counts, so that fractions are read anew; one limit is off.
fn strict() -> Limits {
    Limits::builder()
        .limit("a", Limit::per_second(3).burst(5))
        .limit(
            "b",
            Limit::new(6, 1_000_003, Duration::from_secs(86_400)).unwrap(),
        )
        .name("c")
        .name("off")
        .build()
        .unwrap()
}

async fn decide(
    limiter: &Limiter,
    operation: u64,
    batch: &[Transaction<'_>],
) -> Result<BatchDecision, LimiterError> {
    match operation {
        0..12 => limiter.spend_batch(batch).await,
        12..16 => limiter.check_batch(batch).await,
        16..19 => limiter.refund_batch(batch).await,
        _ => {
            limiter.reset(&batch[..1]).await?;
            limiter.check_batch(batch).await
        }
    }
}

/// All that a caller can see, errors by their text. The raw state is not part of it: a backend may
/// forget a full bucket.
type Seen = Result<(bool, Option<usize>, Vec<SeenMember>), String>;

type SeenMember = (bool, Option<u32>, [Option<Duration>; 4]);

fn seen(answer: Result<BatchDecision, LimiterError>) -> Seen {
    let batch = answer.map_err(|error| error.to_string())?;
    let member = |decision: &Decision| {
        let spans = [
            Some(decision.retry_after()),
            Some(decision.next_after()),
            Some(decision.reset_after()),
            decision.next_token_after(),
        ];
        (decision.allowed(), decision.remaining(), spans)
    };
    let members = batch.members().iter().map(member).collect();
    Ok((batch.allowed(), batch.strictest(), members))
}

fn batch(random: &mut Random) -> Vec<Transaction<'static>> {
    let mut pick =
        |of: &[&'static str]| of[usize::try_from(random.below(of.len() as u64)).unwrap()];
    let buckets: Vec<_> = (0..6).map(|_| (pick(&NAMES), pick(&IDS))).collect();
    let len = usize::try_from(1 + random.below(6)).unwrap();
    let mut batch = Vec::new();
    for (name, id) in &buckets[..len] {
        let mode = match random.below(8) {
            0..4 => Mode::CheckAndSpend,
            4 => Mode::CheckOnly,
            5 | 6 => Mode::SpendOnly,
            _ => Mode::Debit,
        };
        let cost = match mode {
            Mode::Debit if random.below(2000) == 0 => u32::MAX,
            _ => random.cost(7),
        };
        batch.push(Transaction::new(name, id).cost(cost).mode(mode));
    }
    batch
}

#[tokio::test]
async fn memory_and_map_agree_on_random_histories() {
    let (mut random, mut pair) = (Random(7), Pair::new());
    let (mut allowed, mut denied, mut errors) = (0, 0, 0);
    for i in 0..100_000 {
        if i % 20_000 == 0 {
            println!("{i}: {allowed} allowed, {denied} denied, {errors} errors");
        }
        pair.step(&mut random);
        let (which, operation) = (usize::from(random.below(4) == 0), random.below(20));
        match pair.compare(which, operation, &batch(&mut random)).await {
            Ok((true, ..)) => allowed += 1,
            Ok(_) => denied += 1,
            Err(_) => errors += 1,
        }
    }
    let seen = (allowed, denied, errors, pair.steps_back);
    assert!(
        allowed > 20_000 && denied > 20_000 && errors > 1000 && pair.steps_back > 1000,
        "{seen:?}"
    );
}
