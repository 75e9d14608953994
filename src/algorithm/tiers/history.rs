use super::{
    Tiers,
    tier::{MAX_SLIDING, Phase, TierInMicros},
};
use crate::algorithm::{
    Charge,
    numbers::{AsNumbers, Numbers},
    window::Units,
};

/// The grants of a bucket with [`Tiers`]. Instants are in microseconds since the Unix epoch. The default is a full bucket.
///
/// It takes up to 8 bytes for each unit of a window that slides, and 56 for each tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The instant of the last grant.
    pub(super) last: u64,
    /// Lowest first.
    pub(super) tiers: Vec<TierLog>,
}

/// The grants of one tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TierLog {
    /// The instant of the last entry.
    pub(super) entry: Option<u64>,
    /// The number of units, if the window does not slide. They leave the window together, as if all of them were granted on entry.
    pub(super) counted: u32,
    /// The instants of the units, if the window slides.
    pub(super) units: Units,
}

/// The part of a tier that a script returns. Together with the instant of the last grant, it suffices for all figures. The units
/// that count are those within the window at the instant of the decision.
#[derive(Clone, Debug)]
pub(crate) struct ReportedTier {
    /// The instant of the last entry.
    pub(crate) entry: Option<u64>,
    /// The number of units that count. It has no effect for an inactive tier above the lowest.
    pub(crate) used: u32,
    /// The instants of the oldest of these units, if the stored tier has instants: as many as the smallest acceptable grant, and
    /// one more for each unit above a lowered limit. If there are fewer units, all of them.
    pub(crate) oldest: Vec<u64>,
    /// The instant of the newest of these units.
    pub(crate) newest: u64,
}

impl AsNumbers for History {
    const LETTER: u8 = b't';

    fn write(&self, number: &mut impl FnMut(u64)) {
        number(self.last);
        number(self.tiers.len() as u64);
        for log in &self.tiers {
            log.write(number);
        }
    }

    fn read(numbers: &mut Numbers<'_>) -> Option<Self> {
        let last = numbers.number()?;
        let count = numbers
            .number()
            .filter(|count| *count <= Tiers::MAX as u64)?;
        let tiers = (0..count).map(|_| TierLog::read(numbers));
        Some(Self {
            last,
            tiers: tiers.collect::<Option<_>>()?,
        })
    }
}

impl History {
    /// Creates a history that has the same figures as the stored one, from the instant of the last grant and the tiers, lowest
    /// first. The units between the reported oldest ones and the newest get the instant of the newest. Returns `None` if no grants
    /// lead to such tiers.
    pub(crate) fn reported(
        last: u64,
        tiers: impl IntoIterator<Item = ReportedTier>,
    ) -> Option<Self> {
        let tiers = tiers.into_iter().map(TierLog::reported);
        Some(Self {
            last,
            tiers: tiers.collect::<Option<_>>()?,
        })
    }

    /// Returns the memory that the history takes beyond its own size, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let units = self.tiers.iter().map(|log| log.units.heap_bytes());
        self.tiers.capacity() * size_of::<TierLog>() + units.sum::<usize>()
    }

    /// Records a grant.
    pub(super) fn take(&mut self, tiers: &Tiers, grant: Grant, now: u64) {
        let spans = &tiers.0;
        self.last = now;
        self.tiers.truncate(spans.len());
        self.tiers.reserve_exact(spans.len() - self.tiers.len());
        self.tiers.resize_with(spans.len(), TierLog::default);
        for (tier, units) in grant.parts(tiers) {
            self.tiers[tier].take(&spans[tier], tier == 0, units, now);
        }
    }
}

impl TierLog {
    /// Writes the numbers of the tier. The entry is written as its instant plus one, or as 0 if there is none.
    fn write(&self, number: &mut impl FnMut(u64)) {
        number(self.entry.map_or(0, |entry| entry + 1));
        number(self.counted.into());
        number(self.units.len() as u64);
        self.units.write_instants(number);
    }

    fn read(numbers: &mut Numbers<'_>) -> Option<Self> {
        let entry = numbers.number()?.checked_sub(1);
        let mut log = Self {
            entry,
            counted: numbers.small()?,
            units: Units::default(),
        };
        for _ in 0..numbers.number()? {
            log.units.read_instant(numbers)?;
        }
        Some(log)
    }

    fn reported(tier: ReportedTier) -> Option<Self> {
        let mut log = Self {
            entry: tier.entry,
            ..Self::default()
        };
        if tier.oldest.is_empty() {
            log.counted = tier.used;
            return Some(log);
        }
        // Without this bound, a broken reply could take any amount of memory.
        let used = Some(tier.used).filter(|used| *used <= MAX_SLIDING)?;
        let more = used.checked_sub(u32::try_from(tier.oldest.len()).ok()?)?;
        for instant in tier.oldest {
            log.units.insert(instant, 1, used);
        }
        log.units.insert(tier.newest, more, used);
        Some(log)
    }

    /// Returns the number of units in the window.
    pub(super) fn used(&self, span: &TierInMicros, at: u64) -> u32 {
        let units = self.units.live(span.window, at).len();
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.counted(span, at).saturating_add(units)
    }

    /// Returns the instant of a unit in the window. The oldest one is number 0.
    pub(super) fn unit(&self, span: &TierInMicros, at: u64, nth: u32) -> Option<u64> {
        let live = self.units.live(span.window, at);
        match nth.checked_sub(self.counted(span, at)) {
            None => self.entry,
            Some(nth) => self.units.get(live.start + nth as usize),
        }
    }

    /// Returns the instant of the newest unit.
    pub(super) fn newest(&self) -> Option<u64> {
        let counted = self.entry.filter(|_| self.counted > 0);
        self.units.newest().or(counted)
    }

    fn counted(&self, span: &TierInMicros, at: u64) -> u32 {
        match self.entry {
            Some(entry) if at < span.leaves(entry) => self.counted,
            _ => 0,
        }
    }

    fn take(&mut self, span: &TierInMicros, is_lowest: bool, units: u32, now: u64) {
        let enters = span.phase(self.entry, now) == Phase::Inactive;
        if enters && !is_lowest {
            *self = Self::default();
        }
        if span.slides {
            self.remember(span, units, now);
        } else {
            self.counted = self.used(span, now).saturating_add(units);
            self.units = Units::default();
        }
        if enters {
            self.entry = Some(now);
        }
    }

    /// Adds units with their instant, and forgets those that have left the window. After a change of the limit, there can be
    /// counted units without instants, or more units than the limit. As many as fit are kept.
    fn remember(&mut self, span: &TierInMicros, units: u32, now: u64) {
        let room = span.limit.saturating_sub(units);
        if let (1.., Some(entry)) = (self.counted(span, now), self.entry) {
            self.units.insert(entry, self.counted.min(room), span.limit);
        }
        self.counted = 0;
        let live = self.units.live(span.window, now);
        let surplus = live.end.saturating_sub(room as usize);
        self.units.remove(0..surplus.max(live.start));
        self.units.insert(now, units, span.limit);
    }
}

/// Units that are granted, and from which tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    /// One bit for each tier that grants units, or that is entered on the way up.
    pub(super) tiers: u32,
    /// The units from the lowest of these tiers. All other tiers except the highest are filled.
    pub(super) first: u32,
    pub(super) units: u32,
}

impl Grant {
    /// Returns the highest tier that grants units (0 is the lowest), or `None` if there are no units.
    pub(crate) fn tier(&self) -> Option<usize> {
        self.tiers.checked_ilog2().map(|tier| tier as usize)
    }

    /// Returns the number of units from each tier, lowest first.
    pub(crate) fn split(self, tiers: &Tiers) -> impl Iterator<Item = (usize, u32)> {
        self.parts(tiers).filter(|(_, units)| *units > 0)
    }

    /// Returns the same numbers, including tiers that are entered but grant nothing because they are full.
    pub(super) fn parts(self, tiers: &Tiers) -> impl Iterator<Item = (usize, u32)> {
        let Self {
            tiers: bits,
            first,
            units: mut left,
        } = self;
        let spans = tiers.0.iter().enumerate();
        let drawn = spans.filter(move |(i, _)| bits >> i & 1 == 1);
        drawn.enumerate().map(move |(nth, (i, span))| {
            let most = if nth == 0 { first } else { span.limit };
            let units = most.min(left);
            left -= units;
            (i, units)
        })
    }
}

// In a charge, `at` has the units from the lowest tier of the grant, and `frac` has the bits of the tiers. A charge of no units is
// a grant of nothing.
impl From<Charge> for Grant {
    fn from(charge: Charge) -> Self {
        Self {
            tiers: charge.frac,
            first: u32::try_from(charge.at).unwrap_or(u32::MAX),
            units: charge.units,
        }
    }
}

impl From<Grant> for Charge {
    fn from(grant: Grant) -> Self {
        Self {
            at: grant.first.into(),
            frac: grant.tiers,
            units: grant.units,
        }
    }
}
