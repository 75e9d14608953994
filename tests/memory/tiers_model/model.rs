//! Charon's rules as they are written down: every unit ever granted in a list, and each question answered by
//! looking at all of them.

use std::time::Duration;

use tollgate::tiers::{Phase, Tier};

/// Microseconds; infinite ones are beyond all sums of finite ones.
pub(crate) type Time = u128;

pub(crate) const NEVER: Time = 1 << 100;

pub(crate) fn time(span: Duration) -> Time {
    if span == Tier::FOREVER {
        NEVER
    } else {
        span.as_micros()
    }
}

/// How many units come from which tier. A tier that is passed since it is full has none.
pub(crate) type Split = Vec<(usize, u32)>;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    tiers: Vec<Tier>,
    pub(crate) entries: Vec<Option<Time>>,
    /// When each unit that may still count was granted.
    units: Vec<Vec<Time>>,
    last: Time,
}

impl Model {
    pub(crate) fn new(tiers: &[Tier]) -> Self {
        Self {
            tiers: tiers.to_vec(),
            entries: vec![None; tiers.len()],
            units: vec![Vec::new(); tiers.len()],
            last: 0,
        }
    }

    /// A clock that steps back stands still.
    pub(crate) fn effective(&self, now: u64) -> Time {
        self.last.max(now.into())
    }

    pub(crate) fn phase(&self, tier: usize, at: Time) -> Phase {
        let Some(entry) = self.entries[tier] else {
            return Phase::Inactive;
        };
        let (active, cooldown) = (
            time(self.tiers[tier].active),
            time(self.tiers[tier].cooldown),
        );
        if at > entry + active + cooldown {
            Phase::Inactive
        } else if at > entry + active {
            Phase::Cooldown
        } else {
            Phase::Active
        }
    }

    pub(crate) fn used(&self, tier: usize, at: Time) -> u32 {
        if tier > 0 && self.phase(tier, at) == Phase::Inactive {
            return 0;
        }
        let window = time(self.tiers[tier].window);
        let counts = self.units[tier].iter().filter(|unit| at - **unit <= window);
        u32::try_from(counts.count()).unwrap()
    }

    fn free(&self, tier: usize, at: Time) -> u32 {
        self.tiers[tier].limit.saturating_sub(self.used(tier, at))
    }

    fn path(&self, at: Time) -> Vec<usize> {
        let all = 0..self.tiers.len();
        let active = all.filter(|tier| self.phase(*tier, at) == Phase::Active);
        let mut path = Vec::new();
        for tier in active.max().unwrap_or(0)..self.tiers.len() {
            if self.phase(tier, at) != Phase::Cooldown {
                path.push(tier);
            } else if !self.tiers[tier].skippable {
                break;
            }
        }
        path
    }

    /// What would be granted, if it is enough.
    pub(crate) fn plan(&self, at: Time, least: u32, most: u32) -> Option<Split> {
        let (mut split, mut missing) = (Split::new(), most);
        for tier in self.path(at) {
            if missing == 0 {
                break;
            }
            let units = self.free(tier, at).min(missing);
            split.push((tier, units));
            missing -= units;
        }
        while split.last().is_some_and(|(_, units)| *units == 0) {
            split.pop();
        }
        (most - missing >= least).then_some(split)
    }

    /// Grants.
    pub(crate) fn request(&mut self, now: u64, least: u32, most: u32) -> Option<Split> {
        let now = self.effective(now);
        let split = self.plan(now, least, most)?;
        for (tier, units) in &split {
            if self.phase(*tier, now) == Phase::Inactive {
                if *tier > 0 {
                    self.units[*tier].clear();
                }
                self.entries[*tier] = Some(now);
            }
            self.units[*tier].extend((0..*units).map(|_| now));
        }
        self.last = now;
        Some(split)
    }

    /// When so many units would be granted if nothing else came: what is tried is each instant at which anything
    /// changes.
    pub(crate) fn granted_at(&self, now: u64, units: u32) -> Time {
        let now = self.effective(now);
        let mut marks = vec![now];
        for (tier, entry) in self.tiers.iter().zip(&self.entries) {
            let ends = entry.iter().flat_map(|entry| {
                let cold = entry + time(tier.active);
                [cold + 1, cold + time(tier.cooldown) + 1]
            });
            marks.extend(ends);
        }
        for (tier, granted) in self.tiers.iter().zip(&self.units) {
            marks.extend(granted.iter().map(|unit| unit + time(tier.window) + 1));
        }
        marks.retain(|mark| (now..NEVER).contains(mark));
        marks.sort_unstable();
        let mut passing = marks.into_iter();
        passing
            .find(|mark| self.plan(*mark, units, units).is_some())
            .unwrap_or(NEVER)
    }

    pub(crate) fn remaining(&self, now: u64) -> u32 {
        let now = self.effective(now);
        let path = self.path(now).into_iter();
        path.map(|tier| self.free(tier, now)).sum()
    }

    /// From when on the bucket is as if it had never been used.
    pub(crate) fn reset_at(&self, now: u64) -> Time {
        self.ends(now, |_| true)
    }

    /// From when on nothing depends on what was granted: a lowest tier that lasts for ever is, once it is empty, as good
    /// as one that was never entered.
    pub(crate) fn lapses_at(&self, now: u64) -> Time {
        self.ends(now, |tier| {
            tier > 0 || time(self.tiers[tier].active) < NEVER
        })
    }

    fn ends(&self, now: u64, is_meant: impl Fn(usize) -> bool) -> Time {
        let now = self.effective(now);
        let tiers = self.tiers.iter().zip(&self.entries).enumerate();
        let phases = tiers.filter(|(i, _)| is_meant(*i));
        let phases = phases.filter_map(|(_, (tier, entry))| {
            Some((*entry)? + time(tier.active) + time(tier.cooldown) + 1)
        });
        let window = time(self.tiers[0].window);
        let units = self.units[0].iter().map(|unit| unit + window + 1);
        phases.chain(units).max().unwrap_or(0).clamp(now, NEVER)
    }
}
