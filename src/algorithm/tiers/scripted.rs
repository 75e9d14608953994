use super::{History, Tiers, history::ReportedTier};
use crate::algorithm::Ask;

impl Tiers {
    /// Returns the numbers of a term, as `tiers.lua` reads them. -1 is an endless time.
    pub(crate) fn term(&self, ask: &Ask<'_>) -> impl Iterator<Item = u64> {
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

    /// Reads the numbers that `tiers.lua` shows after the grant.
    pub(crate) fn shown(&self, shown: &mut impl Iterator<Item = i64>) -> Option<History> {
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
