use super::Tiers;
use crate::algorithm::Charge;

/// Units that are granted, and from which tiers.
/// [`Limit::tiers`](crate::Limit::tiers) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grant {
    /// One bit for each tier that grants units, or that is entered on the way up.
    pub(super) tiers: u32,
    /// The units from the lowest of these tiers. All other tiers except the highest are filled.
    pub(super) first: u32,
    pub(super) units: u32,
}

impl Grant {
    /// Returns the number of units.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
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

// In a charge, the instant stands for the units from the lowest tier that is drawn from, and the fraction for the bits of
// the tiers. A charge of no units is a grant of nothing.
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
