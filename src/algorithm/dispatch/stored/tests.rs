use std::time::Duration;

use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_assert_eq},
    prop_oneof, proptest,
};

use super::*;
use crate::{
    Limit,
    algorithm::{ticks::Tat, time::LATEST_US},
    decision::{Answer, Outcome},
    quota::Usage,
    tiers::{History, Tier},
    transaction::{Batch, BucketKey, LimitKey, Member, Mode, Operation},
    varint,
    window::Units,
};

fn stored(kept: Kept) -> Stored {
    Stored(Some(kept))
}

/// Wherever the limit goes, the history follows.
fn histories() -> impl Strategy<Value = History> {
    let span = || {
        prop_oneof![
            (1_u64..1 << 20).prop_map(Duration::from_micros),
            (0_u64..1).prop_map(|_| Tier::FOREVER),
        ]
    };
    let tier = (1_u32..60, span(), span(), span()).prop_map(|(limit, window, active, cold)| {
        Tier::new(limit, window).active(active).cooldown(cold)
    });
    let tiers = vec(tier, 1..=16);
    let requests = vec((0_u64..1 << 19, 1_u32..300), 1..40);
    vec((tiers, requests), 1..3).prop_map(|lives| {
        let (mut history, mut now) = (History::default(), 1_767_225_600_000_000);
        for (tiers, requests) in lives {
            let tiers = Tiers::new(tiers).unwrap();
            for (later, units) in requests {
                now += later;
                tiers.request(&mut history, now, 1..=units);
            }
        }
        history
    })
}

fn units() -> impl Strategy<Value = Units> {
    vec(0_u64..1 << 19, 1..300).prop_map(|gaps| {
        let instants = gaps.iter().scan(1_767_225_600_000_000, |now, gap| {
            *now += gap;
            Some(*now)
        });
        Units::from_instants(instants.collect())
    })
}

fn states() -> impl Strategy<Value = Stored> {
    prop_oneof![
        (0_u64..1 << 53, any::<u32>()).prop_map(|(us, frac)| stored(Each::Gcra(Tat { us, frac }))),
        histories().prop_map(|history| stored(Each::Tiers(history))),
        units().prop_map(|units| stored(Each::Window(units))),
        units().prop_map(|units| stored(Each::Concurrency(units))),
        (0_u64..1 << 52, 1..=u32::MAX)
            .prop_map(|(start_us, used)| stored(Each::Quota(Usage { start_us, used }))),
    ]
}

proptest! {
    #[test]
    fn states_are_read_as_they_are_written(stored in states()) {
        let bytes = stored.to_bytes();
        prop_assert_eq!(Stored::from_bytes(&bytes), Ok(stored));
        for len in 0..bytes.len() {
            prop_assert_eq!(Stored::from_bytes(&bytes[..len]), Err(StoredError::Truncated));
        }
    }

    /// Any bytes that are accepted are a state to decide by, and the only form of that state.
    #[test]
    fn any_bytes_are_refused_or_have_one_form(
        header in prop_oneof![0x10_u8..0x16, any::<u8>()],
        body in vec(prop_oneof![0_u8..4, any::<u8>()], 0..64),
    ) {
        let bytes = [&[header][..], &*body].concat();
        if let Ok(stored) = Stored::from_bytes(&bytes) {
            prop_assert_eq!(stored.to_bytes(), bytes);
            decide_by(stored);
        }
    }

    #[test]
    fn damaged_states_are_refused_or_have_one_form(
        stored in states(), place in any::<usize>(), byte in any::<u8>(),
    ) {
        let mut bytes = stored.to_bytes();
        let place = place % bytes.len();
        bytes[place] = byte;
        if let Ok(stored) = Stored::from_bytes(&bytes) {
            prop_assert_eq!(stored.to_bytes(), bytes);
            decide_by(stored);
        }
    }
}

fn decide_by(stored: Stored) {
    match stored.0 {
        Some(Each::Tiers(history)) => decide_by_history(&history),
        Some(Each::Window(units) | Each::Concurrency(units)) => decide_by_units(&units),
        None | Some(Each::Gcra(_) | Each::Quota(_)) => {}
    }
}

fn decide_by_units(units: &Units) {
    for us in [1, 1_000_000, 1 << 51] {
        let window = Window::new(4000, Duration::from_micros(us)).unwrap();
        for now in [0, LATEST_US] {
            let view = units.view(&window, now);
            let taken = view.debit_saturating(5000);
            for change in [taken, view.refund(7), view.refund_at(now, 7)] {
                let mut units = units.clone();
                units.change(&window, now, change);
                assert!(units.instants().is_sorted() && units.instants().len() <= 4096);
                if units.is_empty() {
                    continue;
                }
                let bytes = stored(Each::Window(units)).to_bytes();
                assert!(Stored::from_bytes(&bytes).is_ok());
            }
        }
    }
}

/// Decides by tiers with counted windows and with sliding ones, at the first instant and at the last.
fn decide_by_history(history: &History) {
    let second = Duration::from_secs(1);
    for active in [second, 10 * second, Tier::FOREVER] {
        let tier = Tier::new(4000, second).active(active).cooldown(second);
        let tiers = Tiers::new([tier, tier.skippable(), tier]).unwrap();
        for now in [0, (1 << 52) - 1] {
            let mut history = history.clone();
            let wait = tiers.wait(&history, now, 1);
            let grant = tiers.request(&mut history, now, 1..=u32::MAX);
            assert_eq!(grant.is_some(), wait == Some(0));
            assert!(history.heap_bytes() < 1 << 20);
            let bytes = stored(Each::Tiers(history)).to_bytes();
            assert!(Stored::from_bytes(&bytes).is_ok());
        }
    }
}

#[test]
fn tat_beyond_all_decisions_is_written_as_the_latest_and_not_read() {
    let latest = stored(Each::Gcra(Tat {
        us: (1 << 53) - 1,
        frac: 7,
    }));
    let beyond = stored(Each::Gcra(Tat {
        us: u64::MAX,
        frac: 7,
    }));
    assert_eq!(beyond.to_bytes(), latest.to_bytes());
    assert_eq!(Stored::from_bytes(&latest.to_bytes()), Ok(latest));
    let mut bytes = vec![0x11];
    varint::write(&mut bytes, 1 << 53);
    bytes.push(0);
    let error = StoredError::Impossible("a TAT of 2^53 us or more");
    assert_eq!(Stored::from_bytes(&bytes), Err(error));
}

#[test]
fn values_of_windows_and_quotas_that_no_decision_leads_to_are_refused() {
    for (header, numbers) in [
        (0x13, &[0][..]),
        (0x13, &[4097, 5]),
        (0x13, &[1, 1 << 52]),
        (0x13, &[2, 5, 6]),
        (0x14, &[1 << 52, 1]),
        (0x14, &[1, 0]),
        (0x14, &[1, 1 << 32]),
    ] {
        let mut bytes = vec![header];
        for number in numbers {
            varint::write(&mut bytes, *number);
        }
        let found = Stored::from_bytes(&bytes);
        assert!(
            matches!(found, Err(StoredError::Impossible(_))),
            "{numbers:?}: {found:?}"
        );
    }
}

#[test]
fn values_that_no_decision_leads_to_are_refused() {
    let read = |numbers: &[u64]| {
        let mut bytes = vec![0x12];
        for number in numbers {
            varint::write(&mut bytes, *number);
        }
        Stored::from_bytes(&bytes)
    };
    assert!(read(&[100, 1, 1, 2 << 1]).is_ok());
    assert!(read(&[100, 1, 1, 2 << 1 | 1, 0, 100]).is_ok());
    for numbers in [
        &[1 << 52, 0][..],
        &[100, 17],
        &[100, 1, 102, 0],
        &[100, 1, 0, 1 << 1],
        &[100, 1, 1, 1 << 33],
        &[100, 1, 1, 4097 << 1 | 1],
        &[100, 1, 1, 2 << 1 | 1, 1, 100],
    ] {
        let found = read(numbers);
        assert!(
            matches!(found, Err(StoredError::Impossible(_))),
            "{numbers:?}: {found:?}"
        );
    }
}

#[test]
fn layout_is_what_the_documentation_says() {
    assert_eq!(Stored::default().to_bytes(), [0x10]);
    let tat = stored(Each::Gcra(Tat { us: 300, frac: 2 }));
    assert_eq!(tat.to_bytes(), [0x11, 0xac, 0x02, 2]);
    let micros = Duration::from_micros;
    let slides = Tier::new(3, micros(100)).active(micros(200));
    let counts = Tier::new(5, micros(100)).active(micros(50));
    let tiers = Tiers::new([slides, counts]).unwrap();
    let mut history = History::default();
    for (now, units) in [(90, 2), (100, 5)] {
        tiers.request(&mut history, now, units..=units).unwrap();
    }
    let bytes = [0x12, 100, 2, 11, 3 << 1 | 1, 0, 10, 0, 1, 4 << 1];
    assert_eq!(stored(Each::Tiers(history)).to_bytes(), bytes);
    let units = stored(Each::Window(Units::from_instants(
        [90, 90, 100, 300].into(),
    )));
    assert_eq!(units.to_bytes(), [0x13, 4, 0xac, 0x02, 0xc8, 0x01, 10, 0]);
    let start_us = 300;
    let usage = stored(Each::Quota(Usage { start_us, used: 7 }));
    assert_eq!(usage.to_bytes(), [0x14, 0xac, 0x02, 7]);
    let permits = stored(Each::Concurrency(Units::from_instants([100, 300].into())));
    assert_eq!(permits.to_bytes(), [0x15, 2, 0xac, 0x02, 0xc8, 0x01]);
    let errors = [
        (&[][..], StoredError::Truncated),
        (&[0x20], StoredError::UnknownVersion(2)),
        (&[0x16], StoredError::UnknownKind(6)),
        (&[0x10, 0, 0], StoredError::TrailingBytes(2)),
    ];
    for (bytes, error) in errors {
        assert_eq!(Stored::from_bytes(bytes), Err(error));
    }
}

#[test]
fn tat_that_no_decision_leads_to_is_read_as_the_latest_one() {
    let limit = Limit::per_second(10);
    let key = BucketKey::new(LimitKey::Number(1), "id");
    let now = Timestamp::from_micros(1_767_225_600_000_000);
    let latest = Tat::from_micros((1 << 53) - 1);
    for us in [1 << 53, (1 << 58) + 7, u64::MAX] {
        let foreign = stored(Each::Gcra(Tat::from_micros(us)));
        let decide = |operation, mode| {
            let member = [Member::new(key, limit.algorithm().unwrap(), 1, mode)];
            let mut kept = [foreign.clone()];
            let batch = Batch::new(operation, &member);
            let outcome = Outcome::decide(&batch, now, &mut kept).unwrap();
            let [kept] = kept;
            (outcome.answers()[0], kept)
        };
        let denied = Answer::new(State::Gcra(latest), false);
        let (answer, kept) = decide(Operation::Spend, Mode::CheckAndSpend);
        assert_eq!(
            (answer, &kept),
            (denied, &foreign),
            "a denial writes nothing"
        );
        let (answer, _) = decide(Operation::Spend, Mode::Debit);
        assert_eq!((answer.state, answer.passed()), (State::Gcra(latest), true));
        let taken = answer.taken.map(|taken| taken.cost());
        assert_eq!(taken, Some(0), "the debt cannot grow");
        let (answer, kept) = decide(Operation::Refund, Mode::CheckAndSpend);
        let State::Gcra(tat) = answer.state else {
            panic!("it has no tiers")
        };
        assert!(answer.passed() && tat < latest, "{tat:?}");
        assert_eq!(kept, stored(Each::Gcra(tat)));
    }
}
