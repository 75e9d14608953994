//! Decisions that arrive while a call is in flight: they share the next one, and each is decided as if it were alone.
//!
//! Calls that are polled one after the other in a runtime of one thread arrive in that order, all but the first while that
//! is in flight.

use std::{pin::Pin, time::Duration};

use futures_util::{
    future::{FutureExt, join_all},
    poll,
};
use tokio::task::yield_now;
use tollgate::{
    Limit, Limiter, Limits, Transaction, backend::redis::RedisError, decision::BatchDecision,
    id::IdFormat, limit::LimitName, limiter::LimiterError, quota::Per, tiers::Tier,
};

use crate::{CLUSTER, connect, load::reason, redis_support::Server, support::patience::settle};

/// As many as share a call at most.
const MOST: usize = 128;

type Call<'a> = Pin<Box<dyn Future<Output = Result<BatchDecision, LimiterError>> + Send + 'a>>;

fn name(name: &'static str, number: u32) -> LimitName {
    LimitName::new(name, number, IdFormat::Opaque)
}

fn tiers() -> Limit {
    let second = Duration::from_secs(1);
    let tier = |limit| Tier::new(limit, second).active(second).cooldown(second);
    Limit::tiers([tier(4), tier(3)]).unwrap()
}

/// The limit `five` gives nothing back while a test runs.
fn limits() -> Limits {
    let limits = Limits::builder()
        .limit(name("five", 1), Limit::per_day(5))
        .limit(name("tiers", 2), tiers())
        .limit(name("window", 3), Limit::window(5, Duration::from_secs(1)))
        .limit(name("hour", 5), Limit::quota(7, Per::Hour));
    limits.build().unwrap()
}

async fn start() -> (Server, Limiter) {
    let server = Server::start();
    let limiter = Limiter::new(limits(), connect(server.url()).await);
    // From here on, scripts are loaded.
    limiter
        .spend(&Transaction::new("five", "warm"))
        .await
        .unwrap();
    server.exec(&["CONFIG", "RESETSTAT"]);
    (server, limiter)
}

fn spend<'a>(limiter: &'a Limiter, id: &'a str) -> Call<'a> {
    async move { limiter.spend_batch(&[Transaction::new("five", id)]).await }.boxed()
}

/// A batch of two buckets, which cannot join a group of single spends.
fn pair<'a>(limiter: &'a Limiter, ids: [&'a str; 2]) -> Call<'a> {
    async move {
        let batch = ids.map(|id| Transaction::new("five", id));
        limiter.spend_batch(&batch).await
    }
    .boxed()
}

fn calls(server: &Server, command: &str) -> usize {
    let stat = server.info(&format!("cmdstat_{command}"));
    let calls = stat
        .strip_prefix("calls=")
        .and_then(|stat| stat.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Whether the key of an id is there.
fn is_charged(server: &Server, id: &str) -> bool {
    server.key_of(&format!("1:{id}")).is_some()
}

fn allowed(answers: &[Result<BatchDecision, LimiterError>]) -> Vec<bool> {
    let answers = answers.iter();
    answers
        .map(|answer| answer.as_ref().unwrap().allowed())
        .collect()
}

fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

#[tokio::test]
async fn spends_that_arrive_during_a_call_share_the_next_one() {
    let (server, limiter) = start().await;
    let ids = ids("id", 20);
    server.pause();
    let mut first = spend(&limiter, "first");
    assert!(poll!(&mut first).is_pending());
    settle().await;
    let waves = ids
        .iter()
        .flat_map(|id| [spend(&limiter, id), spend(&limiter, "hot")]);
    let mut waves = join_all(waves);
    assert!(poll!(&mut waves).is_pending());
    settle().await;
    server.resume();
    assert!(first.await.unwrap().allowed());
    let hot: Vec<_> = waves.await.into_iter().skip(1).step_by(2).collect();
    let remaining: Vec<_> = hot
        .iter()
        .map(|answer| answer.as_ref().unwrap().members()[0].remaining().unwrap())
        .collect();
    assert_eq!(remaining[..6], [4, 3, 2, 1, 0, 0], "in their order");
    assert_eq!(allowed(&hot).iter().filter(|allowed| **allowed).count(), 5);
    assert_eq!(calls(&server, "evalsha"), 2);
    assert_eq!((calls(&server, "get"), calls(&server, "set")), (22, 22));
    assert!(ids.iter().all(|id| is_charged(&server, id)));
}

#[tokio::test]
async fn call_that_is_alone_is_sent_without_a_timer() {
    let (server, limiter) = start().await;
    server.pause();
    let mut alone = spend(&limiter, "alone");
    assert!(poll!(&mut alone).is_pending());
    settle().await;
    // The caller leaves: only a call that was sent is charged.
    drop(alone);
    server.resume();
    assert!(spend(&limiter, "other").await.unwrap().allowed());
    assert!(is_charged(&server, "alone"));
}

#[tokio::test]
async fn full_groups_do_not_wait_for_the_call_in_flight() {
    let (server, limiter) = start().await;
    let ids = ids("id", 1 + 2 * MOST + 3);
    // Nothing is answered in between.
    server.pause();
    let mut waves = join_all(ids.iter().map(|id| spend(&limiter, id)));
    assert!(poll!(&mut waves).is_pending());
    server.resume();
    assert!(allowed(&waves.await).iter().all(|allowed| *allowed));
    assert_eq!(calls(&server, "evalsha"), 3);
}

#[tokio::test]
async fn large_batches_share_a_call_up_to_its_bound() {
    let (server, limiter) = start().await;
    let all: Vec<_> = (0..20).map(|n| ids(&format!("{n}-"), 40)).collect();
    let waves = all.iter().map(|ids| {
        let limiter = &limiter;
        async move {
            let batch: Vec<_> = ids.iter().map(|id| Transaction::new("five", id)).collect();
            limiter.spend_batch(&batch).await
        }
    });
    let answers =
        join_all(std::iter::once(spend(&limiter, "first")).chain(waves.map(FutureExt::boxed)));
    assert!(allowed(&answers.await).iter().all(|allowed| *allowed));
    // Three batches of 40 members fit in a call.
    assert_eq!(calls(&server, "evalsha"), 7);
    assert_eq!(calls(&server, "set"), 1 + 20 * 40);
}

#[tokio::test]
async fn batch_that_no_server_would_read_is_rejected_before_it_is_sent() {
    let (server, limiter) = start().await;
    let ids = ids("id", 100_001);
    let batch = |count: usize| {
        let ids = ids[..count].iter();
        let batch: Vec<_> = ids.map(|id| Transaction::new("five", id)).collect();
        let limiter = &limiter;
        async move { limiter.spend_batch(&batch).await }.boxed()
    };
    let others = [spend(&limiter, "first"), spend(&limiter, "second")];
    let [large, first, second] = join_all([batch(100_001)].into_iter().chain(others))
        .await
        .try_into()
        .unwrap();
    let error = reason(&large.unwrap_err());
    assert!(matches!(error, RedisError::TooLarge(100_001)), "{error}");
    assert!(first.unwrap().allowed() && second.unwrap().allowed());
    assert_eq!(calls(&server, "evalsha"), 1);
    assert!(!is_charged(&server, "id0"));
}

#[tokio::test]
async fn caller_that_leaves_is_charged_only_if_it_was_sent() {
    let (server, limiter) = start().await;
    server.pause();
    let mut unsent = spend(&limiter, "unsent");
    assert!(poll!(&mut unsent).is_pending());
    // The task that sends it has not run.
    drop(unsent);
    yield_now().await;
    let mut first = spend(&limiter, "first");
    assert!(poll!(&mut first).is_pending());
    yield_now().await;
    let ids = ids("id", 3 + MOST);
    let mut before = join_all(ids[..3].iter().map(|id| spend(&limiter, id)));
    assert!(poll!(&mut before).is_pending());
    drop(before);
    let (half, others) = ids[3..].split_at(MOST / 2);
    let mut half = join_all(half.iter().map(|id| spend(&limiter, id)));
    let mut others = join_all(others.iter().map(|id| spend(&limiter, id)));
    assert!(poll!(&mut half).is_pending());
    assert!(poll!(&mut others).is_pending());
    // They fill a group, which is sent at once.
    yield_now().await;
    drop(first);
    drop(half);
    server.resume();
    assert_eq!(allowed(&others.await), [true; MOST / 2]);
    let charged: Vec<_> = ids.iter().map(|id| is_charged(&server, id)).collect();
    assert_eq!(charged[..3], [false; 3]);
    assert_eq!(charged[3..], [true; MOST]);
    assert!(is_charged(&server, "first") && !is_charged(&server, "unsent"));
}

type Ends<'a> = Pin<Box<dyn Future<Output = Result<(), LimiterError>> + Send + 'a>>;

/// Operations of all kinds on one slot. Some of them can be grouped.
fn kinds(limiter: &Limiter) -> Vec<Ends<'_>> {
    let batch = |limits: &'static [&'static str]| {
        async move {
            let batch: Vec<_> = limits
                .iter()
                .map(|limit| Transaction::new(limit, "a"))
                .collect();
            limiter.spend_batch(&batch).await.map(drop)
        }
        .boxed()
    };
    let one = Transaction::new("five", "a");
    let check = async move { limiter.check(&one).await.map(drop) };
    let refund = async move { limiter.refund(&one).await.map(drop) };
    let reset = async move { limiter.reset(&[one]).await };
    let mut kinds: Vec<_> = [&["five"][..], &["tiers"], &["window"], &["five", "hour"]]
        .map(batch)
        .into();
    kinds.extend([check.boxed(), refund.boxed(), reset.boxed()]);
    kinds
}

#[tokio::test]
async fn caller_that_is_not_polled_delays_no_other() {
    let (server, single) = start().await;
    let cluster = Limiter::new(limits(), connect(CLUSTER.url()).await);
    for limiter in [&single, &cluster] {
        for mut forgotten in kinds(limiter) {
            assert!(poll!(&mut forgotten).is_pending());
            for other in kinds(limiter) {
                other.await.unwrap();
            }
            forgotten.await.unwrap();
        }
    }
    drop(server);
}

#[tokio::test]
async fn server_that_takes_no_writes_still_denies_whoever_has_nothing_left() {
    for batches in [false, true] {
        let (server, limiter) = start().await;
        let all = Transaction::new("five", "spent").cost(5);
        assert!(limiter.spend(&all).await.unwrap().allowed());
        server.configure("maxmemory", "1");
        let mut waves = vec![
            spend(&limiter, "spent"),
            spend(&limiter, "a"),
            spend(&limiter, "spent"),
        ];
        // The second one would be denied if the first were charged.
        let dear = || async {
            limiter
                .spend_batch(&[Transaction::new("five", "b").cost(4)])
                .await
        };
        waves.extend([dear().boxed(), dear().boxed()]);
        if batches {
            waves.extend([pair(&limiter, ["a", "spent"]), pair(&limiter, ["a", "b"])]);
        }
        let answers = join_all(waves).await;
        let expected = ["denied", "full", "denied", "full", "full", "denied", "full"];
        assert_eq!(fates(&answers), expected[..answers.len()]);
        server.configure("maxmemory", "0");
        assert!(!is_charged(&server, "a") && !is_charged(&server, "b"));
    }
}

/// Returns the result of each call: decided, or refused because of the server's memory or another call's key.
fn fates(answers: &[Result<BatchDecision, LimiterError>]) -> Vec<&'static str> {
    let fate = |answer: &Result<BatchDecision, LimiterError>| match answer {
        Ok(batch) if batch.allowed() => "allowed",
        Ok(_) => "denied",
        Err(error) => match reason(error).to_string() {
            text if text.contains("raise `maxmemory`") => "full",
            text if text.contains("a prefix of its own") => "bad",
            _ => "error",
        },
    };
    answers.iter().map(fate).collect()
}

#[tokio::test]
async fn calls_are_sent_with_their_script_if_that_is_not_loaded() {
    let (server, limiter) = start().await;
    for batches in [false, true] {
        server.exec(&["SCRIPT", "FLUSH"]);
        server.exec(&["CONFIG", "RESETSTAT"]);
        let mut waves: Vec<_> = (0..9).map(|_| spend(&limiter, "hot")).collect();
        if batches {
            waves.push(pair(&limiter, ["a", "b"]));
        }
        let answers = join_all(waves).await;
        let passed = allowed(&answers[..9])
            .iter()
            .filter(|allowed| **allowed)
            .count();
        assert_eq!(passed, if batches { 0 } else { 5 });
        assert_eq!(calls(&server, "eval"), 1);
    }
    assert!(is_charged(&server, "a") && is_charged(&server, "b"));
}
