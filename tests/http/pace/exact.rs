//! What a client gets of its rate from this crate's server, whose fields have exact figures.

use std::time::Duration;

use tokio::time::sleep;
use tollgate::{Limit, pace::PaceLayer, quota::Per};

use super::simulated::{World, layer, ms, possible, twenty};

const TIME: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn client_gets_nearly_all_of_any_rate_and_is_never_refused() {
    for (per_second, burst) in [(1, 1), (3, 1), (3, 3), (7, 2), (20, 1), (20, 5), (20, 100)] {
        for way in [0, 1, 10, 80] {
            let limit = Limit::per_second(per_second).burst(burst);
            let time = 5 * TIME / per_second;
            let world = World::of(limit).way(ms(way), ms(0));
            let outcome = world.run(1, time).await;
            let what = (per_second, burst, way);
            assert_eq!(outcome.refused(), 0, "{what:?}: {:?}", outcome.0);
            // The first request goes alone, there and back.
            let possible = possible(burst, per_second, time - ms(3 * way).min(time / 10));
            outcome.assert_share(possible, 970, &what);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_gets_nearly_all_of_high_rates() {
    for (per_second, burst) in [(100, 10), (1000, 20), (5000, 100), (50_000, 5000)] {
        let world = World::of(Limit::per_second(per_second).burst(burst)).way(ms(1), ms(0));
        let time = ms(2000);
        let outcome = world.run(1, time).await;
        assert_eq!(outcome.refused(), 0, "{per_second}");
        // 32 requests at once are answered after 2 ms each.
        let possible = possible(burst, per_second, time).min(32 * 900);
        outcome.assert_share(possible, 970, &per_second);
    }
}

#[tokio::test(start_paused = true)]
async fn uneven_ways_do_not_lead_to_refusals() {
    for (burst, way, varies) in [(5, 5, 10), (5, 20, 40), (20, 2, 100), (30, 20, 100)] {
        let world = World::of(Limit::per_second(20).burst(burst)).way(ms(way), ms(varies));
        let outcome = world.run(1, TIME).await;
        let what = (burst, way, varies);
        assert!(outcome.refused() <= 1, "{what:?}: {}", outcome.refused());
        outcome.assert_share(
            possible(burst, 20, TIME - ms(3 * (way + varies))),
            960,
            &what,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn costs_count() {
    for (burst, cost) in [(5, 2), (5, 5), (40, 7), (3, 3)] {
        let layer = layer(&[("requests", Limit::per_second(20).burst(burst), cost)]);
        let outcome = World::new(&layer).way(ms(5), ms(0)).run(1, TIME).await;
        assert_eq!(outcome.refused(), 0, "{burst} {cost}");
        let possible = possible(burst, 20, TIME - ms(30)) / u128::from(cost);
        outcome.assert_share(possible, 960, &(burst, cost));
    }
}

#[tokio::test(start_paused = true)]
async fn windows_and_quotas_are_used_to_the_end() {
    let cases = [
        (Limit::window(5, ms(700)), 5 * 28),
        (Limit::window(1, ms(300)), 66),
        (Limit::window(40, ms(2500)), 40 * 8),
        (Limit::quota(5, Per::first_use(ms(700))), 5 * 28),
        (Limit::quota(30, Per::first_use(ms(2500))), 30 * 8),
    ];
    for (limit, possible) in cases {
        let world = World::of(limit.clone()).way(ms(4), ms(0));
        let outcome = world.run(1, TIME).await;
        assert_eq!(outcome.refused(), 0, "{limit:?}");
        outcome.assert_share(possible, 960, &limit);
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_policies_the_strictest_counts() {
    let window = Limit::window(30, ms(4000));
    let layer = layer(&[
        ("second", twenty(), 1),
        ("window", window, 1),
        ("hour", Limit::per_hour(3600).burst(1000), 2),
    ]);
    let outcome = World::new(&layer).way(ms(3), ms(0)).run(1, TIME).await;
    assert_eq!(outcome.refused(), 0);
    outcome.assert_share(150, 960, &"three policies");
}

#[tokio::test(start_paused = true)]
async fn client_that_pauses_begins_again_with_the_burst() {
    let world = World::of(twenty()).way(ms(5), ms(0));
    for round in 1..4 {
        let until = ms(3000 * round - 1000);
        world.client(&PaceLayer::new(), until).join_all().await;
        sleep(ms(1000)).await;
        let outcome = world.outcome(TIME);
        assert_eq!(outcome.refused(), 0, "{round}");
    }
    world
        .outcome(TIME)
        .assert_share(3 * 45, 930, &"three rounds");
}
