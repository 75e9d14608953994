use super::{Per, Quota, Usage};
use crate::algorithm::{Arithmetic, Ask, Charge, Figures};

impl Quota {
    /// Returns the numbers of a term, as `quota.lua` reads them, with the periods around an instant. -1 is no length.
    pub(crate) fn term(&self, ask: &Ask, around: u64) -> [u64; 7] {
        let length = self.per.first_use_length();
        let length = length.map(|length| u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
        let [start, first, second, third] = self.per.periods(around);
        [
            self.quota.into(),
            ask.cost.into(),
            length.unwrap_or(u64::MAX),
            start,
            first,
            second,
            third,
        ]
    }

    /// Returns the figures, and the charge of some units, from the state that `quota.lua` shows.
    pub(crate) fn shown(
        &self,
        ask: &Ask,
        now: u64,
        units: u32,
        [end, used]: [u64; 2],
    ) -> Option<(Figures, Charge)> {
        let used = used.try_into().ok()?;
        let charge = Charge {
            at: end,
            frac: 0,
            units,
        };
        Some((self.figures(ask, &Usage { end, used }, now), charge))
    }
}

impl Per {
    /// Returns the start and the end of the calendar's period before the one that contains an instant, the end of that one, and
    /// the end of the next. A period from first use has none.
    fn periods(self, around: u64) -> [u64; 4] {
        if self.first_use_length().is_some() {
            return [0; 4];
        }
        let longest = u64::try_from(self.longest().as_micros()).unwrap_or(u64::MAX);
        let mut ends = [around.saturating_sub(3 * longest); 3];
        while ends[2] <= around {
            ends = [ends[1], ends[2], self.end(ends[2])];
        }
        [ends[0], ends[1], ends[2], self.end(ends[2])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::UtcOffset;

    #[test]
    fn periods_are_those_around_an_instant() {
        let pers = [Per::Hour, Per::Day, Per::Week, Per::Month];
        for per in pers.map(|per| per.at_offset(UtcOffset::minutes(-330))) {
            let mut instant = 1_700_000_000_000_000;
            for _ in 0..60 {
                for at in [instant - 1, instant] {
                    let [start, first, second, third] = per.periods(at);
                    assert!(first <= at && at < second, "{per:?} {at}");
                    assert_eq!(
                        [start - 1, start, first, second].map(|at| per.end(at)),
                        [start, first, second, third]
                    );
                }
                instant = per.end(instant);
            }
        }
        let hour = 3_600_000_000;
        assert_eq!(Per::Hour.periods(5), [0, 0, hour, 2 * hour]);
        assert_eq!(Per::Hour.periods(hour), [0, hour, 2 * hour, 3 * hour]);
    }
}
