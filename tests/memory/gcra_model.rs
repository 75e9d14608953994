//! The arithmetic against a naive model: the same definitions in fractions of 128 bits.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{cmp::Ordering, time::Duration};

use proptest::{
    collection::vec,
    prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest},
};
use tollgate::{
    gcra::{Gcra, MAX_TICKS_US, Tat, Ticks},
    limit::{LimitError, LimitErrorKind},
};

use crate::support::scale::scaled;

/// An instant or a span in parts of a microsecond, as many as the limit's count.
type Parts = i128;

/// Section 3 of the design, literally.
#[derive(Clone, Copy, Debug)]
struct Model {
    burst: i128,
    count: i128,
    period: i128,
}

impl Model {
    fn parts(self, ticks: Ticks) -> Parts {
        let frac = i128::from(ticks.frac).min(self.count - 1);
        i128::from(ticks.us) * self.count + frac
    }

    fn now(self, now: u64) -> Parts {
        i128::from(now) * self.count
    }

    /// Whole tokens are `period` parts each, so `T` is one and `τ` is `burst` of them.
    fn spend(self, tat: Parts, now: Parts, cost: u32) -> Option<Parts> {
        let next = tat.max(now) + i128::from(cost) * self.period;
        (next <= now + self.burst * self.period).then_some(next)
    }

    fn debit(self, tat: Parts, now: Parts, cost: u32) -> Parts {
        let deepest = now + i128::from(MAX_TICKS_US) * self.count;
        let next = tat.max(now) + i128::from(cost) * self.period;
        next.min(deepest).max(tat)
    }

    fn refund(self, tat: Parts, now: Parts, cost: u32) -> Option<Parts> {
        let given = i128::from(cost) * self.period;
        (tat > now && given > 0).then(|| (tat - given).max(now))
    }

    fn remaining(self, tat: Parts, now: Parts) -> i128 {
        let room = now + self.burst * self.period - tat.max(now);
        room.div_euclid(self.period).max(0)
    }

    fn wait(self, tat: Parts, now: Parts, cost: u32) -> Parts {
        let next = tat.max(now) + i128::from(cost) * self.period;
        (next - now - self.burst * self.period).max(0)
    }

    fn next_token(self, tat: Parts, now: Parts) -> Option<Parts> {
        let held = self.remaining(tat, now);
        let missing = tat.max(now) + (held + 1) * self.period - now - self.burst * self.period;
        (held < self.burst).then_some(missing)
    }
}

/// A number of up to `bits` bits, each length as likely as the others.
fn up_to(bits: u32) -> impl Strategy<Value = u128> {
    (0..=bits, any::<u128>()).prop_map(|(bits, raw)| match bits {
        0 => 0,
        bits => raw >> (128 - bits),
    })
}

fn u32s() -> impl Strategy<Value = u32> {
    let edges = prop_oneof![
        Just(0),
        Just(1),
        Just(2),
        Just(u32::MAX),
        Just(u32::MAX - 1)
    ];
    prop_oneof![4 => up_to(32).prop_map(|n| u32::try_from(n).unwrap()), 1 => edges]
}

fn u64s() -> impl Strategy<Value = u64> {
    let edges = prop_oneof![
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 52),
        Just(1 << 63)
    ];
    prop_oneof![4 => up_to(64).prop_map(|n| u64::try_from(n).unwrap()), 1 => edges]
}

/// Any valid limit: bursts and counts up to 2³²−1, periods from 1 µs to the longest that is valid.
fn limits() -> impl Strategy<Value = (Gcra, Model)> {
    let common = (1..50_u32, 1..50_u32, 1..100_u128).prop_map(|(b, c, p)| (b, c, p * 12_345));
    let longest = (u32s(), u32s()).prop_map(|(b, c)| (b.max(1), c.max(1), u128::MAX));
    let any = (u32s(), u32s(), up_to(83)).prop_map(|(b, c, p)| (b.max(1), c.max(1), p.max(1)));
    prop_oneof![1 => common, 1 => longest, 4 => any].prop_map(|(burst, count, period)| {
        let longest = u128::from(MAX_TICKS_US) * u128::from(count) / u128::from(burst);
        limit(burst, count, period.min(longest).max(1)).unwrap()
    })
}

fn limit(burst: u32, count: u32, period: u128) -> Result<(Gcra, Model), LimitError> {
    let model = Model {
        burst: burst.into(),
        count: count.into(),
        period: period.try_into().unwrap(),
    };
    Ok((Gcra::new(burst, count, micros(period))?, model))
}

fn micros(us: u128) -> Duration {
    let seconds = u64::try_from(us / 1_000_000).unwrap();
    Duration::new(seconds, u32::try_from(us % 1_000_000).unwrap() * 1000)
}

/// An instant of a decision, and a TAT near it, far ahead of it or far behind, of any fraction.
fn instants() -> impl Strategy<Value = (u64, Tat)> {
    let now = prop_oneof![
        up_to(52),
        Just(0),
        Just(1_767_225_600_000_000),
        Just((1 << 52) - 1)
    ];
    (now, up_to(53), any::<bool>(), u32s()).prop_map(|(now, distance, ahead, frac)| {
        let now = u64::try_from(now).unwrap();
        let distance = u64::try_from(distance).unwrap();
        let us = match ahead {
            true => now + distance,
            false => now.saturating_sub(distance),
        };
        (now, Ticks { us, frac })
    })
}

/// A cost within the burst, its edges included.
fn within(burst: u32, raw: u32) -> u32 {
    match raw % 4 {
        0 => burst - (raw >> 2).min(burst),
        _ => u32::try_from(u64::from(raw) % (u64::from(burst) + 1)).unwrap(),
    }
}

/// The same number, in a form that shows it is normal.
fn exact(model: Model, ticks: Ticks) -> Parts {
    assert!(
        i128::from(ticks.frac) < model.count,
        "{ticks:?} has a fraction of a whole"
    );
    model.parts(ticks)
}

#[track_caller]
fn compare_all(gcra: &Gcra, model: Model, stored: Tat, now: u64, [fitting, any]: [u32; 2]) {
    compare_figures(gcra, model, stored, now, fitting);
    compare_changes(gcra, model, stored, now, fitting);
    compare_changes(gcra, model, stored, now, any);
    // Too long to be told apart: what saturates waits for longer than any debt lasts.
    let forever = i128::from(MAX_TICKS_US) * 4 * model.count;
    let ours = exact(model, gcra.wait(stored, now, any));
    let theirs = model.wait(model.parts(stored), model.now(now), any);
    assert!(
        ours == theirs || ours.min(theirs) > forever,
        "{ours} and {theirs}"
    );
}

#[track_caller]
fn compare_changes(gcra: &Gcra, model: Model, stored: Tat, now: u64, cost: u32) {
    let (tat, at) = (model.parts(stored), model.now(now));
    let exact = |ticks| exact(model, ticks);
    let spent = gcra.spend(stored, now, cost).map(exact);
    assert_eq!(spent, model.spend(tat, at, cost), "spend");
    let refunded = gcra.refund(stored, now, cost).map(exact);
    assert_eq!(refunded, model.refund(tat, at, cost), "refund");
    let debited = exact(gcra.debit(stored, now, cost));
    assert_eq!(debited, model.debit(tat, at, cost), "debit");
}

#[track_caller]
fn compare_figures(gcra: &Gcra, model: Model, stored: Tat, now: u64, cost: u32) {
    let (tat, at) = (model.parts(stored), model.now(now));
    let exact = |ticks| exact(model, ticks);
    let wait = exact(gcra.wait(stored, now, cost));
    assert_eq!(wait, model.wait(tat, at, cost), "wait");
    let remaining = i128::from(gcra.remaining(stored, now));
    assert_eq!(remaining, model.remaining(tat, at), "remaining");
    let next_token = gcra.next_token(stored, now).map(exact);
    assert_eq!(next_token, model.next_token(tat, at), "next token");
    let reset_after = exact(gcra.reset_after(stored, now));
    assert_eq!(reset_after, (tat - at).max(0), "reset after");
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        // Miri takes a thousand times as long.
        cases: if cfg!(miri) { 2 } else { scaled(cases) },
        failure_persistence: None,
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn every_function_is_exact(
        (gcra, model) in limits(), (now, tat) in instants(), raw in u32s(), any in u32s(),
    ) {
        compare_all(&gcra, model, tat, now, [within(gcra.burst(), raw), any]);
    }

    #[test]
    fn boundaries_are_exact((gcra, model) in limits(), now in up_to(51), raw in u32s()) {
        // A bucket in which this cost just fits, and one that is short of it by one part.
        let (now, cost) = (u64::try_from(now).unwrap(), within(gcra.burst(), raw));
        let edge = model.now(now) + (model.burst - i128::from(cost)) * model.period;
        for (parts, passes) in [(edge, true), (edge + 1, cost == 0 && edge < model.now(now))] {
            let tat = Ticks {
                us: u64::try_from(parts / model.count).unwrap(),
                frac: u32::try_from(parts % model.count).unwrap(),
            };
            assert_eq!(gcra.spend(tat, now, cost).is_some(), passes, "{parts}");
            compare_all(&gcra, model, tat, now, [cost, 1]);
        }
    }

    #[test]
    fn a_history_never_drifts((gcra, model) in limits(), steps in history()) {
        let (mut tat, mut parts) = (Tat::default(), 0);
        let mut now = 1_767_225_600_000_000_u64;
        for Step { ahead, back, operation, raw } in steps {
            now = (now + ahead).saturating_sub(back);
            let (at, cost) = (model.now(now), within(gcra.burst(), raw));
            let (ours, theirs) = match operation {
                0 => (Some(gcra.debit(tat, now, raw)), Some(model.debit(parts, at, raw))),
                1 => (gcra.refund(tat, now, cost), model.refund(parts, at, cost)),
                _ => (gcra.spend(tat, now, cost), model.spend(parts, at, cost)),
            };
            (tat, parts) = (ours.unwrap_or(tat), theirs.unwrap_or(parts));
            assert_eq!(exact(model, tat), parts);
            compare_all(&gcra, model, tat, now, [cost, raw]);
        }
    }

    #[test]
    fn spans_of_different_limits_compare_exactly(
        (a, ours) in limits(), (b, theirs) in limits(),
        us in up_to(51), near in 0..2_u64, fracs in any::<[u32; 2]>(),
    ) {
        let us = u64::try_from(us).unwrap();
        let span = |us, frac: u32, gcra: &Gcra| Ticks { us, frac: frac % gcra.count() };
        let (x, y) = (span(us, fracs[0], &a), span(us + near, fracs[1], &b));
        let expected = (ours.parts(x) * theirs.count).cmp(&(theirs.parts(y) * ours.count));
        assert_eq!(x.compare(a.count(), y, b.count()), expected);
        assert_eq!(y.compare(b.count(), x, a.count()), expected.reverse());
        assert_eq!(x.compare(a.count(), x, a.count()), Ordering::Equal);
    }

    #[test]
    fn no_input_panics(
        (gcra, _) in limits(), us in u64s(), frac in u32s(), now in u64s(), cost in u32s(),
    ) {
        let tat = Ticks { us, frac };
        let spent = gcra.spend(tat, now, cost);
        let refunded = gcra.refund(tat, now, cost);
        let debited = Some(gcra.debit(tat, now, cost));
        for tat in [Some(tat), spent, refunded, debited].into_iter().flatten() {
            assert!(gcra.remaining(tat, now) <= gcra.burst());
            let spans = [
                gcra.wait(tat, now, cost),
                gcra.reset_after(tat, now),
                gcra.next_token(tat, now).unwrap_or_default(),
            ];
            for span in spans {
                assert!(span.frac < gcra.count());
                assert!(span.ceil() <= Duration::from_micros(u64::MAX));
                let _ = tat.compare(gcra.count(), span, gcra.count());
            }
        }
    }

    #[test]
    fn parameters_come_back_as_given((gcra, model) in limits()) {
        let Model { burst, count, period } = model;
        assert_eq!((i128::from(gcra.burst()), i128::from(gcra.count())), (burst, count));
        assert_eq!(gcra.period(), micros(u128::try_from(period).unwrap()));
        assert_eq!(exact(model, gcra.interval()), period);
        assert_eq!(exact(model, gcra.tolerance()), period * burst);
    }

    #[test]
    fn what_makes_no_limit_is_refused(
        burst in u32s(), count in u32s(), period in up_to(83), nanos in 0..1000_u32,
    ) {
        let too_long = u128::from(burst) * period > u128::from(MAX_TICKS_US) * u128::from(count);
        let wrong = [
            (burst == 0, ZERO_BURST),
            (count == 0, ZERO_COUNT),
            (period == 0 && nanos == 0, ZERO_PERIOD),
            (nanos > 0, PERIOD_TOO_FINE),
            (too_long, TOLERANCE_TOO_LONG),
        ];
        let period = micros(period) + Duration::from_nanos(nanos.into());
        match Gcra::new(burst, count, period) {
            Ok(_) => assert!(wrong.iter().all(|(wrong, _)| !wrong)),
            Err(error) => assert!(wrong.contains(&(true, mistake(&error))), "{error}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    ahead: u64,
    back: u64,
    operation: u8,
    raw: u32,
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let back = prop_oneof![9 => Just(0), 1 => up_to(40)];
    let step = (up_to(42), back, 0..8_u8, u32s()).prop_map(|(ahead, back, operation, raw)| Step {
        ahead: u64::try_from(ahead).unwrap(),
        back: u64::try_from(back).unwrap(),
        operation,
        raw,
    });
    vec(step, 1..30)
}

/// A field, and what is wrong with it.
type Refused = (Option<&'static str>, LimitErrorKind);

const ZERO_BURST: Refused = (Some("burst"), LimitErrorKind::Zero);
const ZERO_COUNT: Refused = (Some("count"), LimitErrorKind::Zero);
const ZERO_PERIOD: Refused = (Some("period"), LimitErrorKind::Zero);
const PERIOD_TOO_FINE: Refused = (Some("period"), LimitErrorKind::TooFine);
const TOLERANCE_TOO_LONG: Refused = (Some("period"), LimitErrorKind::TooLong);

fn mistake(error: &LimitError) -> Refused {
    (error.field(), error.kind())
}

const MAX: u32 = u32::MAX;
const BOUND: Duration = Duration::from_micros(MAX_TICKS_US);

#[test]
fn tolerance_may_reach_its_bound_and_not_pass_it() {
    let micros = Duration::from_micros;
    let cases = [
        (1, 1, BOUND, true),
        (1, 1, BOUND + micros(1), false),
        (2, 1, BOUND / 2, true),
        (2, 1, BOUND / 2 + micros(1), false),
        (MAX, MAX, BOUND, true),
        (MAX, MAX, BOUND + micros(1), false),
        (MAX, 1, micros(524_288), true),
        (MAX, 1, micros(524_289), false),
        (1, MAX, BOUND * MAX, true),
        (1, MAX, BOUND * MAX + micros(1), false),
        (1, MAX, Duration::MAX - Duration::from_nanos(999), false),
    ];
    for (burst, count, period, passes) in cases {
        let built = Gcra::new(burst, count, period).map(drop);
        let built = built.map_err(|error| mistake(&error));
        let expected = passes.then_some(()).ok_or(TOLERANCE_TOO_LONG);
        assert_eq!(built, expected, "{burst}, {count}, {period:?}");
    }
}
