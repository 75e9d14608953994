//! One bucket with tiers and several without, which get the same requests.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tollgate::{
    Decision as Decided, Limit,
    clock::Timestamp,
    tiers::{Phase, Tier},
};

use crate::{
    buckets::Buckets,
    config::{Config, ConfigError},
};

/// The most steps at once.
const MAX_STEPS: usize = 512;

/// The most units of one request.
const MAX_UNITS: u32 = 1000;

/// The last instant, in milliseconds: some thirty years.
const END: u64 = 1_000_000_000_000;

#[derive(Debug)]
pub(crate) struct Simulation {
    tiers: Vec<Tier>,
    /// The limit that the tiers belong to.
    limit: Limit,
    buckets: Buckets,
    /// The current instant, in milliseconds since the start.
    now: u64,
}

/// A request. With 0 units, it only looks at the state.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// The instant, in milliseconds since the start.
    at: u64,
    #[serde(default)]
    units: u32,
}

/// The state after a step. All times are in milliseconds since the start.
#[derive(Debug, Serialize)]
pub(crate) struct Seen {
    at: u64,
    decision: Option<Decision>,
    tiers: Vec<TierSeen>,
    in_force: usize,
    /// The number of units left in each bucket without tiers.
    left: Each<u32>,
    /// Whether all buckets are full.
    settled: bool,
}

#[derive(Debug, Serialize)]
struct Decision {
    granted: bool,
    /// The highest tier that granted units or, after a denial, the tier that denied.
    tier: usize,
    /// The tiers that granted units, with their numbers.
    split: Vec<(usize, u32)>,
    note: String,
    /// The time until a denied request would be granted, in microseconds; `None` if it never would be.
    wait_us: Option<u64>,
    plain: Each<Answer>,
}

#[derive(Debug, Serialize)]
struct TierSeen {
    phase: &'static str,
    /// Whether the tier is active while a higher one is active too.
    shadowed: bool,
    used: u32,
    entry: Option<u64>,
    active_until: Option<u64>,
    cooldown_until: Option<u64>,
}

/// A value for each of the limits without tiers.
#[derive(Clone, Copy, Debug, Serialize)]
struct Each<T> {
    gcra: T,
    window: T,
    quota: T,
    concurrent: T,
}

impl<T> Each<T> {
    fn of(mut value: impl FnMut(&'static str) -> T) -> Self {
        Self {
            gcra: value("gcra"),
            window: value("window"),
            quota: value("quota"),
            concurrent: value("concurrent"),
        }
    }
}

/// The answer of one bucket to a request.
#[derive(Clone, Copy, Debug, Serialize)]
struct Answer {
    granted: bool,
    /// The time until a denied request would be granted, in microseconds. `None` if it never would be, or if it waits for a permit,
    /// because it is not known when one comes back.
    wait_us: Option<u64>,
}

impl Answer {
    fn of(decided: Option<&Decided>) -> Self {
        let wait = decided.and_then(Decided::retry_after);
        Self {
            granted: decided.is_some_and(Decided::allowed),
            wait_us: wait.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)),
        }
    }
}

#[derive(Clone, Copy, Debug, Error)]
pub(crate) enum StepError {
    #[error("{0} steps are more than {MAX_STEPS}: send some of them later")]
    TooMany(usize),
    #[error("{0} units are more than {MAX_UNITS}: ask for fewer")]
    TooManyUnits(u32),
    #[error("{at} ms is before {now} ms, where the simulation is: time only goes on")]
    Past { at: u64, now: u64 },
    #[error("{0} ms is more than thirty years: start anew")]
    Future(u64),
}

impl Simulation {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let [gcra, window, quota, concurrent] = config.plain()?;
        let tiers = config.tiers();
        let limit =
            Limit::tiers(tiers.iter().copied()).map_err(|error| ConfigError::of("tiers", error))?;
        let limits = [limit.clone(), gcra, window, quota, concurrent];
        let buckets = Buckets::new(limits, config.work());
        Ok(Self {
            tiers,
            limit,
            buckets: buckets.map_err(|error| ConfigError::of("limits", error))?,
            now: 0,
        })
    }

    /// Takes steps, up to the first one that is not possible.
    pub(crate) fn take(&mut self, steps: &[Step]) -> Result<Vec<Seen>, StepError> {
        if steps.len() > MAX_STEPS {
            return Err(StepError::TooMany(steps.len()));
        }
        steps.iter().map(|step| self.step(*step)).collect()
    }

    /// Returns the current state.
    pub(crate) fn look(&self) -> Seen {
        let tiers = self.tiers();
        Seen {
            at: self.now,
            decision: None,
            in_force: in_force(&tiers),
            tiers,
            left: Each::of(|limit| self.buckets.left(limit)),
            settled: self.buckets.are_full(),
        }
    }

    fn step(&mut self, Step { at, units }: Step) -> Result<Seen, StepError> {
        if at < self.now {
            return Err(StepError::Past { at, now: self.now });
        }
        if at > END {
            return Err(StepError::Future(at));
        }
        if units > MAX_UNITS {
            return Err(StepError::TooManyUnits(units));
        }
        self.now = at;
        self.buckets.go_to(Timestamp::from_micros(self.now_us()));
        let decision = (units > 0).then(|| self.decide(units));
        Ok(Seen {
            decision,
            ..self.look()
        })
    }

    fn decide(&mut self, units: u32) -> Decision {
        let before = self.tiers();
        let decided = self.buckets.spend("tiers", units);
        let Answer { granted, wait_us } = Answer::of(decided.as_ref());
        let grant = decided.filter(Decided::allowed);
        let tier = grant.as_ref().and_then(Decided::tier);
        Decision {
            granted,
            tier: tier.unwrap_or(in_force(&before)),
            split: grant.map_or_else(Vec::new, |grant| grant.split(&self.limit).collect()),
            note: if granted {
                note_of_grant(tier, &before)
            } else {
                note_of_rejection(&before)
            },
            wait_us,
            plain: Each::of(|limit| Answer::of(self.buckets.spend(limit, units).as_ref())),
        }
    }

    fn tiers(&self) -> Vec<TierSeen> {
        let states = self.buckets.tiers();
        let known = states.into_iter().zip(&self.tiers);
        let mut seen: Vec<_> = known
            .map(|(state, tier)| {
                let entry = state.entered.map(|entered| entered.as_micros() / 1000);
                let after = |time: Option<u64>, span| Some(time? + millis(span));
                let active_until = after(entry, tier.active);
                TierSeen {
                    phase: name(state.phase),
                    shadowed: false,
                    used: state.used,
                    entry,
                    active_until,
                    cooldown_until: after(active_until, tier.cooldown),
                }
            })
            .collect();
        let highest = in_force(&seen);
        for tier in &mut seen[..highest] {
            tier.shadowed = tier.phase == name(Phase::Active);
        }
        seen
    }

    fn now_us(&self) -> u64 {
        self.now * 1000
    }
}

fn note_of_grant(tier: Option<usize>, before: &[TierSeen]) -> String {
    let entered = |tier: &usize| before[*tier].phase == name(Phase::Inactive);
    let burst = tier.filter(|tier| *tier > 0).filter(entered);
    burst.map_or_else(String::new, |tier| format!("bursts into tier {tier}"))
}

fn note_of_rejection(before: &[TierSeen]) -> String {
    let (asked, cool) = (in_force(before), name(Phase::Cooldown));
    if before[asked].phase == cool {
        return format!("tier {asked} cools down");
    }
    let mut above = (asked + 1)..before.len();
    let blocked = above.find(|tier| before[*tier].phase == cool);
    match blocked {
        Some(tier) => format!("tier {asked} is full, tier {tier} cools down"),
        None => format!("tier {asked} is full"),
    }
}

/// Returns the tier in force: the highest active one, or the lowest if none is active.
fn in_force(tiers: &[TierSeen]) -> usize {
    let active = name(Phase::Active);
    tiers
        .iter()
        .rposition(|tier| tier.phase == active)
        .unwrap_or(0)
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Inactive => "inactive",
        Phase::Active => "active",
        Phase::Cooldown => "cooldown",
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
