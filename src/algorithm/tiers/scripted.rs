//! Tiers in Lua: what scripts are asked, and what they find.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{
    history::History,
    tier::Span,
    tiers::Tiers,
    view::{Grants, TierSnapshot, TierView, TierWindow},
};
use crate::algorithm::{
    action::Ask,
    scripted::{Argument, Arguments, Replied, Scripted, instant},
    time::NEVER,
};

/// The bytes before the records of tiers, and the bytes of a record.
const HEAD: usize = 10;
const RECORD: usize = 20;

/// The largest value that is answered as a whole, in bytes.
const SMALL: usize = 256;

impl Scripted for Tiers {
    const LETTER: &'static str = "T";
    const COUNTS_UNITS: bool = true;

    type Report = TiersReport;

    /// The most and the fewest units to grant, and the tiers.
    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let spans = self.spans();
        let (most, least) = (Argument::number(ask.cost), Argument::number(ask.min_cost));
        let mut arguments = Arguments::from_iter([most, least]);
        arguments.push(Argument::number(spans.len() as u64));
        arguments.extend(spans.iter().flat_map(|span| {
            let kind = u64::from(span.skippable) + 2 * u64::from(span.slides);
            let [window, active, cooldown] = [span.window, span.active, span.cooldown].map(ticks);
            let (limit, kind) = (Argument::number(span.limit), Argument::number(kind));
            [limit, window, active, cooldown, kind]
        }));
        arguments
    }

    /// A grant cannot be undone.
    fn refund_verb(&self, _: &Ask<'_>) -> Option<&'static str> {
        None
    }

    fn is_small(&self) -> bool {
        let sliding = self.spans().iter().filter(|span| span.slides);
        let places: usize = sliding.map(|span| span.limit as usize).sum();
        HEAD + RECORD * self.spans().len() + 8 * places <= SMALL
    }

    fn answered(&self, ask: &Ask<'_>) -> usize {
        ask.min_cost as usize
    }

    fn read_value(value: &[u8]) -> Option<History> {
        history(value)
    }

    /// Reads a report by `tiers.lua`: the time of the decision, and the figures of all tiers.
    fn read_report<R: Replied>(report: &[R]) -> Option<TiersReport> {
        let (now, figures) = report.split_first()?;
        let (now, mut figures, mut tiers) = (now.number()?, figures.iter(), SmallVec::new());
        while figures.len() > 0 {
            tiers.push(StoredTier::read(&mut figures)?);
        }
        Some(TiersReport { now, tiers })
    }

    fn view_report<'a>(&self, report: &'a TiersReport, _: &Ask<'_>, asked: u64) -> TierView<'a> {
        TierView::of(report, asked)
    }

    fn units(state: &TierSnapshot) -> u32 {
        state.grant.units()
    }
}

/// Encodes a span in microseconds.
fn ticks(us: u64) -> Argument {
    match us {
        NEVER => Argument::NONE,
        us => Argument::number(us),
    }
}

/// The part of a large value on which one request depends.
#[derive(Clone, Debug)]
pub(crate) struct TiersReport {
    /// The time of the decision, which is not before the last grant.
    now: u64,
    tiers: SmallVec<[StoredTier; 2]>,
}

#[derive(Clone, Debug)]
struct StoredTier {
    entry: Option<u64>,
    used: u32,
    newest: u64,
    oldest: SmallVec<[u64; 2]>,
}

impl Grants for TiersReport {
    fn now(&self, _: u64) -> u64 {
        self.now
    }

    fn entry(&self, tier: usize) -> Option<u64> {
        self.tiers.get(tier)?.entry
    }

    fn window(&self, tier: usize, _: &Span, _: u64) -> TierWindow<'_> {
        let tier = self.tiers.get(tier);
        tier.map_or_else(TierWindow::default, StoredTier::window)
    }
}

impl StoredTier {
    fn window(&self) -> TierWindow<'_> {
        TierWindow::seen(self.used, &self.oldest, self.newest)
    }

    fn read<'a, R: Replied + 'a>(figures: &mut impl Iterator<Item = &'a R>) -> Option<Self> {
        let mut next = || figures.next();
        let entry = next()?.signed()?;
        let used = next()?.small()?;
        let newest = next()?.number()?;
        let shown = next()?.number()?;
        let oldest = (0..shown).map(|_| next()?.number());
        Some(Self {
            entry: entry.try_into().ok(),
            used,
            newest,
            oldest: oldest.collect::<Option<_>>()?,
        })
    }
}

/// Reads a value in the layout that `tiers.lua` documents. Returns `None` if no grants lead to it.
fn history(value: &[u8]) -> Option<History> {
    let (head, rest) = value.split_first_chunk::<HEAD>()?;
    let [b'T', tiers, last @ ..] = *head else {
        return None;
    };
    let (records, places) = rest.split_at_checked(RECORD * usize::from(tiers))?;
    let ((records, _), (places, [])) = (records.as_chunks::<RECORD>(), places.as_chunks::<8>())
    else {
        return None;
    };
    let (mut history, mut area) = (History::begin(instant(last)?, records.len()), 0);
    for record in records {
        let (entry, counts) = record.split_first_chunk::<8>()?;
        let never = f64::from_le_bytes(*entry) < 0.0;
        let entry = if never { None } else { Some(instant(*entry)?) };
        let ([kept, oldest, ring], _) = counts.as_chunks::<4>().0.split_first_chunk::<3>()?;
        let [kept, oldest, ring] = [kept, oldest, ring].map(|count| u32::from_le_bytes(*count));
        if ring == 0 {
            history.push_counted(entry, kept)?;
            continue;
        }
        // Without this bound, a broken value could take any amount of memory.
        if kept > ring || ring > Tiers::MAX_SLIDING {
            return None;
        }
        let place = |nth: u32| area + ((oldest % ring + nth) % ring) as usize;
        let times = (0..kept).map(|nth| instant(*places.get(place(nth))?));
        history.push_logged(entry, times.collect::<Option<VecDeque<_>>>()?)?;
        area += ring as usize;
    }
    Some(history)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::tiers::Tier;

    const START: u64 = 1_767_225_600_000_000;
    const FIRST: f64 = 1_767_225_600_000_000.0;
    const SECOND: f64 = 1_767_225_600_000_009.0;

    /// A value with a sliding tier of three places, in which two units are kept, and a tier that counts.
    fn value(kept: u32, ring: u32, first: f64) -> Vec<u8> {
        let mut value = vec![b'T', 2];
        value.extend(SECOND.to_le_bytes());
        for (entry, counts) in [(FIRST, [kept, 2, ring]), (-1.0, [0, 0, 0])] {
            value.extend(entry.to_le_bytes());
            value.extend(counts.map(u32::to_le_bytes).concat());
        }
        value.extend([SECOND, 0.0, first].map(f64::to_le_bytes).concat());
        value
    }

    #[test]
    fn value_is_read_as_the_grants_that_lead_to_it() {
        let second = Duration::from_secs(1);
        let above = Tier::new(1, second).active(second);
        let tiers = Tiers::new([Tier::new(3, second), above]).unwrap();
        let mut history = History::default();
        for at in [START, START + 9] {
            tiers.request(&mut history, at, 1..=1).unwrap();
        }
        assert_eq!(super::history(&value(2, 3, FIRST)).unwrap(), history);
    }

    #[test]
    fn value_that_no_grants_lead_to_is_rejected() {
        let good = value(2, 3, FIRST);
        assert!(super::history(&good).is_some());
        let mut cases = vec![
            ("more units than places", value(4, 3, FIRST)),
            ("too many places", value(2, 5000, FIRST)),
            ("a fraction", value(2, 3, 1_767_225_600_000_000.5)),
            ("not a number", value(2, 3, f64::NAN)),
            ("a unit before 1970", value(2, 3, -1.0)),
            (
                "a unit after the next one",
                value(2, 3, 1_767_225_600_000_010.0),
            ),
            ("bytes that are left over", [&good[..], b"x"].concat()),
            ("another letter", [b"U", &good[1..]].concat()),
        ];
        // The unit in the last place is needed.
        cases.extend((0..good.len()).map(|len| ("a part", good[..len].to_vec())));
        cases.retain(|(_, value)| !value.is_empty());
        for (case, value) in cases {
            assert!(super::history(&value).is_none(), "{case}: {value:?}");
        }
    }
}
