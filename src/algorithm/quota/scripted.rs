use super::{Per, Quota, Usage};
use crate::algorithm::{Arithmetic, Ask, Charge, Figures};

impl Quota {
    /// Returns the numbers of a question, as `quota.lua` reads them, with the periods around an instant. The largest number is sent
    /// as -1.
    pub(crate) fn question(&self, ask: &Ask, around: u64) -> [u64; 8] {
        let length = self.per.first_use_length();
        let length = length.map(|length| u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
        let mut question = [0; 8];
        question[0] = self.quota.into();
        question[1] = ask.cost.into();
        question[2] = length.unwrap_or(u64::MAX);
        question[3..].copy_from_slice(&self.per.periods(around));
        question
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
    /// Returns the start and the ends of three successive calendar periods, of which the second contains an instant, and the end of
    /// the fourth. They are zeros for a period from first use.
    fn periods(self, around: u64) -> [u64; 5] {
        if self.first_use_length().is_some() {
            return [0; 5];
        }
        let mut ends = [around.saturating_sub(3 * self.longest_us()); 5];
        while ends[2] <= around {
            ends.rotate_left(1);
            ends[4] = self.end(ends[3]);
        }
        ends
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
                    let [start, first, second, third, after] = per.periods(at);
                    assert!(first <= at && at < second, "{per:?} {at}");
                    assert_eq!(
                        [start - 1, start, first, second, third].map(|at| per.end(at)),
                        [start, first, second, third, after]
                    );
                }
                instant = per.end(instant);
            }
        }
        let hour = 3_600_000_000;
        assert_eq!(
            Per::Hour.periods(5),
            [0, 0, 1, 2, 3].map(|hours| hours * hour)
        );
        assert_eq!(
            Per::Hour.periods(hour),
            [0, 1, 2, 3, 4].map(|hours| hours * hour)
        );
    }
}
