//! Tests with examples, with Charon's own scenarios, and with properties of any stream of requests.

mod model;
mod streams;

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use self::model::Split;
use super::{
    Grant, History, Tier, Tiers,
    history::{ReportedTier, TierLog},
};
use crate::algorithm::{
    Algorithm, Arithmetic, Ask, AskError, Charge, Figures, NEVER, Parameters, Share, Verb, Wait,
};

const SECOND: u64 = 1_000_000;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn tiers<const N: usize>(tiers: [Tier; N]) -> Tiers {
    Tiers::new(tiers).unwrap()
}

/// Five per second, and fifty more in a burst of five seconds. The next burst is possible 15 seconds later.
fn penalty() -> Tiers {
    let burst = Tier::new(50, secs(5)).active(secs(5)).cooldown(secs(15));
    tiers([Tier::new(5, secs(1)).active(secs(1)), burst])
}

fn group(least: u32, most: u32) -> Ask {
    let mut ask = Ask::new(Verb::Spend, most);
    ask.min_cost = least;
    ask
}

/// Requests units. Returns the units from each tier if the request passes.
fn request(tiers: &Tiers, history: &mut History, now: u64, least: u32, most: u32) -> Option<Split> {
    let ask = group(least, most);
    let before = history.clone();
    let passes = tiers.judge(&ask, history, now);
    let charge = tiers.apply(&ask, history, now);
    let split: Split = Grant::from(charge).split(tiers).collect();
    assert_eq!(
        charge.units,
        split.iter().map(|(_, units)| units).sum::<u32>()
    );
    assert_eq!(
        Grant::from(charge).tier(),
        split.last().map(|(tier, _)| *tier)
    );
    assert!(passes || *history == before, "a rejection changes nothing");
    passes.then_some(split)
}

/// Returns the figures for a request of this number of units, without sending it.
fn figures(tiers: &Tiers, history: &History, now: u64, units: u32) -> Figures {
    let peek = Ask::new(Verb::Peek, units);
    let mut after = history.clone();
    assert!(!tiers.judge(&peek, history, now));
    assert_eq!(
        (tiers.apply(&peek, &mut after, now), &after),
        (Charge::default(), history)
    );
    tiers.figures(&peek, history, now)
}

/// Returns the remaining units, and the microseconds until this number of units passes, until more are left, and until the reset.
fn seen(tiers: &Tiers, history: &History, now: u64, units: u32) -> (u32, [u64; 3]) {
    let figures = figures(tiers, history, now, units);
    assert_eq!(
        (figures.limit, figures.delay),
        (tiers.capacity(), Wait::ZERO)
    );
    let waits = [figures.next_after, figures.more_after, figures.reset_after];
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap();
    (
        figures.remaining,
        waits.map(|wait| wait.duration().map_or(NEVER, micros)),
    )
}

#[derive(Deserialize)]
struct File {
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
    tiers: Vec<(u32, [Option<u64>; 3], bool)>,
    events: Vec<Event>,
}

/// The instant; the fewest and the most units; the granted ones, and those of each tier; the time until the request would
/// be granted; the phases before.
#[derive(Deserialize)]
struct Event(
    u64,
    u32,
    u32,
    u32,
    BTreeMap<usize, u32>,
    Option<u64>,
    Vec<String>,
);

#[test]
fn charons_scenarios_play_out() {
    let file: File = serde_json::from_str(include_str!("../../testing/charon.json")).unwrap();
    assert_eq!(file.scenarios.len(), 8);
    for Scenario {
        name,
        tiers,
        events,
    } in file.scenarios
    {
        // A millisecond of the scenarios is a microsecond here: each is the smallest unit of time.
        let span = |ticks: Option<u64>| ticks.map_or(Tier::FOREVER, Duration::from_micros);
        let tiers = Tiers::new(tiers.into_iter().map(|(limit, spans, skippable)| Tier {
            limit,
            window: span(spans[0]),
            active: span(spans[1]),
            cooldown: span(spans[2]),
            skippable,
        }));
        let tiers = tiers.unwrap();
        let mut history = History::default();
        for Event(now, least, most, granted, split, retry_after, phases) in events {
            let seen = history.tiers(&tiers, now);
            let seen = seen.map(|tier| format!("{:?}", tier.phase).to_lowercase());
            assert_eq!(seen.collect::<Vec<_>>(), phases, "{name} at {now}");
            let split_now = request(&tiers, &mut history, now, least, most);
            assert_eq!(split_now.is_some(), granted > 0, "{name} at {now}");
            assert_eq!(
                split_now.clone().unwrap_or_default(),
                Vec::from_iter(split),
                "{name} at {now}"
            );
            if split_now.is_none() {
                let wait = figures(&tiers, &history, now, least).next_after.duration();
                assert_eq!(
                    wait,
                    retry_after.map(Duration::from_micros),
                    "{name} at {now}"
                );
            }
        }
    }
}

#[test]
fn group_gets_the_units_left_and_at_least_its_minimum() {
    let tiers = penalty();
    let mut history = History::default();
    assert_eq!(seen(&tiers, &history, 0, 55), (55, [0, 0, 0]));
    assert_eq!(seen(&tiers, &history, 0, 56), (55, [NEVER, 0, 0]));
    let mut granted = |now, least, most| request(&tiers, &mut history, now, least, most);
    assert_eq!(granted(0, 56, 100), None);
    assert_eq!(granted(0, 2, 7), Some(vec![(0, 5), (1, 2)]));
    assert_eq!(granted(0, 49, 90), None);
    assert_eq!(granted(0, 48, 90), Some(vec![(1, 48)]));
    let burst = 5 * SECOND + 1;
    let cooldown = 20 * SECOND + 1;
    assert_eq!(seen(&tiers, &history, 0, 1), (0, [burst, burst, cooldown]));
    assert_eq!(
        seen(&tiers, &history, 0, 6),
        (0, [cooldown, burst, cooldown])
    );
    let lowest = request(&tiers, &mut history, burst, 1, 9);
    assert_eq!(lowest, Some(vec![(0, 5)]));
    assert_eq!(
        seen(&tiers, &history, burst, 1),
        (0, [SECOND + 1, SECOND + 1, 15 * SECOND])
    );
}

#[test]
fn more_is_left_when_a_unit_leaves_or_the_tier_ends() {
    for (active, more) in [(1, SECOND + 1), (3, 2 * SECOND + 1)] {
        let tiers = tiers([Tier::new(5, secs(2)).active(secs(active))]);
        let mut history = History::default();
        request(&tiers, &mut history, 0, 1, 1);
        request(&tiers, &mut history, 9, 1, 1);
        assert_eq!(
            seen(&tiers, &history, 9, 1).1[1],
            more - 9,
            "active for {active} s"
        );
    }
}

#[test]
fn waits_count_from_a_clock_that_has_stepped_back() {
    let prison = Tier::new(1, secs(15)).active(secs(15));
    let tiers = tiers([Tier::new(5, secs(1)).active(secs(1)), prison]);
    let mut history = History::default();
    request(&tiers, &mut history, 60 * SECOND, 6, 6);
    let wait = 20 * SECOND + 1;
    assert_eq!(
        seen(&tiers, &history, 55 * SECOND, 1),
        (0, [wait, wait, wait])
    );
    assert_eq!(request(&tiers, &mut history, 55 * SECOND, 1, 1), None);
    request(&tiers, &mut history, 75 * SECOND + 1, 1, 1);
    request(&tiers, &mut history, 60 * SECOND, 4, 4);
    let (_, waits) = seen(&tiers, &history, 60 * SECOND, 1);
    assert_eq!(waits, [0, 16 * SECOND + 2, 16 * SECOND + 2]);
}

#[test]
fn unsupported_operation_on_tiers_is_an_error() {
    let of = |verb, cost| penalty().accepts(&Ask::new(verb, cost));
    assert_eq!(of(Verb::Refund, 1), Err(AskError::RefundOfTiers));
    assert_eq!(of(Verb::Debit, 1), Err(AskError::DebitOfTiers));
    assert_eq!(of(Verb::Renew, 1), Err(AskError::Renewal));
    assert_eq!(of(Verb::Spend, 0), Err(AskError::Minimum(0)));
    assert_eq!(of(Verb::Peek, 0), Err(AskError::Minimum(0)));
    assert_eq!(of(Verb::Spend, u32::MAX), Ok(()));
    assert_eq!(penalty().accepts(&group(0, 3)), Err(AskError::Minimum(0)));
    assert_eq!(penalty().accepts(&group(4, 3)), Err(AskError::Minimum(4)));
    assert_eq!(penalty().accepts(&group(3, 3)), Ok(()));
}

#[test]
fn grant_is_a_charge() {
    let limit = |limit| Tier::new(limit, secs(1)).active(secs(1)).cooldown(secs(1));
    let tiers = tiers([limit(5), limit(3), limit(4)]);
    let mut history = History::default();
    request(&tiers, &mut history, 0, 2, 2);
    let charge = tiers.apply(&group(7, 7), &mut history, 0);
    let of = |at, frac, units| Charge { at, frac, units };
    assert_eq!(charge, of(3, 0b111, 7));
    let grant = Grant::from(charge);
    assert_eq!(
        (grant.units, grant.tier(), Charge::from(grant)),
        (7, Some(2), charge)
    );
    assert_eq!(
        grant.split(&tiers).collect::<Split>(),
        [(0, 3), (1, 3), (2, 1)]
    );
    let wild = Grant::from(of(NEVER, u32::MAX, u32::MAX));
    assert!(wild.split(&tiers).all(|(tier, _)| tier < 3));
}

#[test]
fn client_stays_in_its_tier_when_the_limit_changes() {
    let tier = |limit, span| Tier::new(limit, secs(span)).active(secs(span));
    let prison = tiers([tier(5, 1), tier(1, 15)]);
    let mut history = History::default();
    let last = tier(7, 60).cooldown(secs(60));
    let harsher = tiers([tier(9, 2).cooldown(secs(2)), tier(1, 60), last]);
    request(&prison, &mut history, 0, 6, 6);
    let wait = |tiers: &Tiers, units| seen(tiers, &history, SECOND, units).1[0];
    assert_eq!(wait(&prison, 1), 14 * SECOND + 1);
    assert_eq!(wait(&harsher, 8), 59 * SECOND + 1);
    let entered = request(&harsher, &mut history, SECOND, 1, 1);
    assert_eq!(entered, Some(vec![(2, 1)]), "the prison is full");
    assert_eq!(request(&prison, &mut history, SECOND, 1, 1), None);
    request(&prison, &mut history, 16 * SECOND, 1, 1);
    assert_eq!(history.tiers.len(), 2);
}

#[test]
fn units_are_kept_when_a_window_begins_or_ceases_to_slide() {
    let lowest = |active| {
        tiers([Tier::new(5, secs(10))
            .active(secs(active))
            .cooldown(secs(10))])
    };
    let counts = lowest(10);
    let slides = lowest(30);
    let mut history = History::default();
    request(&counts, &mut history, 0, 3, 3);
    request(&slides, &mut history, 4 * SECOND, 2, 2);
    let wait = |units| seen(&slides, &history, 4 * SECOND, units).1[0];
    assert_eq!(
        [wait(3), wait(4)],
        [6 * SECOND + 1, 10 * SECOND + 1],
        "three leave first"
    );
    let now = 10 * SECOND;
    let longer = tiers([Tier::new(8, secs(20)).active(secs(20)).cooldown(secs(20))]);
    request(&longer, &mut history, now, 1, 1);
    let counted = TierLog {
        entry: Some(0),
        counted: 6,
        ..TierLog::default()
    };
    let expected = History {
        last: now,
        tiers: vec![counted],
    };
    assert_eq!(history, expected);
}

#[test]
fn lowered_limit_has_no_room_until_enough_units_have_left() {
    let lowest = |limit| Tier::new(limit, secs(10));
    let higher = tiers([lowest(5)]);
    let lower = tiers([lowest(2)]);
    let mut history = History::default();
    for now in 0..5 {
        request(&higher, &mut history, now, 1, 1);
    }
    let expected = (0, [10 * SECOND, 10 * SECOND - 4, NEVER]);
    assert_eq!(seen(&lower, &history, 5, 2), expected);
    let report = |used, oldest: &[u64]| {
        let entry = Some(0);
        let oldest = oldest.to_vec();
        History::reported(
            4,
            [ReportedTier {
                entry,
                used,
                oldest,
                newest: 4,
            }],
        )
    };
    let whole = report(5, &[0, 1, 2, 3, 4]).unwrap();
    assert_eq!(seen(&lower, &whole, 5, 2), expected);
    assert_eq!(report(1, &[0, 4]), None);
    assert_eq!(report(4097, &[0, 4]), None);
    let above = tiers([lowest(2), lowest(1).active(secs(10))]);
    assert_eq!(
        seen(&above, &history, 5, 1).1[0],
        0,
        "the tier above has room"
    );
    request(&above, &mut history, 5, 1, 1);
    assert_eq!(
        history.tiers[0].used(&above.0[0], 5),
        2,
        "older units are forgotten"
    );
}

#[test]
fn tier_above_a_lowered_limit_has_room_when_its_cooldown_ends() {
    let above = Tier::new(1, secs(10)).active(secs(10)).cooldown(secs(10));
    let of = |limit| tiers([Tier::new(limit, secs(100)), above]);
    let mut history = History::default();
    request(&of(5), &mut history, 0, 6, 6);
    assert_eq!(seen(&of(2), &history, 1, 1).1[0], 20 * SECOND);
}

#[test]
fn share_is_of_each_limit() {
    let Algorithm::Tiers(shared) = penalty().share(Share::of_fleet(4)) else {
        panic!("they stay tiers")
    };
    let shared: Vec<_> = shared.iter().collect();
    assert_eq!(
        (shared[0].limit, shared[1].limit, shared[1].cooldown),
        (2, 13, secs(15))
    );
}
