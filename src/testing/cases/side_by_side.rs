//! Random histories of limiters on several backends that run side by side, by one clock.

use std::{sync::Arc, time::Duration};

use super::random::Random;
use crate::{
    backend::Backend,
    clock::{Clock, ManualClock, Timestamp},
    decision::{BatchDecision, Decision},
    limit::Limits,
    limiter::{Limiter, LimiterError},
    testing::map_backend::MapBackend,
    transaction::{Algorithm, Receipt, Transaction},
};

/// What happens in a history.
pub(super) struct Plot {
    /// Two sets of limits, between which a history changes.
    pub(super) limits: [Limits; 2],
    /// One in this many steps is under the second set.
    pub(super) second_in: u64,
    pub(super) pace: ClockSteps,
    /// The next step, or `None` to refund one of the last receipts.
    pub(super) step: fn(&mut Random) -> Option<Step>,
    pub(super) batch: for<'a> fn(&mut Random, &'a [String]) -> Vec<Transaction<'a>>,
}

/// The distance that the clock moves in one step, in microseconds.
pub(super) struct ClockSteps {
    /// The largest steps forward. Each applies to a quarter of them.
    pub(super) ahead: [u64; 4],
    pub(super) back: u64,
}

/// One step of a history.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Spend,
    Check,
    Refund,
    /// Resets the first bucket, and looks at all.
    Reset,
}

/// How often something has happened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) allowed: u32,
    pub(super) denied: u32,
    pub(super) errors: u32,
    pub(super) waited: u32,
    /// Receipts that gave something back, and that did not.
    pub(super) given_back: u32,
    pub(super) lost: u32,
    pub(super) steps_back: u32,
}

/// Runs this many random operations on new backends. Each backend must give the same answers as the map, to the
/// microsecond.
pub(super) async fn live_through(
    plot: Plot,
    operations: u32,
    random: &mut Random,
    backends: &[Arc<dyn Backend>],
    ids: &[String],
) -> Counts {
    let mut side = SideBySide::new(plot, backends);
    for _ in 0..operations {
        side.move_clock(random);
        let which = usize::from(random.below(side.plot.second_in) == 0);
        match (side.plot.step)(random) {
            None => side.refund_receipt(which, random).await,
            Some(step) => {
                let batch = (side.plot.batch)(random, ids);
                side.run(which, step, &batch).await;
            }
        }
    }
    side.counts
}

/// A map as the reference, and the backends that are compared with it.
struct SideBySide {
    plot: Plot,
    clock: ManualClock,
    map: Arc<MapBackend>,
    /// For each set of limits, the limiter on the map and those on the other backends.
    limiters: [Vec<Limiter>; 2],
    latest: Timestamp,
    held: Vec<HeldReceipts>,
    counts: Counts,
}

/// Receipts for the same charge, from the map and from the other backends.
struct HeldReceipts {
    limit: String,
    id: String,
    receipts: Vec<Receipt>,
}

impl SideBySide {
    fn new(plot: Plot, backends: &[Arc<dyn Backend>]) -> Self {
        let (clock, map) = (ManualClock::default(), Arc::new(MapBackend::default()));
        let reference: Arc<dyn Backend> = Arc::clone(&map) as _;
        let all = || [&reference].into_iter().chain(backends);
        let limiters = plot.limits.clone().map(|limits| {
            let limiters = all().map(|one| Limiter::new(limits.clone(), Arc::clone(one)));
            limiters.map(|one| one.with_clock(clock.clone())).collect()
        });
        Self {
            plot,
            latest: clock.now(),
            clock,
            map,
            limiters,
            held: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Moves the clock by a random distance, mostly forwards. It only steps back as far as no backend may have
    /// forgotten a full bucket.
    fn move_clock(&mut self, random: &mut Random) {
        let now = self.clock.now();
        if random.below(8) == 0 {
            let sets = &self.plot.limits;
            let of_either = |key: &str| sets.iter().find_map(|limits| algorithm(limits, key));
            let earliest = self.map.latest_full(self.latest, of_either).as_micros();
            let reach = now.as_micros().saturating_sub(earliest);
            let back = random.below(reach.min(self.plot.pace.back) + 1);
            self.clock
                .set(Timestamp::from_micros(now.as_micros() - back));
            self.counts.steps_back += u32::from(back > 0);
        } else {
            let longest = self.plot.pace.ahead[random.place(4)];
            self.clock
                .advance(Duration::from_micros(random.below(longest)));
        }
        self.latest = self.latest.max(self.clock.now());
    }

    /// Runs a step under one of the two sets of limits.
    async fn run(&mut self, which: usize, step: Step, batch: &[Transaction<'_>]) {
        let mut answers = Vec::new();
        for limiter in &self.limiters[which] {
            answers.push(step.run(limiter, batch).await);
        }
        let now = self.clock.now();
        let expected = seen(&answers[0]);
        for answer in &answers[1..] {
            let limits = &self.plot.limits[which];
            assert_eq!(
                seen(answer),
                expected,
                "{step:?} at {now:?}: {batch:?} of {limits:?}"
            );
        }
        match &answers[0] {
            Ok(decided) => {
                self.counts.allowed += u32::from(decided.allowed());
                self.counts.denied += u32::from(!decided.allowed());
                self.counts.waited += u32::from(!decided.delay().is_zero());
            }
            Err(_) => self.counts.errors += 1,
        }
        for (place, member) in batch.iter().enumerate() {
            let answers = answers.iter().flatten();
            let receipts = answers.map(|decided| decided.members()[place].receipt());
            self.held.extend(
                receipts
                    .collect::<Option<_>>()
                    .map(|receipts| HeldReceipts {
                        limit: member.limit.as_str().to_owned(),
                        id: member.id.to_owned(),
                        receipts,
                    }),
            );
        }
    }

    async fn refund_receipt(&mut self, which: usize, random: &mut Random) {
        let Some(HeldReceipts {
            limit,
            id,
            receipts,
        }) = self.take_receipts(random)
        else {
            return;
        };
        let mut answers = Vec::new();
        for (limiter, receipt) in self.limiters[which].iter().zip(receipts) {
            let limit = limiter.limit(&limit).unwrap();
            answers.push(limit.refund_receipt(&id, receipt).await.unwrap());
        }
        let found: Vec<_> = answers.iter().map(SeenMember::of).collect();
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
        match found[0].is_given_back {
            true => self.counts.given_back += 1,
            false => self.counts.lost += 1,
        }
    }

    /// The last receipts or earlier ones, or a part of them.
    fn take_receipts(&mut self, random: &mut Random) -> Option<HeldReceipts> {
        let back = random.place(4).min(self.held.len());
        let place = self.held.len().checked_sub(1 + back)?;
        if random.below(3) > 0 {
            return Some(self.held.remove(place));
        }
        let (cost, whole) = (random.cost(3), &mut self.held[place]);
        Some(HeldReceipts {
            limit: whole.limit.clone(),
            id: whole.id.clone(),
            receipts: whole
                .receipts
                .iter_mut()
                .map(|one| one.split(cost))
                .collect(),
        })
    }
}

impl Step {
    async fn run(
        self,
        limiter: &Limiter,
        batch: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        match self {
            Self::Spend => limiter.spend_batch(batch).await,
            Self::Check => limiter.check_batch(batch).await,
            Self::Refund => limiter.refund_batch(batch).await,
            Self::Reset => {
                limiter.reset(&batch[..1]).await?;
                limiter.check_batch(batch).await
            }
        }
    }
}

/// Everything that a caller can see, with errors as text. The raw state is left out, because a backend may forget a
/// full bucket.
type Seen = Result<(bool, Option<usize>, Duration, Vec<SeenMember>), String>;

#[derive(Debug, PartialEq)]
struct SeenMember {
    allowed: bool,
    is_given_back: bool,
    granted: u32,
    tier: Option<usize>,
    split: Vec<(usize, u32)>,
    remaining: Option<u32>,
    waits: [Option<Duration>; 5],
}

impl SeenMember {
    fn of(decision: &Decision) -> Self {
        Self {
            allowed: decision.allowed(),
            is_given_back: decision.refunded(),
            granted: decision.granted(),
            tier: decision.tier(),
            split: decision.split().collect(),
            remaining: decision.remaining(),
            waits: [
                Some(decision.delay()),
                Some(decision.retry_after()),
                Some(decision.next_after()),
                Some(decision.reset_after()).filter(|_| !may_be_forgotten(decision)),
                decision.next_token_after(),
            ],
        }
    }
}

fn seen(answer: &Result<BatchDecision, LimiterError>) -> Seen {
    let batch = answer.as_ref().map_err(ToString::to_string)?;
    let members = batch.members().iter().map(SeenMember::of).collect();
    Ok((batch.allowed(), batch.strictest(), batch.delay(), members))
}

/// Returns whether a store may forget the bucket, although it is not as a new one. Only the time until a reset depends
/// on that.
fn may_be_forgotten(decision: &Decision) -> bool {
    let algorithm = decision.algorithm();
    algorithm.is_some_and(|algorithm| algorithm.may_be_forgotten())
}

/// Returns the algorithm of a limit, given by its key and that of the algorithm.
fn algorithm<'a>(limits: &'a Limits, key: &str) -> Option<&'a Algorithm> {
    let name = key.split_once('~').map_or(key, |(name, _)| name);
    let algorithm = limits.get(name)?.limit.as_ref()?.algorithm()?;
    (format!("{name}{}", algorithm.key()) == key).then_some(algorithm)
}
