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
    scripted::{Argument, Arguments, GroupScript, Replied, Scripted},
    time::NEVER,
};

impl Scripted for Tiers {
    type Found = StoredTiers;

    fn group_script(&self) -> Option<GroupScript> {
        Some(GroupScript::Grants)
    }

    /// The most and the fewest units to grant, and the tiers.
    fn spend_arguments(&self, ask: &Ask<'_>) -> Arguments {
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

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let mut arguments = self.spend_arguments(ask);
        arguments.insert(0, Argument::Text("T"));
        arguments
    }

    /// A grant cannot be undone.
    fn refund_verb(&self, _: &Ask<'_>) -> Option<&'static str> {
        None
    }

    fn most_taken(ask: &Ask<'_>) -> u32 {
        ask.cost
    }

    fn spend_weight(&self, ask: &Ask<'_>) -> usize {
        1 + 5 * self.spans().len() + self.answered(ask)
    }

    fn answered(&self, ask: &Ask<'_>) -> usize {
        ask.min_cost as usize
    }

    /// Reads a report by `tiers.lua` and the number of granted units, or a stored value.
    fn read_found<R: Replied>(first: &R, second: &R, now: u64) -> Option<StoredTiers> {
        match first.bytes() {
            Some(value) => StoredTiers::of_value(value, now),
            None => StoredTiers::read(first.list()?, second.small()?, now),
        }
    }

    fn view_found<'a>(&self, found: &'a StoredTiers, _: &Ask<'_>) -> TierView<'a> {
        found.view()
    }

    fn spend_found(
        &self,
        ask: &Ask<'_>,
        found: &StoredTiers,
        _: u64,
    ) -> Option<(u32, StoredTiers)> {
        found.request(self, ask.cost, ask.min_cost)
    }

    fn note_taken(found: &mut StoredTiers, units: u32) {
        found.granted = units;
    }

    fn agrees(found: &StoredTiers, state: &TierSnapshot) -> bool {
        found.granted == state.grant.units()
    }
}

/// Encodes a span in microseconds.
fn ticks(us: u64) -> Argument {
    match us {
        NEVER => Argument::NONE,
        us => Argument::number(us),
    }
}

/// The stored state of a bucket with tiers, as far as one request depends on it.
#[derive(Clone, Debug)]
pub(crate) struct StoredTiers {
    /// The time of the request, by the server's clock or the client's.
    asked: u64,
    found: FoundGrants,
    /// The units that the script has granted.
    granted: u32,
}

#[derive(Clone, Debug)]
enum FoundGrants {
    /// All grants.
    All(History),
    /// The part that the script has reported.
    Some(ReportedGrants),
}

#[derive(Clone, Debug)]
struct ReportedGrants {
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

impl StoredTiers {
    /// Reads a report by `tiers.lua`: the time of the decision, and the figures of all tiers.
    fn read<R: Replied>(report: &[R], granted: u32, asked: u64) -> Option<Self> {
        let (now, figures) = report.split_first()?;
        let (now, mut figures, mut tiers) = (now.number()?, figures.iter(), SmallVec::new());
        while figures.len() > 0 {
            tiers.push(StoredTier::read(&mut figures)?);
        }
        Some(Self {
            asked,
            found: FoundGrants::Some(ReportedGrants { now, tiers }),
            granted,
        })
    }

    /// Reads a stored value, from which nothing has been granted yet. It is empty if there is no bucket.
    fn of_value(value: &[u8], asked: u64) -> Option<Self> {
        let history = match value {
            [] => History::default(),
            value => history(value)?,
        };
        Some(Self {
            asked,
            found: FoundGrants::All(history),
            granted: 0,
        })
    }

    /// Returns the number of units that a request is granted, and the state after it. Returns `None` for a part of the
    /// state.
    fn request(&self, tiers: &Tiers, most: u32, least: u32) -> Option<(u32, Self)> {
        let FoundGrants::All(history) = &self.found else {
            return None;
        };
        let mut after = history.clone();
        let grant = tiers.request(&mut after, self.asked, least.max(1)..=most);
        let next = Self {
            found: FoundGrants::All(after),
            ..*self
        };
        Some((grant.map_or(0, |grant| grant.units()), next))
    }

    fn view(&self) -> TierView<'_> {
        match &self.found {
            FoundGrants::All(history) => TierView::of(history, self.asked),
            FoundGrants::Some(reported) => TierView::of(reported, self.asked),
        }
    }
}

impl Grants for ReportedGrants {
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
    let (head, rest) = value.split_first_chunk::<10>()?;
    let [b'T', tiers, last @ ..] = *head else {
        return None;
    };
    let (records, places) = rest.split_at_checked(20 * usize::from(tiers))?;
    let ((records, _), (places, [])) = (records.as_chunks::<20>(), places.as_chunks::<8>()) else {
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

/// Reads an instant in microseconds, which is a whole number below 2⁵³.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is compared with its original"
)]
fn instant(bytes: [u8; 8]) -> Option<u64> {
    const END: f64 = (1_u64 << 53) as f64;
    let number = f64::from_le_bytes(bytes);
    ((0.0..END).contains(&number) && number.fract() == 0.0).then_some(number as u64)
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
        let stored = StoredTiers::of_value(&value(2, 3, FIRST), START + 10).unwrap();
        let (units, after) = stored.request(&tiers, 5, 2).unwrap();
        assert_eq!(units, 2, "one of each tier");
        assert_eq!(after.request(&tiers, 1, 1).unwrap().0, 0);
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
