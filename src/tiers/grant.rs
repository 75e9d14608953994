use super::tiers::Tiers;

/// Units that are granted, and from which tiers.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grant {
    /// One bit for each tier that units are taken from, or that is entered below them.
    pub(super) tiers: u16,
    /// How many come from the first of those. All others but the last are filled.
    pub(super) first: u32,
    pub(super) total: u32,
}

impl Grant {
    /// How many units there are.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.total
    }

    /// The highest tier that units are taken from, 0 being the lowest, or `None` if there are none.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.tiers.checked_ilog2().map(|tier| tier as usize)
    }

    /// How many units come from which tier, lowest first.
    pub fn split(&self, tiers: &Tiers) -> impl Iterator<Item = (usize, u32)> {
        self.parts(tiers).filter(|(_, units)| *units > 0)
    }

    /// The same with a tier that is entered and gives nothing, since it is full.
    pub(super) fn parts<'a>(&self, tiers: &'a Tiers) -> impl Iterator<Item = (usize, u32)> + 'a {
        let Self {
            tiers: bits,
            first,
            mut total,
        } = *self;
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
