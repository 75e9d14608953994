//! One bucket with tiers.

use std::time::Duration;

use crate::{
    decision::Decision,
    limit::Limit,
    limiter::LimiterError,
    tiers::Tier,
    transaction::{
        Mode::{CheckAndSpend, CheckOnly, Debit, SpendOnly},
        Transaction,
    },
};

use super::world::World;

const SECOND: u64 = 1_000_000;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Five a second; fifty more in a burst of five seconds, and then fifteen without another.
pub fn penalty() -> Limit {
    let lowest = Tier::new(5, secs(1)).active(secs(1));
    let burst = Tier::new(50, secs(5)).active(secs(5)).cooldown(secs(15));
    Limit::tiers([lowest, burst]).unwrap()
}

/// Five a second. A client that exceeds this gets one more, and then nothing for fifteen seconds.
pub fn prison() -> Limit {
    let lowest = Tier::new(5, secs(1)).active(secs(1));
    let prison = Tier::new(1, secs(15)).active(secs(15));
    Limit::tiers([lowest, prison]).unwrap()
}

/// The grant of a decision: the number of units, the highest tier, and the number from each tier.
type Granted = (u32, Option<usize>, Vec<(usize, u32)>);

fn granted(decision: &Decision) -> Granted {
    (
        decision.granted(),
        decision.tier(),
        decision.split().collect(),
    )
}

fn nothing() -> Granted {
    (0, None, Vec::new())
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

pub async fn group_gets_what_there_is_and_at_least_its_least(world: World) {
    let limiter = world.limiter([("tiers", penalty())]);
    let id = world.id("a");
    let bucket = Transaction::new("tiers", &id);
    let group = async |least, most| {
        let group = bucket.cost(most).min_cost(least);
        limiter.spend(&group).await.unwrap()
    };
    let none = group(56, 100).await;
    assert_eq!(
        (granted(&none), none.retry_after()),
        (nothing(), Decision::NEVER)
    );
    assert_eq!(none.remaining(), Some(55), "a rejection changes nothing");
    let first = group(2, 7).await;
    assert_eq!(granted(&first), (7, Some(1), vec![(0, 5), (1, 2)]));
    assert_eq!((first.remaining(), first.next_after()), (Some(48), secs(0)));
    assert_eq!(granted(&group(49, 90).await), nothing());
    let rest = group(48, 90).await;
    assert_eq!(granted(&rest), (48, Some(1), vec![(1, 48)]));
    assert_eq!(rest.remaining(), Some(0));
    let denied = group(1, 1).await;
    let wait = micros(5 * SECOND + 1);
    assert_eq!((granted(&denied), denied.retry_after()), (nothing(), wait));
    assert_eq!(denied.reset_after(), micros(20 * SECOND + 1));
    world.advance(5 * SECOND + 1);
    let lowest = group(1, 9).await;
    assert_eq!(granted(&lowest), (5, Some(0), vec![(0, 5)]));
}

pub async fn check_grants_what_a_spend_would_and_enters_nothing(world: World) {
    let limiter = world.limiter([("tiers", penalty())]);
    for mode in [CheckAndSpend, CheckOnly, SpendOnly] {
        let id = world.id(&format!("{mode:?}"));
        let bucket = Transaction::new("tiers", &id).mode(mode);
        for (least, most) in [(1, 3), (1, 1), (2, 4), (40, 60), (40, 60), (1, 1)] {
            let group = bucket.cost(most).min_cost(least);
            let checked = limiter.check(&group).await.unwrap();
            let again = limiter.check(&group).await.unwrap();
            let spent = limiter.spend(&group).await.unwrap();
            // Everything except the source of the decision, because a cache may decide the second time.
            let [checked, again, figures] =
                [&checked, &again, &spent].map(|decision| format!("{decision:?}"));
            assert_eq!(checked, again);
            assert_eq!(checked, figures, "{mode:?} {least} to {most}");
            if mode == CheckOnly {
                let again = limiter.check(&group).await.unwrap();
                assert_eq!(
                    checked,
                    format!("{again:?}"),
                    "{least} to {most} are not taken"
                );
            }
        }
    }
}

pub async fn what_tiers_cannot_do_is_refused(world: World) {
    let limiter = world.limiter([("tiers", penalty())]);
    let id = world.id("a");
    let bucket = Transaction::new("tiers", &id);
    let debits = [
        limiter.spend(&bucket.mode(Debit)).await.unwrap_err(),
        limiter.check(&bucket.mode(Debit)).await.unwrap_err(),
        limiter.refund(&bucket).await.unwrap_err(),
        limiter.refund_batch(&[bucket]).await.unwrap_err(),
    ];
    for (error, what) in debits
        .into_iter()
        .zip(["debited", "debited", "refunded", "refunded"])
    {
        let LimiterError::NotWithTiers { limit, verb } = error else {
            panic!("{error}");
        };
        assert_eq!((limit.as_str(), verb), ("tiers", what));
    }
    let whole = limiter.spend(&bucket.cost(55)).await.unwrap();
    assert_eq!(whole.granted(), 55, "nothing was taken before");
}

pub async fn groups_of_nothing_and_groups_without_tiers_are_refused(world: World) {
    let limits = [("tiers", penalty()), ("gcra", Limit::per_second(5))];
    let limiter = world.limiter(limits);
    let id = world.id("a");
    let bucket = Transaction::new("tiers", &id);
    let groups = [
        bucket.cost(0),
        bucket.cost(0).min_cost(0),
        bucket.cost(3).min_cost(0),
        bucket.cost(3).min_cost(4),
    ];
    for group in groups {
        let errors = [
            limiter.spend(&group).await.unwrap_err(),
            limiter.check(&group).await.unwrap_err(),
            limiter.spend_batch(&[group]).await.unwrap_err(),
        ];
        for error in errors {
            let refused = matches!(error, LimiterError::NoSuchGroup { .. });
            assert!(refused, "{group:?}: {error}");
        }
    }
    let gcra = Transaction::new("gcra", &id).min_cost(1);
    let error = limiter.spend(&gcra).await.unwrap_err();
    assert!(matches!(error, LimiterError::NoTiers { .. }), "{error}");
    let whole = limiter.spend(&bucket.cost(55)).await.unwrap();
    assert_eq!(whole.granted(), 55, "nothing was taken before");
}

pub async fn cost_above_all_limits_is_denied_for_ever(world: World) {
    let limiter = world.limiter([("tiers", penalty())]);
    let id = world.id("a");
    for cost in [56, u32::MAX] {
        let above = Transaction::new("tiers", &id).cost(cost);
        let denied = limiter.spend(&above).await.unwrap();
        assert_eq!(
            (granted(&denied), denied.retry_after()),
            (nothing(), Decision::NEVER)
        );
        assert_eq!(
            (denied.remaining(), denied.reset_after()),
            (Some(55), secs(0))
        );
    }
}

pub async fn reset_frees_a_prisoner(world: World) {
    let limiter = world.limiter([("tiers", prison())]);
    let id = world.id("a");
    let bucket = Transaction::new("tiers", &id);
    for _ in 0..2 {
        assert_eq!(
            limiter.spend(&bucket.cost(6)).await.unwrap().tier(),
            Some(1)
        );
        assert!(!limiter.spend(&bucket).await.unwrap().allowed());
        limiter.reset(&[bucket]).await.unwrap();
        let free = limiter.check(&bucket.mode(CheckOnly)).await.unwrap();
        assert_eq!((free.tier(), free.remaining()), (Some(0), Some(5)));
    }
}

pub async fn clock_that_steps_back_frees_no_prisoner(world: World) {
    let limiter = world.limiter([("tiers", prison())]);
    let id = world.id("a");
    let bucket = Transaction::new("tiers", &id);
    limiter.spend(&bucket.cost(6)).await.unwrap();
    let entered = world.now();
    world.set(entered - 5 * SECOND);
    let denied = limiter.spend(&bucket).await.unwrap();
    let wait = micros(20 * SECOND + 1);
    assert_eq!((denied.retry_after(), denied.reset_after()), (wait, wait));
    world.set(entered + 15 * SECOND);
    assert!(!limiter.spend(&bucket).await.unwrap().allowed());
    world.advance(1);
    assert_eq!(limiter.spend(&bucket).await.unwrap().tier(), Some(0));
    // A grant while the clock is behind counts at the time of the last grant.
    world.set(entered);
    let rest = limiter.spend(&bucket.cost(4)).await.unwrap();
    assert_eq!(rest.granted(), 4);
    let lasts = micros(16 * SECOND + 2);
    assert_eq!(rest.reset_after(), lasts);
}

pub async fn prisoner_stays_one_when_the_limit_changes(world: World) {
    let limiter = world.limiter([("tiers", prison())]);
    let harsher = Limit::tiers([
        Tier::new(9, secs(2)).active(secs(2)).cooldown(secs(2)),
        Tier::new(1, secs(60)).active(secs(60)),
        Tier::new(7, secs(60)).active(secs(60)).cooldown(secs(60)),
    ]);
    let changed = world.limiter([("tiers", harsher.unwrap())]);
    let id = world.id("a");
    let bucket = Transaction::new("tiers", &id);
    let entered = limiter.spend(&bucket.cost(6)).await.unwrap();
    assert_eq!(entered.tier(), Some(1));
    world.advance(SECOND);
    let seen = changed.check(&bucket.mode(CheckOnly)).await.unwrap();
    assert_eq!(
        granted(&seen),
        (1, Some(2), vec![(2, 1)]),
        "the prison is full"
    );
    let denied = changed.spend(&bucket.cost(8)).await.unwrap();
    let wait = micros(59 * SECOND + 1);
    assert_eq!((denied.allowed(), denied.retry_after()), (false, wait));
    let back = limiter.check(&bucket.cost(2)).await.unwrap();
    assert_eq!(
        back.retry_after(),
        micros(14 * SECOND + 1),
        "nothing was written"
    );
}

pub async fn units_are_kept_when_a_window_begins_to_slide(world: World) {
    let tiers = |active| {
        Limit::tiers([Tier::new(5, secs(10))
            .active(secs(active))
            .cooldown(secs(10))])
    };
    let counted = world.limiter([("tiers", tiers(10).unwrap())]);
    let logged = world.limiter([("tiers", tiers(30).unwrap())]);
    let id = world.id("a");
    let bucket = Transaction::new("tiers", &id);
    counted.spend(&bucket.cost(3)).await.unwrap();
    world.advance(4 * SECOND);
    let more = logged.spend(&bucket.cost(2)).await.unwrap();
    assert_eq!((more.allowed(), more.remaining()), (true, Some(0)));
    assert_eq!(
        more.next_after(),
        micros(6 * SECOND + 1),
        "three leave first"
    );
    let denied = logged.spend(&bucket.cost(4)).await.unwrap();
    assert_eq!(denied.retry_after(), micros(10 * SECOND + 1));
}

pub async fn simultaneous_requests_fill_each_tier_exactly(world: World) {
    let limiter = world.limiter([("tiers", penalty())]);
    let id = world.id("a");
    let tasks: Vec<_> = (0..200_u32)
        .map(|i| {
            let (limiter, id) = (limiter.clone(), id.clone());
            let (least, most) = (1, 1 + i % 3);
            tokio::spawn(async move {
                let group = Transaction::new("tiers", &id).cost(most).min_cost(least);
                limiter.spend(&group).await.unwrap()
            })
        })
        .collect();
    let mut given = [0, 0];
    for task in tasks {
        for (tier, units) in task.await.unwrap().split() {
            given[tier] += units;
        }
    }
    assert_eq!(given, [5, 50]);
}

pub async fn peek_shows_tiers_as_they_are(world: World) {
    let limiter = world.limiter([("tiers", penalty())]);
    let id = world.id("a");
    let one = Transaction::new("tiers", &id);
    let most = limiter.peek(&one).await.unwrap().remaining().unwrap();
    for taken in 0..most {
        let before = limiter.peek(&one).await.unwrap();
        let again = limiter.peek(&one).await.unwrap();
        assert_eq!(format!("{before:?}"), format!("{again:?}"), "{taken}");
        assert_eq!(before.remaining(), Some(most - taken));
        assert!(before.allowed() && before.next_after().is_zero(), "{taken}");
        assert!(limiter.spend(&one).await.unwrap().allowed(), "{taken}");
    }
    let empty = limiter.peek(&one).await.unwrap();
    assert_eq!((empty.allowed(), empty.remaining()), (false, Some(0)));
    let checked = limiter.check(&one).await.unwrap();
    assert_eq!(empty.next_after(), checked.next_after());
}
