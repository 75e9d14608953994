//! Burst tiers on real servers: what is stored, for how long, and what others see in between.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, id::IdFormat,
    limit::LimitName, limiter::LimiterError, testing::cases::tiers_single::penalty, tiers::Tier,
    transaction::Mode::CheckOnly,
};

use crate::{CLUSTER, connect, redis_support::Server, spread::pair};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn limits(limit: Limit) -> Limits {
    let requests = LimitName::new("requests", 1, IdFormat::Opaque);
    Limits::builder().limit(requests, limit).build().unwrap()
}

fn tiers<const LEN: usize>(tiers: [Tier; LEN]) -> Limits {
    limits(Limit::tiers(tiers).unwrap())
}

fn bucket() -> Transaction<'static> {
    Transaction::new("requests", "client")
}
const KEY: &str = "tollgate:{client}:1~t:client";

/// A server of its own, and a limiter on it.
async fn start(limits: Limits) -> (Server, Limiter) {
    let server = Server::start();
    let limiter = Limiter::new(limits, connect(server.url()).await);
    (server, limiter)
}

/// How long a key has left, -1 if it does not expire.
fn left(server: &Server) -> i64 {
    server.command(&["PTTL", KEY]).integer()
}

#[tokio::test]
async fn bucket_is_one_string_that_expires_when_nothing_depends_on_it() {
    let (server, limiter) = start(limits(penalty())).await;
    let [before, expires, after] = expiry(&server, limiter.spend(&bucket().cost(7))).await;
    assert_eq!(server.command(&["KEYS", "*"]).array()[0].text(), KEY);
    assert_eq!(server.command(&["DBSIZE"]).integer(), 1);
    assert_eq!(server.command(&["TYPE", KEY]).text(), "string");
    let value = server.command(&["GET", KEY]).bytes().to_vec();
    // A head, two tiers, and five places for the units of the lowest; the burst's are counted.
    assert_eq!(
        (value[0], value[1], value.len()),
        (b'T', 2, 10 + 2 * 20 + 5 * 8)
    );
    let entered = f64::from_le_bytes(value[2..10].try_into().unwrap());
    // Five seconds in the burst and fifteen of cooldown; the microsecond after that is in the millisecond that has begun.
    #[expect(clippy::cast_possible_truncation, reason = "it is a time")]
    let ends = ((entered + 20_000_001.0) / 1000.0).ceil() as i64;
    assert!(
        (ends..=ends + 100).contains(&expires),
        "{expires} for {ends}"
    );
    assert!((before + 20_000..=after + 20_101).contains(&expires));
    limiter.reset(&[bucket()]).await.unwrap();
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0);
}

/// What the server's clock shows.
fn now_ms(server: &Server) -> i64 {
    let time = server.command(&["TIME"]);
    let [secs, us] = [0, 1].map(|i| time.array()[i].text().parse::<i64>().unwrap());
    secs * 1000 + us / 1000
}

/// When the bucket expires, -1 if it does not, between what the server's clock shows before and after it was written.
async fn expiry(
    server: &Server,
    spend: impl Future<Output = Result<Decision, LimiterError>>,
) -> [i64; 3] {
    let before = now_ms(server);
    spend.await.unwrap();
    let at = server.command(&["PEXPIRETIME", KEY]).integer();
    [before, at, now_ms(server)]
}

#[tokio::test]
async fn only_what_does_not_end_stays_for_ever() {
    let lowest = Tier::new(2, secs(10));
    let above = Tier::new(2, secs(10)).active(secs(10));
    let cases = [
        ("a window by itself", vec![lowest], 1, true),
        (
            "a window that does not end",
            vec![Tier::new(2, Tier::FOREVER)],
            1,
            false,
        ),
        (
            "a cooldown below",
            vec![above.cooldown(Tier::FOREVER)],
            1,
            false,
        ),
        (
            "a sentence for life, not entered",
            vec![lowest, lowest],
            2,
            true,
        ),
        ("a sentence for life", vec![lowest, lowest], 3, false),
        (
            "one burst",
            vec![lowest, above.cooldown(Tier::FOREVER)],
            3,
            false,
        ),
        ("a burst", vec![lowest, above], 3, true),
    ];
    for (case, list, cost, expires) in cases {
        let (server, limiter) = start(limits(Limit::tiers(list).unwrap())).await;
        let [before, at, after] = expiry(&server, limiter.spend(&bucket().cost(cost))).await;
        let lasts = 10_001 + i64::from(case == "a burst");
        let ends = before + lasts - 1..=after + lasts;
        assert_eq!(at != -1, expires, "{case}");
        assert!(!expires || ends.contains(&at), "{case}: {at} in {ends:?}");
    }
}

#[tokio::test]
async fn a_large_bucket_loses_its_expiry_with_a_sentence_for_life() {
    let (server, limiter) = start(tiers([
        Tier::new(100, secs(3600)),
        Tier::new(1, secs(3600)),
    ]))
    .await;
    for cost in [50, 49, 1] {
        limiter.spend(&bucket().cost(cost)).await.unwrap();
        assert!((1..=3_600_001).contains(&left(&server)));
    }
    let entered = limiter.spend(&bucket()).await.unwrap();
    assert_eq!((entered.tier(), left(&server)), (Some(1), -1));
    assert_eq!(entered.reset_after(), Decision::NEVER);
}

#[tokio::test]
async fn rejections_and_checks_write_nothing() {
    let lowest = Tier::new(2, secs(60)).active(secs(60)).cooldown(secs(60));
    let (server, limiter) = start(tiers([lowest])).await;
    let clocked = limiter.clone().with_clock(ManualClock::default());
    let writes = || server.info("rdb_changes_since_last_save");
    let before = writes();
    assert!(limiter.check(&bucket()).await.unwrap().allowed());
    assert!(
        limiter
            .spend(&bucket().mode(CheckOnly))
            .await
            .unwrap()
            .allowed()
    );
    assert!(!limiter.spend(&bucket().cost(3)).await.unwrap().allowed());
    assert_eq!(writes(), before);
    assert_eq!(server.command(&["DBSIZE"]).integer(), 0);
    limiter.spend(&bucket().cost(2)).await.unwrap();
    let (before, value) = (writes(), server.command(&["GET", KEY]).bytes().to_vec());
    let expires = server.command(&["PEXPIRETIME", KEY]).integer();
    assert!(!limiter.spend(&bucket()).await.unwrap().allowed());
    assert!(!limiter.check(&bucket()).await.unwrap().allowed());
    assert!(!clocked.spend(&bucket().cost(3)).await.unwrap().allowed());
    assert_eq!(writes(), before);
    assert_eq!(server.command(&["GET", KEY]).bytes(), value);
    assert_eq!(server.command(&["PEXPIRETIME", KEY]).integer(), expires);
}

#[tokio::test]
async fn under_a_clients_clock_a_bucket_stays_ten_minutes_longer() {
    let (server, limiter) = start(limits(penalty())).await;
    let limiter = limiter.with_clock(ManualClock::default());
    for (cost, lasts) in [(3, 1_001), (3, 20_001)] {
        let [before, at, after] = expiry(&server, limiter.spend(&bucket().cost(cost))).await;
        let all = 600_000 + lasts;
        let ends = before + all - 1..=after + all;
        assert!(ends.contains(&at), "{at} in {ends:?} after {cost}");
    }
}

#[tokio::test]
async fn ring_of_4096_is_bounded_and_goes_round() {
    let server = Server::start();
    let (clock, limits) = (ManualClock::default(), tiers([Tier::new(4096, secs(1))]));
    let redis = Limiter::new(limits.clone(), connect(server.url()).await).with_clock(clock.clone());
    let memory = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let (mut granted, mut longest) = (0, 0);
    for step in 0..240 {
        clock.advance(Duration::from_micros(10_000 + 777 * (step % 5)));
        let group = bucket().cost(131).min_cost(1);
        let decision = redis.spend(&group).await.unwrap();
        assert_eq!(decision, memory.spend(&group).await.unwrap(), "step {step}");
        granted += decision.granted();
        let whole = redis.check(&bucket().cost(4096)).await.unwrap();
        assert_eq!(whole, memory.check(&bucket().cost(4096)).await.unwrap());
        let length = server.command(&["STRLEN", KEY]).integer();
        let places = i64::from(granted.min(4096));
        assert_eq!(length, 10 + 20 + 8 * places, "places as they are needed");
        longest = longest.max(length);
    }
    assert!(granted > 2 * 4096, "{granted}");
    assert_eq!(longest, 10 + 20 + 8 * 4096);
}

/// A cluster's limiter with a window of 50, one of 1000, and a bucket of 1000 without tiers.
async fn spread() -> Limiter {
    let day = secs(86_400);
    let window = |limit| Limit::tiers([Tier::new(limit, day)]).unwrap();
    let limits = Limits::builder()
        .limit("fifty", window(50))
        .limit("wide", window(1000))
        .limit("gcra", Limit::per_day(1000));
    Limiter::new(limits.build().unwrap(), connect(CLUSTER.url()).await)
}

/// How much is left of a bucket.
async fn held(limiter: &Limiter, limit: &str, id: &str) -> u32 {
    let probe = Transaction::new(limit, id).mode(CheckOnly);
    let left = limiter.check(&probe).await.unwrap();
    left.remaining().unwrap()
        + u32::from(left.allowed() && limit == "gcra")
        + left.granted() * u32::from(limit != "gcra")
}

/// Sends 200 batches of two buckets at once, and returns how many pass.
async fn race(limiter: &Limiter, batch: [(&'static str, String); 2]) -> u32 {
    let mut tasks = JoinSet::new();
    for _ in 0..200 {
        let (limiter, batch) = (limiter.clone(), batch.clone());
        tasks.spawn(async move {
            let batch = [0, 1].map(|i| Transaction::new(batch[i].0, &batch[i].1));
            limiter.spend_batch(&batch).await.unwrap().allowed()
        });
    }
    let passed = tasks.join_all().await.into_iter().filter(|passed| *passed);
    u32::try_from(passed.count()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tiers_of_another_slot_deny_is_given_back() {
    let (limiter, [a, b]) = (spread().await, pair("tiers-back"));
    let passed = race(&limiter, [("gcra", a.clone()), ("fifty", b.clone())]).await;
    assert_eq!(passed, 50);
    assert_eq!(held(&limiter, "fifty", &b).await, 0);
    assert_eq!(held(&limiter, "gcra", &a).await, 1000 - passed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiers_of_two_slots_are_charged_at_most_once_for_each_batch() {
    for (i, order) in [[0, 1], [1, 0]].into_iter().enumerate() {
        let (limiter, ids) = (spread().await, pair(&format!("tiers-both{i}")));
        let [wide, fifty] = order.map(|place: usize| ids[place].clone());
        let passed = race(&limiter, [("wide", wide.clone()), ("fifty", fifty.clone())]).await;
        assert_eq!(held(&limiter, "fifty", &fifty).await, 50 - passed.min(50));
        let taken = 1000 - held(&limiter, "wide", &wide).await;
        assert!(
            (passed..=200).contains(&taken),
            "{taken} taken, {passed} passed"
        );
        assert!(passed <= 50, "{passed}");
    }
}
