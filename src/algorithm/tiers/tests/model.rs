//! Charon's rules as they are written down. The model keeps a list of all units that were ever granted, and looks at all of them
//! for each question.

use std::time::Duration;

use super::super::{Tier, tier::Phase};

/// Microseconds. An infinite time is greater than any sum of finite ones.
pub(super) type Time = u128;

pub(super) const FOREVER: Time = 1 << 100;

pub(super) fn time(span: Duration) -> Time {
    match span {
        Tier::FOREVER => FOREVER,
        span => span.as_micros(),
    }
}

/// The units from each tier, lowest first.
pub(super) type Split = Vec<(usize, u32)>;

#[derive(Clone, Debug)]
pub(super) struct Model {
    tiers: Vec<Tier>,
    pub(super) entries: Vec<Option<Time>>,
    /// The instant of each unit.
    pub(super) units: Vec<Vec<Time>>,
    last: Time,
}

impl Model {
    pub(super) fn new(tiers: &[Tier]) -> Self {
        Self {
            tiers: tiers.to_vec(),
            entries: vec![None; tiers.len()],
            units: vec![Vec::new(); tiers.len()],
            last: 0,
        }
    }

    pub(super) fn phase(&self, tier: usize, at: Time) -> Phase {
        let active = time(self.tiers[tier].active);
        let cooldown = time(self.tiers[tier].cooldown);
        match self.entries[tier] {
            Some(entry) if at <= entry + active => Phase::Active,
            Some(entry) if at <= entry + active + cooldown => Phase::Cooldown,
            _ => Phase::Inactive,
        }
    }

    pub(super) fn used(&self, tier: usize, at: Time) -> u32 {
        if tier > 0 && self.phase(tier, at) == Phase::Inactive {
            return 0;
        }
        let window = time(self.tiers[tier].window);
        let counts = self.units[tier].iter().filter(|unit| at - **unit <= window);
        u32::try_from(counts.count()).unwrap()
    }

    fn free(&self, tier: usize, at: Time) -> u32 {
        self.tiers[tier].limit - self.used(tier, at)
    }

    fn path(&self, at: Time) -> Vec<usize> {
        let tiers = 0..self.tiers.len();
        let active = tiers
            .clone()
            .rev()
            .find(|tier| self.phase(*tier, at) == Phase::Active);
        let mut path = Vec::new();
        for tier in active.unwrap_or(0)..tiers.end {
            if self.phase(tier, at) != Phase::Cooldown {
                path.push(tier);
            } else if !self.tiers[tier].skippable {
                break;
            }
        }
        path
    }

    /// Returns the units from each tier, including full tiers below the highest one, if they are enough.
    fn plan(&self, at: Time, least: u32, most: u32) -> Option<Split> {
        let mut split = Vec::new();
        let mut missing = most;
        for tier in self.path(at) {
            let units = self.free(tier, at).min(missing);
            split.push((tier, units));
            missing -= units;
        }
        let used = split.iter().rposition(|(_, units)| *units > 0);
        split.truncate(used.map_or(0, |last| last + 1));
        (most - missing >= least).then_some(split)
    }

    /// Grants units. If the clock steps back, the instant of the last grant counts.
    pub(super) fn request(&mut self, now: u64, least: u32, most: u32) -> Option<Split> {
        let now = self.last.max(now.into());
        let mut split = self.plan(now, least, most)?;
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
        split.retain(|(_, units)| *units > 0);
        Some(split)
    }

    pub(super) fn now(&self, asked: u64) -> Time {
        self.last.max(asked.into())
    }

    pub(super) fn remaining(&self, now: u64) -> u32 {
        let now = self.now(now);
        self.path(now)
            .into_iter()
            .map(|tier| self.free(tier, now))
            .sum()
    }

    /// Returns the first instant at which this number of units is granted. It tries all instants at which anything changes.
    pub(super) fn grants_at(&self, now: u64, units: u32) -> Option<Time> {
        let mut marks = vec![self.now(now)];
        for (i, tier) in self.tiers.iter().enumerate() {
            let cools = self.entries[i].map(|entry| entry + time(tier.active) + 1);
            marks.extend(
                cools
                    .into_iter()
                    .flat_map(|cools| [cools, cools + time(tier.cooldown)]),
            );
            marks.extend(
                self.units[i]
                    .iter()
                    .map(|unit| unit + time(tier.window) + 1),
            );
        }
        marks.retain(|mark| (self.now(now)..FOREVER).contains(mark));
        marks.sort_unstable();
        marks
            .into_iter()
            .find(|mark| self.plan(*mark, units, units).is_some())
    }

    /// Returns the instant at which the last of these tiers can be entered again, and the window of the lowest is empty.
    pub(super) fn ends_at(&self, counts: impl Fn(usize, &Tier) -> bool) -> Time {
        let tiers = self.tiers.iter().zip(&self.entries).enumerate();
        let ends =
            tiers
                .filter(|(i, (tier, _))| counts(*i, tier))
                .filter_map(|(_, (tier, entry))| {
                    Some((*entry)? + time(tier.active) + time(tier.cooldown) + 1)
                });
        let leaves = self.units[0]
            .iter()
            .map(|unit| unit + time(self.tiers[0].window) + 1);
        ends.chain(leaves).max().unwrap_or(0).min(FOREVER)
    }
}
