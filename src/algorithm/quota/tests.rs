//! The periods of time zones, compared with those of Python.

#![cfg(feature = "zones")]

use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

use super::{CalendarUnit, Per, Quota, Usage, local_clock::LocalClock, zone::Zone};
use crate::algorithm::Arithmetic;

/// The local hours of some zones, with the instant at which each starts. `tests/data/zones/starts.py` has written it.
const STARTS: &str = include_str!("../../../tests/data/zones/starts.txt");

/// An hour of local time.
struct LocalHour {
    /// In hours since 1970.
    hour: i64,
    /// The instant at which it starts, in microseconds.
    start: u64,
    /// Whether clocks change within a day.
    is_near_change: bool,
}

fn local_hours(first: i64, runs: &str) -> Vec<LocalHour> {
    let mut hours = Vec::new();
    let mut hour = first;
    for run in runs.split(' ') {
        let (count, ahead) = run.split_once(':').unwrap();
        let count: i64 = count.parse().unwrap();
        let ahead: i64 = ahead.parse().unwrap();
        hours.extend((0..count).map(|place| LocalHour {
            hour: hour + place,
            start: (((hour + place) * 3600 - ahead) * 1_000_000).cast_unsigned(),
            is_near_change: place.min(count - place) <= 24,
        }));
        hour += count;
    }
    hours
}

fn is_first_of_month(hour: i64) -> bool {
    let local = Timestamp::from_second(hour * 3600).unwrap();
    local.to_string().contains("-01T")
}

/// Returns whether a period of this unit starts with an hour.
fn begins(unit: CalendarUnit, hour: i64) -> bool {
    let is_midnight = hour % 24 == 0;
    match unit {
        CalendarUnit::Hour => true,
        CalendarUnit::Day => is_midnight,
        // 5 January 1970 was a Monday.
        CalendarUnit::Week => is_midnight && (hour / 24 - 4) % 7 == 0,
        CalendarUnit::Month => is_midnight && is_first_of_month(hour),
    }
}

/// The end of every day, week and month, and of each hour near a change of clocks. Of the hours between changes, which are alike,
/// each 25th is enough.
#[test]
fn periods_of_strange_zones_end_where_those_of_python_do() {
    let rows = STARTS.lines().filter(|row| !row.starts_with('#'));
    for row in rows {
        let mut words = row.splitn(3, ' ');
        let mut word = || words.next().unwrap();
        let name = word();
        let first = word().parse().unwrap();
        let hours = local_hours(first, word());
        // The same database on each machine.
        let zone = TimeZoneDatabase::bundled().get(name).unwrap();
        let clock = LocalClock::Zone(Zone::of(zone).unwrap());
        for unit in CalendarUnit::ALL {
            let per = Per::calendar(unit).by_clock(clock).unwrap();
            let mut starts = hours.iter().filter(|hour| begins(unit, hour.hour));
            let mut start = starts.next().unwrap();
            assert_eq!(per.end(0), start.start, "{name}: the first {unit}");
            for end in starts {
                // Hours and days that are skipped as a whole start and end at the same instant.
                if start.start == end.start {
                    continue;
                }
                let is_long = unit != CalendarUnit::Hour;
                if is_long || start.is_near_change || start.hour % 25 == 0 {
                    let length = end.start - start.start;
                    for after in [0, length - 1] {
                        let now = start.start + after;
                        assert_eq!(per.end(now), end.start, "{name}: the {unit} at {now}");
                    }
                }
                start = end;
            }
        }
    }
}

#[test]
fn names_are_those_of_the_database() {
    let day = |name| Per::Day.try_in_zone(name);
    assert_eq!(day("america/los_angeles"), day("America/Los_Angeles"));
    let lower_case = day("america/los_angeles").unwrap();
    assert_eq!(
        lower_case.to_string(),
        "calendar day in America/Los_Angeles"
    );
    // An older name of the same zone stays as it is.
    assert_eq!(
        day("US/Pacific").unwrap().to_string(),
        "calendar day in US/Pacific"
    );
    assert_ne!(day("US/Pacific"), day("America/Los_Angeles"));
    assert_eq!(day("UTC").unwrap().end(5), Per::Day.end(5));
    for (name, remedy) in [
        ("America/Los_Angelos", "did you mean `America/Los_Angeles`?"),
        ("los angeles", "did you mean `America/Los_Angeles`?"),
        ("Berlin", "did you mean `Europe/Berlin`?"),
        (
            "PST",
            "write a name of the IANA database, such as `America/Los_Angeles`",
        ),
        (
            "+02:00",
            "write a name of the IANA database, such as `America/Los_Angeles`",
        ),
        ("Etc/Unknown", "write a name"),
        ("", "write a name"),
    ] {
        let message = day(name).unwrap_err().to_string();
        let expected = format!("time_zone is `{name}`: {remedy}");
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn bounds_count_the_periods_that_clocks_shorten() {
    let most = |per, hours: u64| {
        let limit = crate::Limit::quota(10, per);
        limit.most_within(std::time::Duration::from_secs(hours * 3600))
    };
    let day = Per::Day.in_zone("America/Los_Angeles");
    // A day of 23 hours, and a moment of both its neighbours.
    assert_eq!(most(day, 24), Some(30));
    assert_eq!(most(Per::Day, 24), Some(20));
    assert_eq!(most(day, 23), Some(20));
    let month = Per::Month.in_zone("America/Los_Angeles");
    assert_eq!(most(month, 28 * 24), Some(30));
    assert_eq!(most(Per::Month, 28 * 24), Some(20));
}

/// Returns a zone of a database with these rules, and none before.
fn with_rules(rules: &str) -> Zone {
    with_changes(&[], rules)
}

/// Returns a zone of a database: that of UTC until the first change, each with the offset from then on, both in seconds; and the
/// rules after the last change.
fn with_changes(changes: &[(i64, i32)], rules: &str) -> Zone {
    let count = u8::try_from(changes.len()).unwrap();
    let block = |bytes_of_time: usize| {
        let mut block = b"TZif2".to_vec();
        block.extend([0; 15]);
        // Each offset is a kind of local time. They share a name, which is empty.
        for number in [0, 0, 0, u32::from(count), u32::from(count) + 1, 1] {
            block.extend(number.to_be_bytes());
        }
        for (at, _) in changes {
            block.extend(&at.to_be_bytes()[8 - bytes_of_time..]);
        }
        block.extend(1..=count);
        for (_, offset) in [(0, 0)].iter().chain(changes) {
            block.extend(offset.to_be_bytes());
            block.extend([0; 2]);
        }
        block.push(0);
        block
    };
    let rules = format!("\n{rules}\n").into_bytes();
    let file = [block(4), block(8), rules].concat();
    Zone::of(TimeZone::tzif("Test/City", &file).unwrap()).unwrap()
}

/// Files of the first version have no rules for the time after their last change.
#[test]
fn zone_without_rules_for_the_future_stays_as_it_is() {
    const HOUR: u64 = 3_600_000_000;
    let day = |zone| Per::Day.by_clock(LocalClock::Zone(zone)).unwrap();
    let always_utc = with_rules("");
    assert_eq!(always_utc.drift_us(), 0);
    assert_eq!(day(always_utc).end(5), Per::Day.end(5));
    // On the first midnight of 1971, clocks skip an hour.
    let new_year = 365 * 24 * HOUR;
    let changed = with_changes(&[(365 * 24 * 3600, 3600)], "");
    assert_eq!(changed.drift_us(), HOUR);
    assert_eq!(day(changed).end(new_year - 1), new_year);
    assert_eq!(day(changed).end(new_year), new_year + 23 * HOUR);
}

#[test]
fn usage_counts_until_midnight_by_the_rules_of_its_time() {
    let old = with_rules("XST5");
    let new = with_rules("XST5XDT4,M3.2.0,M11.1.0");
    assert_eq!(old, with_rules("XST5"));
    assert_ne!(old, new);
    let quota = |zone| {
        let per = Per::Day.by_clock(LocalClock::Zone(zone)).unwrap();
        Quota::new(10, per).unwrap()
    };
    let instant = |text: &str| {
        let instant: Timestamp = text.parse().unwrap();
        instant.as_microsecond().cast_unsigned()
    };
    let noon = instant("2026-06-03T16:00:00Z");
    let end = quota(old).per().end(noon);
    assert_eq!(end, instant("2026-06-04T05:00:00Z"));
    let mut usage = Usage { end, used: 10 };
    // By the new rules, the day ends an hour earlier. That would be a second quota within the first day.
    assert_eq!(quota(new).per().end(noon), instant("2026-06-04T04:00:00Z"));
    assert!(!quota(new).adopt(&mut usage, noon));
    assert_eq!(usage.end, end);
}
