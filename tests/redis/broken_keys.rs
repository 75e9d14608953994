//! Keys with values that are not buckets: an error of their own requests, next to which all others are decided.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{BackendError, FailurePolicy, redis::RedisError},
    decision::Source,
    limiter::LimiterError,
    quota::Per,
    tiers::Tier,
    transaction::Mode,
};

use crate::{
    CLUSTER, TIMEOUT, connect, load::reason, redis_support::Server, spread::pair, support::Log,
};

/// Values that no algorithm writes, as expressions in Lua.
const ANY: &[&str] = &[
    "''",
    "'text'",
    "'inf'",
    "'nan'",
    "'-5'",
    "'1e300'",
    "'5.5'",
    "'0x10'",
    "'99999999999999999999'",
    "'9007199254740992'",
    "'5:4294967296'",
    "'5:'",
    "'5:-1'",
];

const WINDOWS: &[&str] = &[
    "'Wxyz'",
    "'W' .. struct.pack('<d', 0/0)",
    "'W' .. struct.pack('<d', 1/0)",
    "'W' .. struct.pack('<d', -1)",
    "'W' .. struct.pack('<d', 0.5)",
    "'W' .. struct.pack('<dd', 2, 1)",
    "'W' .. string.rep(struct.pack('<d', 0/0), 200)",
];

const QUOTAS: &[&str] = &[
    "'Q'",
    "'Q1'",
    "'Q1:'",
    "'Qx:1'",
    "'Q1:-1'",
    "'Q1:1e3'",
    "'Q1:4294967296'",
    "'Q9007199254740992:1'",
    "'Q' .. string.format('%.0f', math.floor(redis.call('TIME')[1] / 3600) * 3600000000) .. ':x'",
    "'Q' .. string.format('%.0f', math.floor(redis.call('TIME')[1] / 3600) * 3600000000) .. ':4294967296'",
];

const TIERS: &[&str] = &[
    "'T'",
    "'Tomato'",
    "'T' .. string.char(1) .. struct.pack('<ddI4I4I4', 0/0, 1, 0, 0, 0)",
    "'T' .. string.char(1) .. struct.pack('<ddI4I4I4', 5, 9, 0, 0, 0)",
    "'T' .. string.char(1) .. struct.pack('<ddI4I4I4', 9, 5, 4, 0, 3) .. struct.pack('<ddd', 6, 6, 6)",
    "'T' .. string.char(1) .. struct.pack('<ddI4I4I4d', 9, 5, 1, 0, 4, 0/0)",
    "'T' .. string.char(1) .. struct.pack('<ddI4I4I4dd', 9, 5, 2, 0, 4, 8, 7)",
    "'T' .. string.char(1) .. struct.pack('<ddI4I4I4d', 9, 5, 3, 0, 4, 7)",
    "'T' .. string.char(1) .. struct.pack('<ddI4I4I4', 9, 5, 40, 0, 60) .. string.rep(struct.pack('<d', 0/0), 40)",
];

/// Each limit, with values that begin like its own.
fn limits() -> Vec<(&'static str, Limit, &'static [&'static str])> {
    let hour = Duration::from_secs(3600);
    let tier = |limit| Tier::new(limit, hour).active(hour).cooldown(hour);
    vec![
        ("gcra", Limit::per_day(100), &[]),
        ("line", Limit::per_hour(100).max_wait(hour), &[]),
        ("window", Limit::window(9, hour), WINDOWS),
        ("middle", Limit::window(40, hour), WINDOWS),
        ("wide", Limit::window(100, hour), WINDOWS),
        ("hour", Limit::quota(9, Per::Hour), QUOTAS),
        ("use", Limit::quota(9, Per::first_use(hour)), QUOTAS),
        ("tiers", Limit::tiers([tier(4), tier(3)]).unwrap(), TIERS),
        ("many", Limit::tiers([tier(60), tier(3)]).unwrap(), TIERS),
    ]
}

fn built(redact: bool) -> Limits {
    let limits = limits().into_iter();
    let builder = limits.fold(Limits::builder(), |limits, (name, limit, _)| {
        limits.limit(name, limit)
    });
    builder.redact_ids(redact).build().unwrap()
}

/// Sets a key to the value of an expression, or makes it a list.
fn set(server: &Server, key: &str, value: Option<&str>) {
    server.exec(&["DEL", key]);
    match value {
        None => server.exec(&["LPUSH", key, "x"]),
        Some(value) => {
            let set = format!("return redis.call('SET', KEYS[1], {value})");
            server.exec(&["EVAL", &set, "1", key]);
        }
    }
}

/// Asserts that exactly the calls on `bad` fail, with an error that names its key.
async fn only_bad_ones_fail(limiter: &Limiter, limit: &str, calls: &[Vec<String>], case: &str) {
    let spends = calls.iter().map(|ids| async move {
        let batch: Vec<_> = ids.iter().map(|id| Transaction::new(limit, id)).collect();
        limiter.spend_batch(&batch).await
    });
    for (answer, ids) in join_all(spends).await.into_iter().zip(calls) {
        if !ids.iter().any(|id| id == "bad") {
            assert!(answer.unwrap().allowed(), "{case}: {ids:?}");
            continue;
        }
        let Err(LimiterError::Backend(error @ BackendError::Undecidable(_))) = answer else {
            panic!("{case}: {ids:?}: {answer:?}");
        };
        let reason = reason(&error);
        let names_it =
            matches!(&reason, RedisError::NotABucket { key, .. } if key.ends_with(":bad"));
        assert!(names_it, "{case}: {reason}");
    }
}

/// Ways in which requests travel together. Those without `bad` have ids of their own.
fn ways(round: usize) -> Vec<Vec<Vec<String>>> {
    let ways: [&[&[&str]]; 5] = [
        &[&["bad"]],
        &[&["a"], &["b"], &["bad"], &["c"]],
        &[&["a"], &["b"], &["bad"], &["bad"], &["c"], &["bad"]],
        &[&["a"], &["b", "bad"], &["c", "d"], &["bad", "e"]],
        &[&["a"], &["b", "bad"], &["bad"], &["c"], &["d", "e"]],
    ];
    let id = |way: usize, id: &str| match id {
        "bad" => id.to_owned(),
        id => format!("{round}-{way}-{id}"),
    };
    let ways = ways.iter().enumerate();
    ways.map(|(way, calls)| {
        let calls = calls.iter();
        let calls = calls.map(|ids| ids.iter().map(|one| id(way, one)).collect());
        calls.collect()
    })
    .collect()
}

#[tokio::test]
async fn corrupt_bucket_is_an_error_of_its_own_requests() {
    let server = Server::start();
    let limiter = Limiter::new(built(false), connect(server.url()).await);
    let mut round = 0;
    for (limit, _, own) in limits() {
        let bad = Transaction::new(limit, "bad");
        limiter.spend(&bad).await.unwrap();
        let key = server.key_of("*:bad").unwrap();
        let values = ANY.iter().chain(own).map(|value| Some(*value));
        for value in values.chain([None]) {
            set(&server, &key, value);
            round += 1;
            let case = format!("{limit}, {value:?}");
            for calls in ways(round) {
                only_bad_ones_fail(&limiter, limit, &calls, &case).await;
            }
            assert!(limiter.check(&bad).await.is_err(), "{case}");
            if !["tiers", "many"].contains(&limit) {
                assert!(limiter.refund(&bad).await.is_err(), "{case}");
            }
            let both = [bad, Transaction::new(limit, "fine")];
            limiter.reset(&both).await.unwrap();
            assert!(!server.keys().contains(&key), "{case}");
            assert!(limiter.spend(&bad).await.unwrap().allowed(), "{case}");
        }
        server.exec(&["DEL", &key]);
    }
}

#[tokio::test]
async fn corrupt_bucket_affects_only_its_own_client() {
    let server = Server::start();
    let (log, _guard) = Log::capture();
    let policy = FailurePolicy::new(connect(server.url()).await).deadline(TIMEOUT);
    let limiter = Limiter::new(built(true), policy);
    for (limit, _, _) in limits() {
        let bad = Transaction::new(limit, "bad");
        limiter.spend(&bad).await.unwrap();
        let key = server.key_of("*:bad").unwrap();
        set(&server, &key, None);
        for n in 0..30 {
            let id = format!("{limit}-{n}");
            let spends = [bad, Transaction::new(limit, &id), bad];
            let answers = join_all(spends.iter().map(|spend| limiter.spend(spend))).await;
            let sources = answers
                .iter()
                .map(|answer| answer.as_ref().unwrap().source());
            let expected = [Source::Local, Source::Store, Source::Local];
            assert_eq!(sources.collect::<Vec<_>>(), expected, "{limit}");
            assert_eq!(limiter.stats().is_open, Some(false), "{limit}");
        }
        limiter.reset(&[bad]).await.unwrap();
        assert_eq!(limiter.spend(&bad).await.unwrap().source(), Source::Store);
        server.exec(&["DEL", &key]);
    }
    assert_eq!(log.count("does not answer"), 0, "{log:?}");
    // It is logged again from time to time.
    let logged = log.count("cannot decide a bucket");
    assert!((1..=limits().len()).contains(&logged), "{log:?}");
    assert_eq!(log.count(":bad"), 0, "its id is secret: {log:?}");
    assert_eq!(log.count(":<secret>"), logged, "{log:?}");
}

#[tokio::test]
async fn value_in_one_slot_of_a_cluster_fails_its_batch_and_charges_nothing() {
    let limiter = Limiter::new(built(false), connect(CLUSTER.url()).await);
    for (limit, mode) in [
        ("gcra", Mode::CheckAndSpend),
        ("gcra", Mode::Debit),
        ("hour", Mode::SpendOnly),
    ] {
        let [a, b] = pair(&format!("broken-{limit}-{mode:?}"));
        let owner = CLUSTER.owner(CLUSTER.slot_of_client(&b));
        let [of_a, of_b] = [&a, &b].map(|id| Transaction::new(limit, id));
        limiter.spend(&of_b).await.unwrap();
        let key = owner.key_of(&format!("*:{b}")).unwrap();
        set(owner, &key, None);
        let error = limiter
            .spend_batch(&[of_a, of_b.mode(mode)])
            .await
            .unwrap_err();
        let names_it =
            matches!(reason(&error), RedisError::NotABucket { key: named, .. } if named == key);
        assert!(names_it, "{error:?}");
        assert!(matches!(
            error,
            LimiterError::Backend(BackendError::Undecidable(_))
        ));
        let left = limiter.check(&of_a.cost(0)).await.unwrap();
        let fresh = limiter
            .check(&Transaction::new(limit, "fresh").cost(0))
            .await
            .unwrap();
        assert_eq!(left.remaining(), fresh.remaining());
        limiter.reset(&[of_a, of_b]).await.unwrap();
        assert!(
            limiter
                .spend_batch(&[of_a, of_b.mode(mode)])
                .await
                .unwrap()
                .allowed()
        );
    }
}
