//! A history as bytes. `decision::Stored::to_bytes` documents the layout.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{History, Log, TierUnits};
use crate::{
    clock::Timestamp,
    tiers::Tiers,
    varint::{self, Malformed},
};

impl History {
    pub(crate) fn write_to(&self, bytes: &mut Vec<u8>) {
        varint::write(bytes, self.last);
        varint::write(bytes, self.logs.len() as u64);
        for log in &self.logs {
            log.write_to(self.last, bytes);
        }
    }

    /// Takes a history off the front. Rejects a history that no limit and no grants can lead to.
    pub(crate) fn read_from(bytes: &mut &[u8]) -> Result<Self, Malformed> {
        let last = varint::read(bytes)?;
        if last >= Timestamp::END.as_micros() {
            return Err(Malformed::Impossible("a grant after the year 2112"));
        }
        let len = varint::read(bytes)?;
        if len > Tiers::MAX as u64 {
            return Err(Malformed::Impossible("more than 16 tiers"));
        }
        let logs = (0..len).map(|_| Log::read_from(last, bytes));
        let logs = logs.collect::<Result<SmallVec<_>, _>>()?;
        Ok(Self { last, logs })
    }
}

impl Log {
    /// The first time counts back from the last grant, each of the others from the unit before it.
    fn write_to(&self, last: u64, bytes: &mut Vec<u8>) {
        let entry = self.entry.map_or(0, |entry| last - entry + 1);
        varint::write(bytes, entry);
        match &self.units {
            TierUnits::Counted(units) => varint::write(bytes, u64::from(*units) << 1),
            TierUnits::Logged(times) => {
                varint::write(bytes, (times.len() as u64) << 1 | 1);
                let mut later = last;
                for time in times.iter().rev() {
                    varint::write(bytes, later - time);
                    later = *time;
                }
            }
        }
    }

    fn read_from(last: u64, bytes: &mut &[u8]) -> Result<Self, Malformed> {
        let entry = match varint::read(bytes)? {
            0 => None,
            age => Some(earlier(last, age - 1)?),
        };
        let units = varint::read(bytes)?;
        let units = match (units >> 1, units & 1 == 1) {
            (units, true) => TierUnits::Logged(read_times(last, units, bytes)?),
            (units, false) => TierUnits::Counted(
                u32::try_from(units)
                    .map_err(|_| Malformed::Impossible("more than 2^32 units of a tier"))?,
            ),
        };
        if entry.is_none() && units != TierUnits::default() {
            return Err(Malformed::Impossible(
                "units of a tier that was never entered",
            ));
        }
        Ok(Self { entry, units })
    }
}

fn read_times(last: u64, len: u64, bytes: &mut &[u8]) -> Result<VecDeque<u64>, Malformed> {
    if len > u64::from(Tiers::MAX_SLIDING) {
        return Err(Malformed::Impossible(
            "more than 4096 units of a window that slides",
        ));
    }
    let mut later = last;
    let times = (0..len).map(|_| {
        later = earlier(later, varint::read(bytes)?)?;
        Ok(later)
    });
    let mut times = times.collect::<Result<VecDeque<_>, _>>()?;
    times.make_contiguous().reverse();
    Ok(times)
}

fn earlier(time: u64, by: u64) -> Result<u64, Malformed> {
    let earlier = time.checked_sub(by);
    earlier.ok_or(Malformed::Impossible("a time before 1970"))
}
