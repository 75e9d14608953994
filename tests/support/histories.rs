//! Runs random histories of a limit that changes, on a backend and on the models of the suite.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::JoinSet};
use tollgate::{
    Limit,
    backend::Backend,
    quota::{Per, UtcOffset},
    testing::{
        driver::{Driver, START, VERSIONS},
        history::live_through,
    },
    tiers::Tier,
};

/// The batches of a history: about 4000 operations on single buckets.
const STEPS: u32 = 2000;

/// Runs this number of histories, several at once, so that a store decides for many callers.
pub(crate) async fn agree(backend: impl Backend, histories: u64) {
    let limits = versions();
    let versions: Arc<[usize]> = (VERSIONS..VERSIONS + limits.len()).collect();
    let driver = Driver::new(backend).versions(limits);
    each(histories, move |seed| {
        let driver = driver.clone();
        let versions = Arc::clone(&versions);
        async move { live_through(&driver, START, &versions, STEPS, seed).await }
    })
    .await;
}

/// Runs a history for each number below a bound.
async fn each<F>(histories: u64, history: impl Fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let seats = Arc::new(Semaphore::new(64));
    let mut tasks = JoinSet::new();
    for seed in 0..histories {
        let seat = Arc::clone(&seats).acquire_owned().await.unwrap();
        let history = history(seed);
        tasks.spawn(async move {
            history.await;
            drop(seat);
        });
    }
    tasks.join_all().await;
}

/// A change of clocks of each kind, with the zone and the instant.
#[cfg(feature = "zones")]
const CHANGES: [(&str, &str); 15] = [
    // By an hour, at two o'clock.
    ("America/Los_Angeles", "2026-03-08T10:00:00Z"),
    ("America/Los_Angeles", "2026-11-01T09:00:00Z"),
    // By half an hour.
    ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
    ("Australia/Lord_Howe", "2027-04-03T15:00:00Z"),
    ("America/Caracas", "2007-12-09T07:00:00Z"),
    // Midnight is skipped; the clocks go back at midnight, to the day before, or to midnight again.
    ("Africa/Cairo", "2026-04-23T22:00:00Z"),
    ("Africa/Cairo", "2026-10-29T21:00:00Z"),
    ("America/Havana", "2026-11-01T05:00:00Z"),
    // Back to the day before, when the day is a minute old.
    ("America/St_Johns", "2008-11-02T02:31:00Z"),
    // By two and three hours.
    ("Antarctica/Troll", "2026-03-29T01:00:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
    ("Antarctica/Casey", "2010-03-04T15:00:00Z"),
    // A day is skipped as a whole.
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    // By an hour, at an offset with 45 minutes, in the middle of an hour.
    ("Pacific/Chatham", "2026-09-26T14:00:00Z"),
    ("Pacific/Chatham", "2026-04-04T14:00:00Z"),
];

/// Runs as many short histories around each change of clocks. The limit changes from one period to another, too.
#[cfg(feature = "zones")]
pub(crate) async fn agree_on_zones(backend: impl Backend, histories: u64) {
    use tollgate::testing::random::Random;

    const QUARTER: u64 = 15 * 60_000_000;

    let units = [Per::Hour, Per::Day, Per::Week, Per::Month];
    let limits = CHANGES.map(|(zone, _)| units.map(|unit| Limit::quota(20, unit.in_zone(zone))));
    let driver = Driver::new(backend)
        .versions(limits.into_iter().flatten())
        .versions(units.map(|unit| Limit::quota(20, unit)));
    each(histories * CHANGES.len() as u64, move |seed| {
        let driver = driver.clone();
        let mut random = Random(seed);
        let zone = usize::try_from(seed).unwrap() % CHANGES.len();
        let change: jiff::Timestamp = CHANGES[zone].1.parse().unwrap();
        // Half of the histories begin within an hour of the change, and the others within 30 hours.
        let reach = [4, 30 * 4][usize::try_from(random.below(2)).unwrap()];
        let first = change.as_microsecond().cast_unsigned() - reach * QUARTER;
        let start = first + random.below(2 * reach) * QUARTER - random.below(2);
        let of_zone = |zone| VERSIONS + zone * units.len()..VERSIONS + (zone + 1) * units.len();
        // The limit also moves to another zone, as one does whose rules change, and to UTC.
        let others = of_zone((zone + 1) % CHANGES.len()).chain(of_zone(CHANGES.len()));
        let versions: Vec<_> = of_zone(zone).chain(others).collect();
        async move { live_through(&driver, start, &versions, 60, seed).await }
    })
    .await;
}

/// The versions of the limit that changes. Algorithms with more parameters have more of them.
fn versions() -> [Limit; 23] {
    let secs = Duration::from_secs;
    let millis = Duration::from_millis;
    let west = UtcOffset::minutes(-59);
    let of_tier = |limit, length| Tier::new(limit, secs(length)).active(secs(9));
    [
        Limit::per_second(5).burst(10),
        Limit::per(7, secs(1)).burst(4),
        Limit::per(3, Duration::from_micros(1_000_001)).burst(20),
        Limit::per_second(5).burst(10).max_wait(secs(1)),
        Limit::per_hour(1_000_003).burst(90),
        Limit::window(10, secs(2)),
        Limit::window(90, millis(300)),
        Limit::window(300, secs(6)),
        Limit::window(500, secs(600)),
        Limit::quota(10, Per::Hour),
        Limit::quota(90, Per::Day),
        Limit::quota(20, Per::Day.at_offset(west)),
        Limit::quota(40, Per::Week.at_offset(west)),
        Limit::quota(60, Per::Month),
        Limit::quota(10, Per::first_use(secs(3))),
        Limit::quota(30, Per::first_use(secs(24 * 3600))),
        Limit::quota(50, Per::first_use(secs(720 * 3600))),
        Limit::concurrent(10).hold(secs(4)),
        Limit::concurrent(3).hold(secs(1)),
        Limit::concurrent(90).hold(secs(60)),
        Limit::concurrent(300).hold(secs(600)),
        Limit::tiers([of_tier(6, 3)]).unwrap(),
        Limit::tiers([of_tier(3, 1), of_tier(60, 4)]).unwrap(),
    ]
}
