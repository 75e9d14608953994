//! The bound of each limit, by all sequences of requests that are possible: none admits more than [`Limit::most_within`] says,
//! and some admit as much.

use std::{collections::BTreeMap, iter, sync::LazyLock, time::Duration};

use tollgate::{
    Limit, Limits,
    backend::custom::{Batch, BucketChange, Member, Operation, State},
    clock::Timestamp,
    quota::Per,
    tiers::Tier,
    transaction::Mode,
};

/// The first instant of 2026, a Thursday.
const T: u64 = 1_767_225_600_000_000;
const HOUR: u64 = 3_600_000_000;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn asks_for_one(limit: &Limit, state: &mut Option<State>, now: u64) -> bool {
    let (passes, change) = asks(limit, state.clone(), now);
    if let Some(change) = change {
        *state = change.state;
    }
    passes
}

/// Returns whether a request for one unit passes, and the change of the bucket.
fn asks(limit: &Limit, state: Option<State>, now: u64) -> (bool, Option<BucketChange>) {
    static NAMES: LazyLock<Limits> = LazyLock::new(|| {
        let limits = Limits::builder().limit("l", Limit::UNLIMITED);
        limits.build().unwrap()
    });
    let named = NAMES.get("l").unwrap();
    let members = [Member::new(named, "a", 1, Mode::CheckAndSpend).by(limit)];
    let batch = Batch::new(Operation::Spend, &members);
    let (outcome, changes) = batch.decide(Timestamp::from_micros(now), [state]);
    (
        outcome.unwrap().answers[0].passed,
        changes.into_iter().next(),
    )
}

/// All sequences of up to `most` requests at each of some instants, and the most that any has admitted within each span between
/// two of the instants, both included, by its length.
fn enumerate(
    limit: &Limit,
    instants: &[u64],
    most: u64,
    (state, admitted): (&Option<State>, &mut Vec<u64>),
    found: &mut BTreeMap<u64, u64>,
) {
    let Some(now) = instants.get(admitted.len()).copied() else {
        return;
    };
    let mut state = state.clone();
    for requests in 0..=most {
        if requests > 0 && !asks_for_one(limit, &mut state, now) {
            // Another one would be denied as well.
            break;
        }
        admitted.push(requests);
        let mut sum = 0;
        for (start, admitted) in iter::zip(instants, &*admitted).rev() {
            sum += admitted;
            let largest = found.entry(now - start + 1).or_default();
            *largest = sum.max(*largest);
        }
        enumerate(limit, instants, most, (&state, admitted), found);
        admitted.pop();
    }
}

/// No sequence exceeds the bound of any span. Those of `tight` lengths are reached.
fn assert_bound(limit: &Limit, instants: &[u64], most: u64, tight: impl Fn(u64) -> bool) {
    let mut found = BTreeMap::new();
    enumerate(limit, instants, most, (&None, &mut Vec::new()), &mut found);
    assert!(found.keys().any(|span| tight(*span)), "{limit}");
    for (span, admitted) in found {
        let bound = limit.most_within(us(span)).unwrap();
        assert!(admitted <= bound, "{limit}: {admitted} in {span} us");
        assert!(
            !tight(span) || admitted == bound,
            "{limit}: {admitted} in {span} us"
        );
    }
}

fn row(len: u64) -> Vec<u64> {
    (T..T + len).collect()
}

#[test]
fn state_has_the_time_when_its_bucket_is_full() {
    let tiers = |tier| Limit::tiers([tier]).unwrap();
    let tier = Tier::new(2, us(9));
    for (limit, after) in [
        (Limit::per(1, us(3)), Some(3)),
        (Limit::window(2, us(5)), Some(5)),
        (Limit::quota(2, Per::first_use(us(7))), Some(7)),
        (Limit::concurrent(2).hold(us(HOUR)), Some(HOUR)),
        // A unit counts, and a tier is active, for a microsecond longer.
        (tiers(tier), Some(10)),
        (tiers(tier.active(us(9)).cooldown(us(9))), Some(19)),
        (tiers(tier.cooldown(Tier::FOREVER).active(us(9))), None),
    ] {
        let (passes, change) = asks(&limit, None, T);
        assert!(passes, "{limit}");
        assert_eq!(change.unwrap().full_after, after.map(us), "{limit}");
    }
}

/// The fraction in a bucket may have been stored by a limit with another count.
#[test]
fn stored_fraction_is_below_the_count() {
    let by_count = |count| Limit::new(count, count, us(1)).unwrap();
    let (_, change) = asks(&by_count(10), None, T);
    let mut stored = change.unwrap().state;
    for _ in 0..8 {
        assert!(asks_for_one(&by_count(10), &mut stored, T));
    }
    // 9/10 of a microsecond are read as 2/3.
    let (passes, change) = asks(&by_count(3), stored.clone(), T);
    assert!(passes);
    let (_, full) = asks(&by_count(1), None, T);
    assert_eq!(change.unwrap().state, full.unwrap().state);
}

#[test]
fn rate_admits_burst_and_what_comes_back_within_a_span() {
    for (burst, period) in [(1, 1), (1, 2), (2, 2), (3, 2), (2, 3)] {
        let limit = Limit::per(1, us(period)).burst(burst);
        assert_bound(&limit, &row(7), u64::from(burst) + 1, |_| true);
    }
    // If a token takes a fraction of a microsecond, only whole microseconds are tested.
    for (burst, count, period) in [(2, 2, 3), (2, 3, 5)] {
        let limit = Limit::new(burst, count, us(period)).unwrap();
        assert_bound(&limit, &row(7), u64::from(burst) + 2, |span| {
            span == 1 + period
        });
    }
}

#[test]
fn window_admits_its_limit_within_each_window_of_a_span() {
    for (limit, window) in [(1, 1), (1, 3), (2, 2), (2, 3), (3, 4)] {
        assert_bound(&Limit::window(limit, us(window)), &row(7), 4, |_| true);
    }
}

#[test]
fn quota_is_admitted_once_for_each_period_that_a_span_touches() {
    for (quota, length) in [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3)] {
        let limit = Limit::quota(quota, Per::first_use(us(length)));
        // A request before the span has started the first period.
        assert_bound(&limit, &row(8), u64::from(quota) + 1, |span| {
            span + length <= 9
        });
    }
    for (per, ends) in [
        (Per::Hour, [1, 2, 3]),
        (Per::Day, [24, 48, 72]),
        // The shortest two months in a row are a February of 28 days and the next.
        (Per::Month, [31 * 24, 59 * 24, 90 * 24]),
    ] {
        let around = |end: u64| [T + end * HOUR - 1, T + end * HOUR];
        let instants: Vec<_> = ends.into_iter().flat_map(around).collect();
        assert_bound(&Limit::quota(2, per), &instants, 3, |span| span == 2);
    }
}

#[test]
fn tiers_admit_no_more_than_their_sum() {
    let tier = |limit, window| Tier::new(limit, us(window));
    let above = |limit, window, rest| tier(limit, window).active(us(window)).cooldown(us(rest));
    let one = |tier| Limit::tiers([tier]).unwrap();
    for limit in [one(tier(2, 2)), one(tier(3, 3)), one(above(2, 2, 0))] {
        assert_bound(&limit, &row(7), 4, |_| true);
    }
    let prison = [tier(2, 1).active(us(1)), tier(1, 4).active(us(4))];
    for tiers in [prison, [tier(1, 1), above(2, 2, 2)]] {
        assert_bound(&Limit::tiers(tiers).unwrap(), &row(6), 5, |span| span == 1);
    }
}
