use super::tiers::Tiers;

/// Units that are granted, and from which tiers.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grant {
    /// One bit for each tier that grants units, or that is entered on the way up.
    pub(super) tiers: u16,
    /// The units from the lowest of these tiers. All other tiers except the highest are filled.
    pub(super) first: u32,
    pub(super) total: u32,
}

impl Grant {
    /// Returns the number of units.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.total
    }

    /// Returns the highest tier that grants units (0 is the lowest), or `None` if there are no units.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.tiers.checked_ilog2().map(|tier| tier as usize)
    }

    /// Returns the number of units from each tier, lowest first.
    pub fn split(self, tiers: &Tiers) -> impl Iterator<Item = (usize, u32)> {
        self.parts(tiers).filter(|(_, units)| *units > 0)
    }

    /// Returns the same numbers, including tiers that are entered but grant nothing because they are full.
    pub(super) fn parts<'a>(self, tiers: &'a Tiers) -> impl Iterator<Item = (usize, u32)> + 'a {
        let Self {
            tiers: bits,
            first,
            mut total,
        } = self;
        let spans = tiers.spans().iter().enumerate();
        let drawn = spans.filter(move |(i, _)| bits >> i & 1 == 1);
        drawn.enumerate().map(move |(nth, (i, span))| {
            let most = if nth == 0 { first } else { span.limit };
            let units = most.min(total);
            total -= units;
            (i, units)
        })
    }
}
