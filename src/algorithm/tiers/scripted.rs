use super::{History, Tiers, history::ReportedTier};
use crate::algorithm::{Arithmetic, Ask, Charge, Figures};

impl Tiers {
    /// Returns the numbers of a question, as `tiers.lua` reads them. -1 is an endless time.
    pub(crate) fn question(&self, ask: &Ask) -> impl Iterator<Item = u64> {
        let tiers = self.0.iter().flat_map(|span| {
            let kind = u64::from(span.skippable) + 2 * u64::from(span.slides);
            [
                span.limit.into(),
                span.window,
                span.active,
                span.cooldown,
                kind,
            ]
        });
        [ask.cost, ask.min_cost]
            .map(u64::from)
            .into_iter()
            .chain(tiers)
    }

    /// Reads what `tiers.lua` shows. Returns the figures, and the charge of these units.
    pub(crate) fn shown(
        &self,
        ask: &Ask,
        now: u64,
        units: u32,
        mut shown: impl Iterator<Item = i64>,
    ) -> Option<(Figures, Charge)> {
        let grant = shown.next()?.cast_unsigned();
        let charge = Charge {
            at: grant & u64::from(u32::MAX),
            frac: u32::try_from(grant >> 32).ok()?,
            units,
        };
        Some((self.figures(ask, &self.history(shown)?, now), charge))
    }

    fn history(&self, mut shown: impl Iterator<Item = i64>) -> Option<History> {
        let last = shown.next()?.try_into().ok()?;
        let tiers = self.0.iter().map(|_| {
            let entry = shown.next()?;
            let used = shown.next()?.try_into().ok()?;
            let newest = shown.next()?.try_into().ok()?;
            let count: u32 = shown.next()?.try_into().ok()?;
            let oldest = (0..count).map(|_| shown.next()?.try_into().ok());
            Some(ReportedTier {
                entry: entry.try_into().ok(),
                used,
                oldest: oldest.collect::<Option<_>>()?,
                newest,
            })
        });
        History::reported(last, tiers.collect::<Option<Vec<_>>>()?)
    }
}
