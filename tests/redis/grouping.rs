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
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::redis::RedisError,
    clock::ManualClock,
    decision::{BatchDecision, Decision},
    id::IdFormat,
    limit::LimitName,
    limiter::LimiterError,
    quota::Per,
    testing::{MapBackend, history::Random},
    tiers::Tier,
    transaction::Mode,
};

use crate::{
    CLUSTER, connect,
    load::{reason, wait_until},
    redis_support::Server,
    support::scale::scaled,
};

/// The time for a decision where some are to take too long.
const SHORT: Duration = Duration::from_millis(300);

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
    let second = Duration::from_secs(1);
    let use_up = Limit::quota(6, Per::first_use(second));
    limits_with([
        Limit::per_day(5),
        Limit::window(5, second),
        use_up,
        sliding(60),
    ])
}

/// Tiers whose value is large, so that it is changed in place.
fn sliding(limit: u32) -> Limit {
    let second = Duration::from_secs(1);
    let lowest = Tier::new(limit, second).active(3 * second);
    let above = Tier::new(9, second).active(second).cooldown(second);
    Limit::tiers([lowest, above]).unwrap()
}

fn limits_with([five, window, use_up, sliding]: [Limit; 4]) -> Limits {
    let second = Duration::from_secs(1);
    let limits = Limits::builder()
        .limit(name("five", 1), five)
        .limit(name("tiers", 2), tiers())
        .limit(name("window", 3), window)
        .limit(name("wide", 4), Limit::window(40, 2 * second))
        .limit(name("hour", 5), Limit::quota(7, Per::Hour))
        .limit(name("use", 6), use_up)
        .limit(name("sliding", 7), sliding);
    limits.build().unwrap()
}

/// The same names with other terms, so that buckets are shared by unequal spends.
fn other_limits() -> Limits {
    let second = Duration::from_secs(1);
    let five = Limit::new(9, 7, second).unwrap().max_wait(second);
    let window = Limit::window(7, 2 * second);
    limits_with([five, window, Limit::window(9, second), sliding(50)])
}

async fn start() -> (Server, Limiter) {
    let server = Server::start();
    let limiter = Limiter::new(limits(), connect(server.url()).await);
    // From here on, scripts are loaded.
    limiter
        .spend(&Transaction::new("five", "warm"))
        .await
        .unwrap();
    server.command(&["CONFIG", "RESETSTAT"]).expect_success();
    (server, limiter)
}

fn spend<'a>(limiter: &'a Limiter, id: &'a str) -> Call<'a> {
    async move { limiter.spend_batch(&[Transaction::new("five", id)]).await }.boxed()
}

/// A batch of two buckets, which is no spend like others.
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
    let key = format!("tollgate:{{{id}}}:1:{id}");
    server.command(&["EXISTS", &key]).integer() == 1
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
    let mut waves = vec![spend(&limiter, "first")];
    for id in &ids {
        waves.push(spend(&limiter, id));
        waves.push(spend(&limiter, "hot"));
    }
    let answers = join_all(waves).await;
    let hot: Vec<_> = answers.into_iter().skip(2).step_by(2).collect();
    let remaining: Vec<_> = hot
        .iter()
        .map(|answer| answer.as_ref().unwrap().members()[0].remaining().unwrap())
        .collect();
    assert_eq!(remaining[..6], [4, 3, 2, 1, 0, 0], "in their order");
    assert_eq!(allowed(&hot).iter().filter(|allowed| **allowed).count(), 5);
    // The task of the link has its turn when all have asked.
    assert_eq!(calls(&server, "evalsha"), 1);
    assert_eq!((calls(&server, "get"), calls(&server, "set")), (22, 22));
    assert!(ids.iter().all(|id| is_charged(&server, id)));
}

#[tokio::test]
async fn call_that_is_alone_waits_for_nobody() {
    let (server, limiter) = start().await;
    for n in 1..=3 {
        limiter
            .spend(&Transaction::new("five", "alone"))
            .await
            .unwrap();
        assert_eq!(calls(&server, "evalsha"), n);
    }
}

#[tokio::test]
async fn as_many_as_fit_go_out_at_once() {
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
    let ids = ids("id", 150_000);
    let batch = |count: usize| {
        let ids = ids[..count].iter();
        let batch: Vec<_> = ids.map(|id| Transaction::new("five", id)).collect();
        let limiter = &limiter;
        async move { limiter.spend_batch(&batch).await }.boxed()
    };
    let others = [spend(&limiter, "first"), spend(&limiter, "second")];
    let [large, first, second] = join_all([batch(150_000)].into_iter().chain(others))
        .await
        .try_into()
        .unwrap();
    let error = reason(&large.unwrap_err());
    assert!(matches!(error, RedisError::TooLarge(150_000)), "{error}");
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
                .map(|limit| Transaction::new(*limit, "a"))
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
async fn callers_that_give_up_are_charged_at_most_once() {
    let server = Server::start();
    let backend = RedisBackend::builder(server.url()).timeout(Duration::from_millis(50));
    let backend = backend.build().unwrap();
    backend.connected(crate::PATIENCE).await.unwrap();
    let limiter = Limiter::new(limits(), backend);
    server.pause();
    let ids = ids("id", MOST + 10);
    for answer in join_all(ids.iter().map(|id| spend(&limiter, id))).await {
        let error = reason(&answer.unwrap_err());
        assert!(matches!(error, RedisError::Timeout), "{error}");
    }
    server.resume();
    wait_until("it answers again", async || {
        spend(&limiter, "last").await.is_ok()
    })
    .await;
    let day = Duration::from_secs(24 * 3600);
    let patient = Limiter::new(limits(), connect(server.url()).await);
    for id in &ids {
        let look = Transaction::new("five", id).cost(0);
        let reset = patient.check(&look).await.unwrap().reset_after();
        assert!(
            reset <= Some(day / 5),
            "{id} is charged more than once: {reset:?}"
        );
    }
}

/// Sends a group whose first half waits for longer already, and answers it once that half has given up. Returns whether the
/// others were answered in time.
async fn half_gives_up(limiter: &Limiter, server: &Server, ids: &[String]) -> bool {
    server.pause();
    let mut first = spend(limiter, "first");
    assert!(poll!(&mut first).is_pending());
    let (early, late) = ids.split_at(ids.len() / 2);
    let mut early = join_all(early.iter().map(|id| spend(limiter, id)));
    assert!(poll!(&mut early).is_pending());
    tokio::time::sleep(SHORT / 2).await;
    let mut late = join_all(late.iter().map(|id| spend(limiter, id)));
    assert!(poll!(&mut late).is_pending());
    // The others are sent.
    drop(first);
    for answer in early.await {
        let error = reason(&answer.unwrap_err());
        assert!(matches!(error, RedisError::Timeout), "{error}");
    }
    server.resume();
    let mut answers = late.await.into_iter();
    answers.all(|answer| answer.is_ok_and(|decided| decided.allowed()))
}

/// A connection on which decisions are late soon.
async fn impatient(server: &Server) -> Limiter {
    let backend = RedisBackend::builder(server.url()).timeout(SHORT);
    let backend = backend.build().unwrap();
    backend.connected(crate::PATIENCE).await.unwrap();
    Limiter::new(limits(), backend)
}

#[tokio::test]
async fn call_that_nobody_polls_can_be_dropped_at_any_time() {
    let server = Server::start();
    let limiter = impatient(&server).await;
    let answers = async || {
        wait_until("it answers", async || spend(&limiter, "a").await.is_ok()).await;
    };
    answers().await;
    for _ in 0..3 {
        let mut forgotten = spend(&limiter, "forgotten");
        assert!(poll!(&mut forgotten).is_pending());
        answers().await;
        drop(forgotten);
        answers().await;
    }
}

#[tokio::test]
async fn half_of_a_group_can_give_up_while_the_others_are_answered() {
    let server = Server::start();
    let limiter = impatient(&server).await;
    // On a slow machine, some give up before the group is sent, or all do.
    for round in 0.. {
        wait_until("it answers", async || {
            spend(&limiter, &format!("warm{round}")).await.is_ok()
        })
        .await;
        let ids = ids(&format!("round{round}-"), 10);
        let others_pass = half_gives_up(&limiter, &server, &ids).await;
        let charged: Vec<_> = ids.iter().map(|id| is_charged(&server, id)).collect();
        if others_pass {
            assert_eq!(charged[5..], [true; 5]);
        }
        if others_pass && charged[..5] == [true; 5] {
            return;
        }
    }
}

#[tokio::test]
async fn server_that_takes_no_writes_still_denies_whoever_has_nothing_left() {
    for batches in [false, true] {
        let (server, limiter) = start().await;
        let all = Transaction::new("five", "spent").cost(5);
        assert!(limiter.spend(&all).await.unwrap().allowed());
        let set = |limit| {
            server
                .command(&["CONFIG", "SET", "maxmemory", limit])
                .expect_success();
        };
        set("1");
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
        set("0");
        assert!(!is_charged(&server, "a") && !is_charged(&server, "b"));
    }
}

#[tokio::test]
async fn spends_from_tiers_fail_alone() {
    let (server, limiter) = start().await;
    let spend = |id: &'static str, cost| {
        let batch = [Transaction::new("tiers", id).cost(cost)];
        let limiter = &limiter;
        async move { limiter.spend_batch(&batch).await }
    };
    assert!(spend("spent", 7).await.unwrap().allowed());
    server
        .command(&["LPUSH", "tollgate:{bad}:2~t:bad", "x"])
        .expect_success();
    let set = |limit| {
        let set = ["CONFIG", "SET", "maxmemory", limit];
        server.command(&set).expect_success();
    };
    set("1");
    server.command(&["CONFIG", "RESETSTAT"]).expect_success();
    // The second request for 4 of `a` would be denied if the first were charged.
    let asked = [
        ("a", 4),
        ("a", 4),
        ("spent", 1),
        ("bad", 1),
        ("a", 4),
        ("bad", 1),
    ];
    let answers = join_all(asked.map(|(id, cost)| spend(id, cost))).await;
    // First together, and then each alone.
    assert_eq!(calls(&server, "evalsha"), 1 + asked.len());
    let expected = ["full", "full", "denied", "bad", "full", "bad"];
    assert_eq!(fates(&answers), expected);
    set("0");
    let answers = join_all(asked.map(|(id, cost)| spend(id, cost))).await;
    let expected = ["allowed", "denied", "denied", "bad", "denied", "bad"];
    assert_eq!(fates(&answers), expected);
}

/// What has become of each call: decided, or refused because of the server's memory or of somebody else's key.
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
        server.command(&["SCRIPT", "FLUSH"]).expect_success();
        server.command(&["CONFIG", "RESETSTAT"]).expect_success();
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

/// All that a caller can see of a decision. A full bucket may be forgotten.
type Seen = (bool, Option<u32>, [Option<Duration>; 4], u32);

fn seen(decision: &Decision) -> Seen {
    let spans = [
        decision.retry_after(),
        decision.next_after(),
        decision.reset_after(),
        Some(decision.delay()),
    ];
    let (allowed, remaining) = (decision.allowed(), decision.remaining());
    (allowed, remaining, spans, decision.granted())
}

/// What is asked in one call.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Spend,
    Check,
    Refund,
    Reset,
}

impl Ask {
    async fn of(self, limiter: &Limiter, batch: &[Transaction<'_>]) -> Result<Vec<Seen>, String> {
        let decided = match self {
            Self::Spend => limiter.spend_batch(batch).await,
            Self::Check => limiter.check_batch(batch).await,
            Self::Refund => limiter.refund_batch(batch).await,
            Self::Reset => {
                return limiter
                    .reset(batch)
                    .await
                    .map(|()| Vec::new())
                    .map_err(|error| error.to_string());
            }
        };
        let batch = decided.map_err(|error| match error {
            LimiterError::Backend(_) => format!("{:?}", reason(&error)),
            error => error.to_string(),
        })?;
        Ok(batch.members().iter().map(seen).collect())
    }
}

/// One call of a wave: what is asked, of which of two limiters, and for what.
type Asked<'a> = (Ask, usize, Vec<Transaction<'a>>);

/// A single spend, as most are.
fn plain<'a>(random: &mut Random, ids: &'a [String]) -> Asked<'a> {
    let id = &ids[usize::try_from(random.below(ids.len() as u64)).unwrap()];
    let cost = 1 + cost(random, 2) * cost(random, 3);
    let which = usize::from(random.below(6) == 0);
    (
        Ask::Spend,
        which,
        vec![Transaction::new("five", id).cost(cost)],
    )
}

/// A cost below a bound.
fn cost(random: &mut Random, bound: u64) -> u32 {
    u32::try_from(random.below(bound)).unwrap()
}

/// A single spend from a quota or a small window.
fn of_quotas<'a>(random: &mut Random, ids: &'a [String]) -> Asked<'a> {
    let id = &ids[usize::try_from(random.below(ids.len() as u64)).unwrap()];
    let name = ["window", "hour", "use"][usize::try_from(random.below(3)).unwrap()];
    let cost = 1 + cost(random, 2) * cost(random, 3);
    let which = usize::from(random.below(6) == 0);
    (
        Ask::Spend,
        which,
        vec![Transaction::new(name, id).cost(cost)],
    )
}

/// A single spend from tiers, for at least a part of its cost.
fn of_tiers<'a>(random: &mut Random, ids: &'a [String]) -> Asked<'a> {
    let id = &ids[usize::try_from(random.below(ids.len() as u64)).unwrap()];
    let (name, most) = [("tiers", 3), ("sliding", 25)][usize::from(random.below(2) == 0)];
    let cost = 1 + cost(random, most);
    let least = 1 + self::cost(random, cost.into());
    let which = usize::from(random.below(6) == 0);
    let transaction = Transaction::new(name, id).cost(cost).min_cost(least);
    (Ask::Spend, which, vec![transaction])
}

fn any<'a>(random: &mut Random, ids: &'a [String]) -> Asked<'a> {
    let which = usize::from(random.below(4) == 0);
    let ask = match random.below(12) {
        0..7 => Ask::Spend,
        7..9 => Ask::Check,
        9..11 => Ask::Refund,
        _ => Ask::Reset,
    };
    let first = usize::try_from(random.below(ids.len() as u64)).unwrap();
    let mut batch = Vec::new();
    for n in 0..1 + usize::try_from(random.below(3)).unwrap() {
        let id = &ids[(first + n) % ids.len()];
        let mut mode = Mode::CheckAndSpend;
        let transaction = match random.below(9) {
            0 | 1 if !matches!(ask, Ask::Refund) => {
                let most = 1 + cost(random, 3);
                Transaction::new("tiers", id).cost(most).min_cost(1)
            }
            2 => {
                mode = Mode::Debit;
                Transaction::new("five", id).cost(cost(random, 4))
            }
            n @ 3..7 => {
                let name = ["window", "wide", "hour", "use"][usize::try_from(n).unwrap() - 3];
                let most = if name == "wide" { 25 } else { 4 };
                mode = [Mode::CheckAndSpend, Mode::Debit][usize::from(random.below(6) == 0)];
                Transaction::new(name, id).cost(cost(random, most))
            }
            _ => Transaction::new("five", id).cost(cost(random, 4)),
        };
        let mode = match random.below(8) {
            0 => Mode::CheckOnly,
            1 => Mode::SpendOnly,
            _ => mode,
        };
        batch.push(transaction.mode(mode));
    }
    (ask, which, batch)
}

#[tokio::test]
async fn calls_that_share_one_are_decided_as_by_a_map_in_their_order() {
    let server = Server::start();
    let (clock, map) = (
        ManualClock::default(),
        std::sync::Arc::new(MapBackend::default()),
    );
    let redis = std::sync::Arc::new(connect(server.url()).await);
    let with_clock = |limiter: Limiter| limiter.with_clock(clock.clone());
    let redis =
        [limits(), other_limits()].map(|limits| with_clock(Limiter::new(limits, redis.clone())));
    let map =
        [limits(), other_limits()].map(|limits| with_clock(Limiter::new(limits, map.clone())));
    let (ids, mut random, mut decided) = (ids("id", 7), Random(20), 0);
    let spent = || calls(&server, "evalsha");
    while decided < scaled(8_000) {
        let ask = [plain, of_quotas, of_tiers, any][usize::try_from(random.below(4)).unwrap()];
        let most = if random.below(4) == 0 { 150 } else { 20 };
        let size = 1 + random.below(most);
        let wave: Vec<_> = (0..size).map(|_| ask(&mut random, &ids)).collect();
        let of_redis = wave
            .iter()
            .map(|(ask, which, batch)| ask.of(&redis[*which], batch));
        let of_redis = join_all(of_redis).await;
        for ((ask, which, batch), found) in wave.iter().zip(of_redis) {
            let expected = ask.of(&map[*which], batch).await;
            assert_eq!(
                found, expected,
                "{ask:?} of {which} after {decided}: {batch:?}"
            );
            decided += 1;
        }
        let longest =
            [10, 100_000, 2_000_000, 1_000_000_000][usize::try_from(random.below(4)).unwrap()];
        clock.advance(Duration::from_micros(random.below(longest)));
    }
    assert!(spent() * 4 < decided, "{} calls for {decided}", spent());
}
