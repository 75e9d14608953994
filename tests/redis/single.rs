//! One server: the values that are stored, their lifetimes, and the number of commands.

use std::{sync::Arc, time::Duration};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RedisBackend, Transaction,
    backend::redis::KeyForm,
    clock::{ManualClock, Timestamp},
    id::IdFormat,
    limit::LimitName,
    quota::Per,
    tiers::Tier,
    transaction::Mode,
};

use crate::{SERVER, connect, connect_as, eventually::eventually, redis_support::Server};

fn limits(limit: Limit) -> Limits {
    let requests = LimitName::new("requests", 1, IdFormat::Opaque);
    Limits::builder().limit(requests, limit).build().unwrap()
}

#[tokio::test]
async fn clocks_of_2038_and_2100_are_exact() {
    let backend = Arc::new(connect(SERVER.url()).await);
    let limits = limits(Limit::new(3, 7, Duration::from_secs(1)).unwrap());
    for (now, id) in [
        (2_147_483_648_000_000, "2038"),
        (4_102_444_800_000_001, "2100"),
    ] {
        let clock = ManualClock::new(Timestamp::from_micros(now));
        let limiters = [
            Limiter::new(limits.clone(), Arc::clone(&backend)),
            Limiter::new(limits.clone(), MemoryBackend::new()),
        ];
        let limiters = limiters.map(|limiter| limiter.with_clock(clock.clone()));
        let transaction = Transaction::new("requests", id);
        for step in [0, 0, 0, 0, 142_857, 1, 1_000_000_000] {
            clock.advance(Duration::from_micros(step));
            let redis = limiters[0].spend(&transaction).await.unwrap();
            let memory = limiters[1].spend(&transaction).await.unwrap();
            assert_eq!(redis, memory, "{now} + {step}");
        }
    }
}

/// Returns the instant at which a key expires, in milliseconds.
const EXPIRES: &str = r#"
    local now = redis.call("TIME")
    return now[1] * 1000 + math.floor(now[2] / 1000) + redis.call("PTTL", KEYS[1])
"#;

#[tokio::test]
async fn bucket_is_one_string_that_expires_when_it_is_full() {
    let server = Server::start();
    let limiter = Limiter::new(limits(Limit::per_minute(7)), connect(server.url()).await);
    let spend = Transaction::new("requests", "a{b}").cost(3);
    let decision = limiter.spend(&spend).await.unwrap();
    let key = "tollgate:{13318}:1:a%7Bb%7D";
    assert_eq!(server.keys(), [key]);
    assert_eq!(server.query::<String>(&["TYPE", key]), "string");
    let value: String = server.query(&["GET", key]);
    let (us, frac) = value.split_once(':').unwrap();
    // 3 · 60/7 s are 25,714,285 µs and 5/7.
    assert_eq!((us.len(), frac), (16, "5"), "{value}");
    let expires: u64 = server.query(&["EVAL", EXPIRES, "1", key]);
    let tat_ms = us.parse::<u64>().unwrap().div_ceil(1000);
    assert!(
        (tat_ms..=tat_ms + 100).contains(&expires),
        "{value} expires at {expires}"
    );
    let reset = decision.reset_after();
    assert_eq!(reset, Some(Duration::from_micros(25_714_286)));
    limiter.refund(&spend).await.unwrap();
    assert!(server.keys().is_empty(), "a full bucket is gone");
}

#[tokio::test]
async fn every_key_expires() {
    let server = Server::start();
    let limiter = Limiter::new(limits(Limit::per_hour(2)), connect(server.url()).await);
    for id in ["a", "b"] {
        let one = Transaction::new("requests", id);
        limiter
            .spend_batch(&[one, Transaction::new("requests", "c")])
            .await
            .unwrap();
        limiter.spend(&one.cost(9).mode(Mode::Debit)).await.unwrap();
        limiter.refund(&one).await.unwrap();
    }
    let keys = server.keys();
    assert_eq!(keys.len(), 3, "{keys:?}");
    for key in keys {
        let ttl: i64 = server.query(&["PTTL", &key]);
        assert!(ttl >= 1, "{key} has {ttl} ms left");
    }
}

/// Expects that the key of a bucket expires so many seconds after it is charged.
async fn expect_life(
    server: &Server,
    bucket: &str,
    secs: u64,
    limiter: &Limiter,
    spend: Transaction<'_>,
) {
    let begin = server.time() / 1000;
    assert!(limiter.spend(&spend).await.unwrap().allowed());
    let key = server.key_of(bucket).unwrap();
    let expires: u64 = server.query(&["EVAL", EXPIRES, "1", &key]);
    let end = server.time() / 1000;
    // The server's clock goes on while a script runs, so the key may live longer by that time, and by a rounded millisecond.
    let charged = expires - secs * 1000;
    assert!(
        (begin - 1..=end + 5000).contains(&charged),
        "{key}, {secs} s: {charged}"
    );
}

/// A quota is kept a minute longer and, if the clock of the process decides, any bucket ten minutes.
#[tokio::test]
async fn bucket_of_each_algorithm_expires_when_it_is_full() {
    let server = Server::start();
    let span = Duration::from_secs(80);
    let tier = Tier::new(2, span);
    let cools = tier.active(span).cooldown(span);
    let backend = Arc::new(connect(server.url()).await);
    for (limit, letters, secs) in [
        (Limit::per(1, span), "", 80),
        (Limit::window(2, span), "~w", 80),
        (Limit::quota(2, Per::first_use(span)), "~q", 80 + 60),
        (Limit::concurrent(2).hold(span), "~c", 80),
        (Limit::tiers([tier]).unwrap(), "~t", 80),
        (Limit::tiers([cools]).unwrap(), "~t", 160),
    ] {
        let limiter = Limiter::new(limits(limit), Arc::clone(&backend));
        let clock = ManualClock::new(Timestamp::from_micros(server.time()));
        let clocked = limiter.clone().with_clock(clock);
        let one = Transaction::new("requests", "a");
        let bucket = format!("1{letters}:a");
        for (limiter, secs) in [(limiter, secs), (clocked, secs + 600)] {
            expect_life(&server, &bucket, secs, &limiter, one).await;
            limiter.reset(&[one]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn large_window_is_kept_an_eighth_longer_when_it_grows() {
    let server = Server::start();
    let window = Limit::window(100, Duration::from_secs(80));
    let limiter = Limiter::new(limits(window), connect(server.url()).await);
    let one = Transaction::new("requests", "a");
    expect_life(&server, "1~w:a", 80, &limiter, one.cost(65)).await;
    // As if time had passed.
    server.exec(&["PEXPIRE", &server.key_of("1~w:a").unwrap(), "60000"]);
    expect_life(&server, "1~w:a", 90, &limiter, one).await;
}

#[tokio::test]
async fn denials_and_checks_write_nothing() {
    let server = Server::start();
    let limiter = Limiter::new(limits(Limit::per_hour(2)), connect(server.url()).await);
    let [a, b] = ["a", "b"].map(|id| Transaction::new("requests", id));
    limiter.spend(&a.cost(2)).await.unwrap();
    let writes = || server.info("rdb_changes_since_last_save");
    let before = writes();
    assert!(!limiter.spend(&a).await.unwrap().allowed());
    assert!(!limiter.spend_batch(&[a, b]).await.unwrap().allowed());
    assert!(limiter.check(&b).await.unwrap().allowed());
    limiter.refund(&b).await.unwrap();
    assert_eq!(writes(), before);
}

#[tokio::test]
async fn batch_of_four_limits_is_one_round_trip() {
    let server = Server::start();
    let names = ["a", "b", "c", "d"];
    let builder = names.iter().fold(Limits::builder(), |limits, name| {
        limits.limit(*name, Limit::per_second(10))
    });
    let limiter = Limiter::new(builder.build().unwrap(), connect(server.url()).await);
    let batch = names.map(|name| Transaction::new(name, "client"));
    limiter.spend_batch(&batch).await.unwrap();
    server.exec(&["CONFIG", "RESETSTAT"]);
    assert!(limiter.spend_batch(&batch).await.unwrap().allowed());
    limiter.refund_batch(&batch).await.unwrap();
    limiter.reset(&batch).await.unwrap();
    assert!(limiter.check_batch(&batch).await.unwrap().allowed());
    let calls = server.info("cmdstat_evalsha");
    assert!(calls.starts_with("calls=4,"), "{calls}");
    assert_eq!(server.info("cmdstat_eval"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn script_is_loaded_on_connecting() {
    let server = Server::start();
    // Not `connected`, which runs one more.
    let _backend = RedisBackend::new(server.url()).unwrap();
    eventually("the script", || {
        server.info("number_of_cached_scripts") == "1"
    });
}

#[tokio::test]
async fn unix_socket_leads_to_the_same_buckets() {
    let limits = limits(Limit::per_hour(20));
    let by_tcp = Limiter::new(limits.clone(), connect(SERVER.url()).await);
    let socket = format!("redis+unix://{}", SERVER.unix_path().display());
    let by_socket = Limiter::new(limits, connect(socket).await);
    let one = Transaction::new("requests", "socket");
    let batch = [one.cost(5), Transaction::new("requests", "socket-other")];
    assert!(by_socket.spend_batch(&batch).await.unwrap().allowed());
    let left = async |limiter: &Limiter| {
        let state = limiter.check(&one.cost(0)).await.unwrap();
        state.remaining()
    };
    assert_eq!(left(&by_tcp).await, Some(15));
    by_socket.refund(&one.cost(3)).await.unwrap();
    assert_eq!(left(&by_tcp).await, Some(18));
    assert!(by_tcp.spend(&one.cost(18)).await.unwrap().allowed());
    assert!(!by_socket.spend(&one).await.unwrap().allowed());
    by_socket.reset(&[one]).await.unwrap();
    assert_eq!(left(&by_tcp).await, Some(20));
}

#[tokio::test]
async fn keys_have_their_form() {
    let server = Server::start();
    let form = KeyForm::new("registry:api:{rate-limit:<limit>:<id>}").unwrap();
    let backend = connect_as(RedisBackend::builder(server.url()).keys(form)).await;
    let limits = Limits::builder()
        .limit("ip", Limit::per_minute(60).burst(100))
        .build();
    let limiter = Limiter::new(limits.unwrap(), backend);
    for _ in 0..6 {
        limiter
            .spend(&Transaction::new("ip", "1.2.3.4"))
            .await
            .unwrap();
    }
    assert_eq!(server.keys(), ["registry:api:{rate-limit:ip:1.2.3.4}"]);
}
