//! Several clients behind one address, which share a limit and do not know of each other.

use std::time::Duration;

use tollgate::{Limit, pace::PaceLayer};

use super::simulated::{World, ms, possible, twenty};

const TIME: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn clients_that_share_a_limit_use_it_and_are_rarely_refused() {
    for clients in [2, 4] {
        for (burst, way) in [(5, 0), (5, 1), (5, 10), (5, 40), (20, 0), (20, 10)] {
            let world = World::of(Limit::per_second(20).burst(burst)).way(ms(way), ms(way / 2));
            let outcome = world.run(clients, TIME).await;
            let (sent, refused) = (outcome.0.len(), outcome.refused());
            let what = (clients, burst, way);
            assert!(refused * 10 <= sent, "{what:?}: {refused} of {sent}");
            outcome.assert_share(possible(burst, 20, TIME), 900, &what);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn first_hundred_requests_of_two_clients() {
    let outcome = World::of(twenty()).way(ms(1), ms(0)).run(2, ms(6000)).await;
    let (sent, refused) = (outcome.0.len(), outcome.refused());
    assert!(refused * 10 <= sent, "{refused} of {sent}");
    outcome.assert_share(125, 900, &"two");
}

#[tokio::test(start_paused = true)]
async fn client_that_is_alone_again_gets_all_of_the_rate() {
    let world = World::of(twenty()).way(ms(5), ms(0));
    let first = world.client(&PaceLayer::new(), ms(30_000));
    let second = world.client(&PaceLayer::new(), ms(10_000));
    second.join_all().await;
    first.join_all().await;
    let outcome = world.outcome(TIME);
    let alone = outcome
        .0
        .iter()
        .filter(|(at, passed)| *passed && *at > ms(15_000));
    assert!(alone.count() * 100 >= 300 * 97);
}
