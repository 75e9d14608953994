use std::{
    hash::{Hash, Hasher},
    mem,
};

use jiff::{
    Timestamp as Instant,
    tz::{self, AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase},
};
use parking_lot::Mutex;

use crate::{algorithm::LimitError, clock::Timestamp, id::shortened, message::nearest};

/// A time zone, with the rules that the database had when the name was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zone(&'static ZoneRules);

#[derive(Debug, PartialEq, Eq)]
struct ZoneRules {
    name: String,
    time_zone: TimeZone,
    drift_us: u64,
}

impl Zone {
    /// Finds a zone by its name in the IANA database, in upper or lower case.
    pub(super) fn named(name: &str) -> Result<Self, LimitError> {
        let found = tz::db().get(name);
        // Some systems have a database without the older names.
        let found = found.or_else(|_| TimeZoneDatabase::bundled().get(name));
        let zone = found.ok().and_then(Self::of);
        zone.ok_or_else(|| unknown(name))
    }

    /// Returns the zone with these rules. Each zone is kept as long as the program runs, so that limits are small and can be
    /// copied. There are about 600 zones. A name has another one only after a new database has changed its rules.
    pub(super) fn of(time_zone: TimeZone) -> Option<Self> {
        static KNOWN: Mutex<Vec<&'static ZoneRules>> = Mutex::new(Vec::new());

        let name = time_zone.iana_name()?.to_owned();
        let mut known = KNOWN.lock();
        let mut rules = known.iter().copied();
        let same = rules.find(|rules| rules.name == name && rules.time_zone == time_zone);
        Some(Self(same.unwrap_or_else(|| {
            let rules = Box::leak(Box::new(ZoneRules {
                name,
                drift_us: drift_us(&time_zone),
                time_zone,
            }));
            known.push(rules);
            rules
        })))
    }

    pub(crate) fn name(self) -> &'static str {
        &self.0.name
    }

    /// Returns the difference between the largest and the smallest offset from UTC since 1970, in microseconds.
    pub(super) fn drift_us(self) -> u64 {
        self.0.drift_us
    }

    /// Returns the end of the period that contains an instant. `next` returns the end of the period that contains a local time.
    pub(super) fn end(self, now: i64, next: impl Fn(i64) -> i64) -> i64 {
        let zone = &self.0.time_zone;
        let mut local = now + offset_at(zone, now);
        loop {
            local = next(local);
            let end = first_instant(zone, local);
            // When clocks go back past the end of a period, they show its last minutes again during the next period.
            if end > now {
                return end;
            }
        }
    }
}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// Returns the error for an unknown name, with what to write instead.
fn unknown(name: &str) -> LimitError {
    let database = TimeZoneDatabase::bundled();
    let names: Vec<_> = database.available().collect();
    // The last part of a name is also compared. Abbreviations are not suggested, because `EST` resembles `PST` but is another time.
    let names = names.iter().map(|name| name.as_str());
    let mut places = names.filter(|name| name.contains('/'));
    let last_parts = places.clone().filter_map(|name| name.rsplit('/').next());
    let words: Vec<_> = places.clone().chain(last_parts).collect();
    let near = nearest(name, &words);
    let remedy = match near.and_then(|near| places.find(|name| name.ends_with(near))) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "write a name of the IANA database, such as `America/Los_Angeles`".to_owned(),
    };
    let message = format!("time_zone is `{}`: {remedy}", shortened(name));
    LimitError::value("time_zone", message)
}

/// Returns the first instant at which the clocks show a local time or, if they skip it, a later one.
fn first_instant(zone: &TimeZone, local: i64) -> i64 {
    let shown = Offset::UTC.to_datetime(instant(local));
    match zone.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Unambiguous { offset } => local - micros(offset),
        AmbiguousOffset::Fold { before, .. } => local - micros(before),
        AmbiguousOffset::Gap { before, after } => {
            let mut changes = changes(zone, local - micros(after));
            let change = changes.find(|(at, offset)| at + offset > local);
            change.map_or(local - micros(before), |(at, _)| at)
        }
    }
}

/// Returns the changes of a zone's clocks after an instant, each with the offset from then on.
fn changes(zone: &TimeZone, after: i64) -> impl Iterator<Item = (i64, i64)> {
    let changes = zone.following(instant(after));
    let changes =
        changes.map(|change| (change.timestamp().as_microsecond(), micros(change.offset())));
    // For a zone without rules for the future, jiff 1.0 repeats the last change without end.
    let mut last = after;
    changes.take_while(move |(at, _)| *at > mem::replace(&mut last, *at))
}

fn drift_us(zone: &TimeZone) -> u64 {
    let end = Timestamp::END.as_micros().cast_signed();
    let changes = changes(zone, 0).take_while(|(at, _)| *at < end);
    let offsets = changes
        .map(|(_, offset)| offset)
        .chain([offset_at(zone, 0)]);
    let (least, most) = offsets.fold((i64::MAX, i64::MIN), |(least, most), offset| {
        (least.min(offset), most.max(offset))
    });
    most.abs_diff(least)
}

fn offset_at(zone: &TimeZone, us: i64) -> i64 {
    micros(zone.to_offset(instant(us)))
}

/// Returns an instant in microseconds since the Unix epoch. Decisions end thousands of years before the last one.
fn instant(us: i64) -> Instant {
    Instant::from_microsecond(us).unwrap_or(Instant::MAX)
}

fn micros(offset: Offset) -> i64 {
    i64::from(offset.seconds()) * 1_000_000
}
