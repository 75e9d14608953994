//! The bound of each limit, by all sequences of requests that are possible: none admits more than
//! [`Limit::most_within`] says, and some admit as much.

use std::{collections::BTreeMap, time::Duration};

use tollgate::{
    Limit,
    clock::Timestamp,
    decision::{Outcome, Stored},
    quota::{Per, UtcOffset},
    tiers::Tier,
    transaction::{Batch, BucketKey, LimitKey, Member, Mode, Operation},
};

/// The first instant of Thursday, 1 January 2026.
const T: u64 = 1_767_225_600_000_000;
const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Asks for one unit.
fn asks_for_one(limit: &Limit, stored: &mut Stored, now: u64) -> bool {
    let key = BucketKey::new(LimitKey::Number(1), "a");
    let algorithm = limit.algorithm().unwrap();
    let members = [Member::new(key, algorithm, 1, Mode::CheckAndSpend)];
    let batch = Batch::new(Operation::Spend, &members);
    let now = Timestamp::from_micros(now);
    let before = stored.clone();
    let outcome = Outcome::decide(&batch, now, std::slice::from_mut(stored)).unwrap();
    let passed = outcome.answers()[0].passed();
    assert!(passed || *stored == before, "a denial writes nothing");
    passed
}

/// All sequences of up to `most` requests at each of some instants, and the most that any admitted within each span
/// between two of the instants, both included.
struct Enumeration<'a> {
    limit: &'a Limit,
    instants: &'a [u64],
    most: u32,
    /// How much the sequence at hand has admitted at each instant.
    admitted: Vec<u64>,
    /// By the span's length in microseconds.
    found: BTreeMap<u64, u64>,
}

impl Enumeration<'_> {
    fn run(limit: &Limit, instants: &[u64], most: u32) -> BTreeMap<u64, u64> {
        let mut all = Enumeration {
            limit,
            instants,
            most,
            admitted: Vec::new(),
            found: BTreeMap::new(),
        };
        all.descend(&Stored::default());
        all.found
    }

    fn descend(&mut self, stored: &Stored) {
        let place = self.admitted.len();
        let Some(now) = self.instants.get(place).copied() else {
            return;
        };
        let mut stored = stored.clone();
        let mut admitted = 0;
        for requests in 0..=self.most {
            if requests > 0 && !asks_for_one(self.limit, &mut stored, now) {
                // Another one would be denied as well.
                break;
            }
            admitted += u64::from(requests > 0);
            self.admitted.push(admitted);
            self.look_back(now);
            self.descend(&stored);
            self.admitted.pop();
        }
    }

    /// Adds up what was admitted within each span that ends now.
    fn look_back(&mut self, now: u64) {
        let mut sum = 0;
        for (start, admitted) in self.instants.iter().zip(&self.admitted).rev() {
            sum += admitted;
            let most = self.found.entry(now - start + 1).or_default();
            *most = sum.max(*most);
        }
    }
}

/// No sequence exceeds the bound of any span. Those of `tight` lengths are reached.
#[track_caller]
fn assert_bound(limit: &Limit, instants: &[u64], most: u32, tight: impl Fn(u64) -> bool) {
    let found = Enumeration::run(limit, instants, most);
    let mut reached = 0;
    for (span, admitted) in found {
        let bound = limit.most_within(us(span)).unwrap();
        assert!(admitted <= bound, "{limit}: {admitted} in {span} us");
        if tight(span) {
            assert_eq!(admitted, bound, "{limit} in {span} us");
            reached += 1;
        }
    }
    assert!(reached > 0, "{limit}");
}

fn row(len: u64) -> Vec<u64> {
    (T..T + len).collect()
}

#[test]
fn gcra_admits_burst_and_what_comes_back_within_a_span() {
    for (burst, period) in [(1, 1), (1, 2), (2, 2), (3, 2), (2, 3), (4, 3)] {
        let limit = Limit::per(1, us(period)).burst(burst);
        assert_bound(&limit, &row(8), burst + 1, |_| true);
    }
    // Where a token takes a part of a microsecond, instants between two are not asked at.
    for (burst, count, period) in [(2, 2, 3), (3, 3, 4), (2, 3, 5)] {
        let limit = Limit::new(burst, count, us(period)).unwrap();
        assert_bound(&limit, &row(7), burst + 2, |span| span == 1 + period);
    }
}

#[test]
fn window_admits_its_limit_within_each_window_of_a_span() {
    for (limit, window) in [(1, 1), (1, 3), (2, 2), (2, 3), (3, 4)] {
        let limit = Limit::window(limit, us(window));
        assert_bound(&limit, &row(8), 4, |_| true);
    }
}

#[test]
fn quota_from_first_use_admits_two_almost_together() {
    for (quota, length) in [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3), (2, 4)] {
        let limit = Limit::quota(quota, Per::first_use(us(length)));
        // What comes before the span has started the first period.
        assert_bound(&limit, &row(8), quota + 1, |span| span + length <= 9);
    }
}

#[test]
fn calendar_quota_is_admitted_once_for_each_period_that_a_span_touches() {
    let around = |ends: &[u64]| -> Vec<u64> {
        let instants = ends.iter().flat_map(|end| [T + end - 1, T + end]);
        instants.collect()
    };
    let quarter = UtcOffset::minutes(15);
    let days = |days| days * DAY;
    for (per, ends) in [
        (Per::Hour, vec![HOUR, 2 * HOUR, 3 * HOUR]),
        (
            Per::Hour.at_offset(quarter),
            vec![HOUR * 3 / 4, HOUR * 7 / 4],
        ),
        (Per::Day, vec![DAY, 2 * DAY, 3 * DAY]),
        (Per::Week, vec![days(4), days(11), days(18)]),
        // January, and a February of 28 days: the shortest two months in a row begin in February.
        (Per::Month, vec![days(31), days(59)]),
    ] {
        let limit = Limit::quota(2, per);
        let instants = around(&ends);
        let first = instants[0];
        let last = instants[instants.len() - 1];
        let tight = [2, last - first + 1];
        assert_bound(&limit, &instants, 3, |span| tight.contains(&span));
    }
}

#[test]
fn one_microsecond_sees_one_period() {
    let touched = |per, span| Limit::quota(1, per).most_within(span).unwrap();
    for (per, length) in [(Per::Hour, HOUR), (Per::Day, DAY), (Per::Week, 7 * DAY)] {
        assert_eq!(touched(per, us(1)), 1);
        for (whole, rest, expected) in [(0, 2, 2), (1, 1, 2), (1, 2, 3), (7, 1, 8), (7, 2, 9)] {
            assert_eq!(touched(per, us(whole * length + rest)), expected, "{whole}");
        }
    }
    // 28 days, as from February of 2026; 59, as from then to March; 365, as from any month of 2026; and 393 with another
    // February.
    for (days, expected) in [(28, 3), (59, 4), (365, 14), (393, 15)] {
        assert_eq!(
            touched(Per::Month, us(days * DAY + 1)),
            expected - 1,
            "{days}"
        );
        assert_eq!(touched(Per::Month, us(days * DAY + 2)), expected, "{days}");
    }
    let all = touched(Per::Month, Duration::MAX);
    assert!((142 * 12..143 * 12).contains(&all), "{all}");
}

#[test]
fn tiers_admit_no_more_than_their_sum() {
    let one = |tier: Tier| Limit::tiers([tier]).unwrap();
    let tier = |limit, window| Tier::new(limit, us(window));
    let ends = |limit, span, rest| tier(limit, span).active(us(span)).cooldown(us(rest));
    for limit in [
        one(tier(2, 2)),
        one(tier(1, 1)),
        one(tier(3, 3)),
        one(ends(2, 2, 0)),
    ] {
        assert_bound(&limit, &row(8), 4, |_| true);
    }
    // A tier that ends, and rests for longer than its window: nearly twice its limit meet at the edges.
    assert_bound(&one(ends(2, 1, 3)), &row(8), 3, |span| span <= 3);
    let prison = [tier(2, 1).active(us(1)), tier(1, 4).active(us(4))];
    let bursts = [tier(1, 1), ends(2, 2, 2)];
    let above = [ends(2, 2, 1), ends(1, 1, 2), ends(2, 3, 1).skippable()];
    for tiers in [&prison[..], &bursts, &above] {
        let limit = Limit::tiers(tiers.iter().copied()).unwrap();
        assert_bound(&limit, &row(7), 6, |span| span == 1);
    }
}

#[test]
fn limits_without_numbers_have_bounds_too() {
    let second = Duration::from_secs(1);
    assert_eq!(Limit::UNLIMITED.most_within(second), None);
    assert_eq!(Limit::concurrent(5).most_within(second), None);
    assert_eq!(Limit::BLOCKED.most_within(second), Some(0));
    let limits = [
        Limit::UNLIMITED,
        Limit::per_day(5),
        Limit::window(5, second),
        Limit::quota(5, Per::Day),
        Limit::quota(5, Per::first_use(second)),
        Limit::concurrent(5),
    ];
    for limit in limits {
        assert_eq!(limit.most_within(Duration::ZERO), Some(0), "{limit}");
    }
    assert_eq!(Limit::per_day(1000).most_within(us(DAY)), Some(1999));
    assert_eq!(
        Limit::per(5, us(900_000_000)).most_within(us(900_000_000)),
        Some(9)
    );
    assert_eq!(
        Limit::per_second(10).most_within(Duration::from_nanos(1)),
        Some(10)
    );
    assert_eq!(
        Limit::window(5, second).most_within(Duration::from_nanos(1)),
        Some(5)
    );
    assert_eq!(
        Limit::per_second(u32::MAX).most_within(Duration::MAX),
        Some(u64::MAX)
    );
}
