//! Requests that wait in line for their limit instead of being refused.

use std::{
    convert::Infallible,
    future::{Future, pending, ready},
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use tokio::{runtime::Builder, time::Instant};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{Backend, custom::Operation},
    clock::{ManualClock, TokioClock},
    key::{Everyone, HeaderId},
    quota::Per,
    tiers::Tier,
    transaction::Mode,
};
use tower::{Layer, Service, ServiceExt, limit::GlobalConcurrencyLimitLayer, service_fn};

use crate::support::{
    Hello, Log, bucket, from_ip,
    patience::{Answer, LINE, T, backends, poll, request, settle},
    store::Store,
    text,
};

const IP: &str = "203.0.113.7";

fn limits(line: Limit) -> Limits {
    let tiers = Limit::tiers([Tier::new(5, 600 * T)]).unwrap();
    let limits = Limits::builder()
        .limit("requests", line)
        .limit("tiers", tiers)
        .limit("plan", Limit::quota(100, Per::first_use(600 * T)))
        .limit("all", Limit::per_hour(100));
    limits.build().unwrap()
}

fn limiter(backend: impl Backend) -> Limiter {
    Limiter::new(limits(LINE), backend).with_clock(TokioClock::default())
}

fn rule() -> Rule {
    Rule::new("requests", ClientIp::peer())
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(rule())
}

/// Returns the time until a bucket is full.
async fn taken_of(limiter: &Limiter, limit: &str, id: &str) -> Duration {
    bucket(limiter, limit, id).await.reset_after().unwrap()
}

async fn taken(limiter: &Limiter) -> Duration {
    taken_of(limiter, "requests", IP).await
}

async fn charge(limiter: &Limiter, cost: u32) {
    let charge = Transaction::new("requests", IP)
        .cost(cost)
        .mode(Mode::Debit);
    limiter.spend(&charge).await.unwrap();
}

/// Uses up the burst.
async fn use_up(limiter: &Limiter) {
    charge(limiter, 2).await;
}

/// Sends requests that are in line after that.
async fn in_line<const N: usize>(
    layer: &RateLimitLayer,
) -> [std::pin::Pin<Box<dyn Future<Output = Answer> + Send>>; N] {
    let mut sent = [0; N].map(|_| request(layer));
    for request in &mut sent {
        assert!(poll(request.as_mut()).is_pending());
        settle().await;
        assert!(poll(request.as_mut()).is_pending());
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_the_time_until_the_line_has_room() {
    let limiter = limiter(MemoryBackend::new());
    let layer = layer(&limiter);
    use_up(&limiter).await;
    // Two seconds of the line are taken, and six to come.
    charge(&limiter, 80).await;
    let refused = request(&layer).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "7");
    let text = text(refused).await;
    let limit = "(10 per second, 2 at once, waiting up to 2 s)";
    assert!(text.contains(limit), "{text}");
}

#[tokio::test(start_paused = true)]
async fn rule_that_does_not_wait_refuses_and_takes_nothing() {
    let limiter = limiter(MemoryBackend::new());
    use_up(&limiter).await;
    let no_wait = RateLimitLayer::with_limiter(limiter.clone()).rule(rule().no_wait());
    let refused = request(&no_wait).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert_eq!(taken(&limiter).await, 2 * T);
    assert_eq!(request(&layer(&limiter)).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn client_that_disconnects_leaves_the_line_and_all_its_charges_are_given_back() {
    let limiter = limiter(MemoryBackend::new());
    let with_all = layer(&limiter).rule(Rule::new("all", Everyone));
    let with_all = with_all.rule(Rule::new("tiers", Everyone));
    for layer in [with_all.clone(), with_all.extensions(true)] {
        let everything = Transaction::new("requests", IP);
        limiter.reset(&[everything]).await.unwrap();
        use_up(&limiter).await;
        let [first, last] = in_line(&layer).await;
        assert_eq!(taken(&limiter).await, 4 * T);
        let one = Duration::from_secs(36);
        for (request, left) in [(last, 1), (first, 0)] {
            drop(request);
            assert_eq!(taken(&limiter).await, (2 + left) * T);
            assert_eq!(taken_of(&limiter, "all", "everyone").await, left * one);
        }
    }
    let tiers = Transaction::new("tiers", "everyone");
    let tiers = limiter.peek(&tiers).await.unwrap();
    assert_eq!(tiers.remaining(), Some(1), "tiers give nothing back");
}

/// The ways in which requests in line end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Left,
    Panicked,
    Served,
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_wait_and_every_end_frees_their_places() {
    let line = Limit::per_second(10).burst(1);
    let line = limits(line.max_wait(Duration::from_secs(100_000)));
    let limiter = Limiter::new(line, MemoryBackend::new()).with_clock(TokioClock::default());
    let planted = Arc::new(Mutex::new(false));
    let panics = Arc::clone(&planted);
    let service = layer(&limiter).layer(service_fn(move |_: Request<Full<Bytes>>| {
        assert!(!*panics.lock().unwrap(), "a planted panic");
        ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
    }));
    let send = || Box::pin(service.clone().oneshot(from_ip(IP)));
    for end in [End::Panicked, End::Left, End::Served] {
        // One is served at once.
        *planted.lock().unwrap() = false;
        send().await.unwrap();
        let mut waiting: Vec<_> = (0..10_000).map(|_| send()).collect();
        for request in &mut waiting {
            assert!(poll(request.as_mut()).is_pending(), "before {end:?}");
        }
        let before = taken(&limiter).await;
        let refused = send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{end:?}");
        assert_eq!(taken(&limiter).await, before, "it has left no slot behind");
        *planted.lock().unwrap() = end == End::Panicked;
        for request in waiting.into_iter().filter(|_| end != End::Left) {
            let ended = std::panic::AssertUnwindSafe(request).catch_unwind().await;
            assert_eq!(ended.is_err(), end == End::Panicked);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_is_refused_in_any_case_takes_no_place_in_a_line() {
    for backend in backends() {
        let limiter = limiter(backend);
        use_up(&limiter).await;
        // By another rule.
        let costly = layer(&limiter).rule(Rule::new("all", Everyone).cost(60));
        assert_eq!(request(&costly).await.status(), StatusCode::OK);
        let refused = request(&costly).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(taken(&limiter).await, 2 * T);
        // Without an id, at once.
        let no_id = layer(&limiter).rule(Rule::new("all", HeaderId::new("x-account")));
        let began = Instant::now();
        let refused = request(&no_id).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert_eq!(
            (taken(&limiter).await, began.elapsed()),
            (2 * T, Duration::ZERO)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn body_is_not_read_while_the_request_waits() {
    let limiter = limiter(MemoryBackend::new());
    use_up(&limiter).await;
    let reads = Arc::new(Mutex::new(0));
    let service = service_fn(
        async |request: Request<http_body_util::combinators::BoxBody<_, _>>| {
            request.into_body().collect().await.unwrap();
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        },
    );
    let counter = Arc::clone(&reads);
    let body = Full::<Bytes>::from("body").map_frame(move |frame| {
        *counter.lock().unwrap() += 1;
        frame
    });
    let request = from_ip(IP).map(|_| body.boxed());
    let mut sent = Box::pin(layer(&limiter).layer(service).oneshot(request));
    assert!(poll(sent.as_mut()).is_pending());
    settle().await;
    assert_eq!(*reads.lock().unwrap(), 0);
    assert_eq!(sent.await.unwrap().status(), StatusCode::OK);
    assert_eq!(*reads.lock().unwrap(), 1);
}

/// A layer with a rule that gives all back at the end, and whether requests had responses then.
fn settled(limiter: &Limiter) -> (RateLimitLayer, Arc<Mutex<Vec<bool>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let rule = rule().settle_by(move |end| {
        seen.lock().unwrap().push(end.response().is_some());
        0
    });
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    (layer, asked)
}

#[tokio::test(start_paused = true)]
async fn request_that_never_started_is_not_settled() {
    for backend in backends() {
        let limiter = limiter(backend);
        use_up(&limiter).await;
        let (layer, asked) = settled(&limiter);
        let [waits] = in_line(&layer).await;
        drop(waits);
        settle().await;
        assert_eq!(taken(&limiter).await, 2 * T);
        assert!(asked.lock().unwrap().is_empty(), "it has no end");
    }
}

#[tokio::test(start_paused = true)]
async fn settlement_gives_nothing_back_while_others_wait() {
    let limiter = limiter(MemoryBackend::new());
    let (layer, asked) = settled(&limiter);
    use_up(&limiter).await;
    let began = Instant::now();
    let [first, second, third] = in_line(&layer).await;
    text(first.await).await;
    assert_eq!(taken(&limiter).await, 4 * T, "two are behind it");
    text(second.await).await;
    text(third.await).await;
    assert_eq!(began.elapsed(), 3 * T);
    assert_eq!(*asked.lock().unwrap(), [true; 3]);
    assert_eq!(
        taken(&limiter).await,
        T,
        "the last one is refunded as usual"
    );
}

#[tokio::test(start_paused = true)]
async fn request_is_decided_by_the_limits_with_which_it_began_and_leaves_their_line() {
    let with_line = |has_line| {
        if has_line {
            limits(LINE)
        } else {
            limits(Limit::per_second(10).burst(2))
        }
    };
    for has_line in [true, false] {
        let store = Store::gated();
        let gates = store.gates();
        gates.decide.add_permits(1);
        gates.answer.add_permits(1);
        let limiter = limiter(store.clone());
        use_up(&limiter).await;
        limiter.reload(with_line(has_line)).unwrap();
        let layer = layer(&limiter);
        let call = || Box::pin(layer.layer(Hello).call(from_ip(IP)));
        // Neither is polled before the reload.
        let (mut leaves, stays) = (call(), call());
        limiter.reload(with_line(!has_line)).unwrap();
        assert!(poll(leaves.as_mut()).is_pending());
        settle().await;
        gates.decide.add_permits(1);
        settle().await;
        assert!(poll(leaves.as_mut()).is_pending());
        drop(leaves);
        gates.open();
        settle().await;
        // The one that stays takes the slot of the one that has left.
        let (status, refunds) = if has_line {
            (StatusCode::OK, 1)
        } else {
            (StatusCode::TOO_MANY_REQUESTS, 0)
        };
        assert_eq!(stays.await.unwrap().status(), status);
        assert_eq!(store.count(Operation::Spend), 3);
        assert_eq!(store.count(Operation::Refund), refunds);
        assert_eq!(taken(&limiter).await, 2 * T);
    }
}

#[test]
fn request_outside_of_a_runtime_is_refused_instead_of_waiting() {
    let limiter = Limiter::new(limits(LINE), MemoryBackend::new());
    let layer = layer(&limiter.with_clock(ManualClock::default()));
    for number in 0..4 {
        let Poll::Ready(answer) = poll(request(&layer).as_mut()) else {
            panic!("nobody could wake it")
        };
        assert_eq!(answer.status() == StatusCode::OK, number < 2);
    }
}

#[test]
fn request_that_has_to_wait_without_a_timer_is_an_error_with_a_remedy() {
    for backend in backends() {
        let (log, _guard) = Log::capture();
        let limiter = Limiter::new(limits(LINE), backend).with_clock(ManualClock::default());
        let layer = layer(&limiter);
        let without_timer = Builder::new_current_thread().build().unwrap();
        without_timer.block_on(async {
            for status in [200, 200, 500, 500] {
                assert_eq!(request(&layer).await.status(), status);
            }
            assert_eq!(taken(&limiter).await, 2 * T);
        });
        assert_eq!(log.count("enable_time"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn response_shows_the_figures_after_the_wait() {
    for backend in backends() {
        let limiter = limiter(backend);
        let layer = layer(&limiter).rule(Rule::new("plan", Everyone));
        // It waits for 1.5 seconds.
        charge(&limiter, 16).await;
        let [waits] = in_line(&layer).await;
        let answer = waits.await;
        let state = "\"requests\";r=0;t=1, \"plan\";r=99;t=59";
        assert_eq!(answer.headers()["ratelimit"], state);
    }
}

/// At most two requests at once, in a layer of their own, and others wait in line.
fn line_and_permits() -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per(1, T).burst(1).max_wait(100 * T))
        .limit("running", Limit::concurrent(2));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    limiter.with_clock(TokioClock::default())
}

fn permits(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("running", Everyone))
}

#[tokio::test(start_paused = true)]
async fn request_takes_its_permit_at_its_turn_and_none_before() {
    let limiter = line_and_permits();
    let never = service_fn(|_: Request<Full<Bytes>>| {
        pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let app = layer(&limiter).layer(permits(&limiter).layer(never));
    let mut running = Box::pin(app.clone().oneshot(from_ip(IP)));
    assert!(poll(running.as_mut()).is_pending());
    for _ in 0..40 {
        let mut waiting = Box::pin(app.clone().oneshot(from_ip(IP)));
        assert!(poll(waiting.as_mut()).is_pending());
        let left = bucket(&limiter, "running", "everyone").await;
        assert_eq!(left.remaining(), Some(1));
        drop(waiting);
        let left = bucket(&limiter, "running", "everyone").await;
        assert_eq!(left.remaining(), Some(1));
    }
    let mut next = Box::pin(app.oneshot(from_ip(IP)));
    assert!(poll(next.as_mut()).is_pending());
    tokio::time::advance(T).await;
    assert!(poll(next.as_mut()).is_pending());
    let left = bucket(&limiter, "running", "everyone").await;
    assert_eq!(left.remaining(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn permits_and_a_line_in_one_layer_or_batch_are_an_error() {
    let limiter = line_and_permits();
    let remedy = "put the permits into a layer inside of the one with the line";
    let both = permits(&limiter).try_rule(rule()).unwrap_err();
    assert!(both.to_string().contains(remedy), "{both}");
    assert!(permits(&limiter).try_rule(rule().no_wait()).is_ok());

    let transactions = [
        Transaction::new("running", "everyone"),
        Transaction::new("requests", IP),
    ];
    let error = limiter.spend_batch(&transactions).await.unwrap_err();
    assert!(error.to_string().contains("`no_wait`"), "{error}");
    let declines = [transactions[0], transactions[1].no_wait()];
    assert!(limiter.spend_batch(&declines).await.unwrap().allowed());
}

/// A request that waits keeps the capacity of the service that was polled ready, and the permits of layers outside.
#[tokio::test(start_paused = true)]
async fn request_in_line_holds_the_capacity_of_the_service_and_the_permits_of_outer_layers() {
    let limiter = line_and_permits();
    let one_at_once = GlobalConcurrencyLimitLayer::new(1);
    let app = permits(&limiter).layer(layer(&limiter).layer(one_at_once.layer(Hello)));
    let send = || Box::pin(app.clone().oneshot(from_ip(IP)));
    send().await.unwrap();
    let mut waits = send();
    assert!(poll(waits.as_mut()).is_pending());
    let left = bucket(&limiter, "running", "everyone").await;
    assert_eq!(left.remaining(), Some(1));
    let mut other = Box::pin(one_at_once.layer(Hello).oneshot(from_ip(IP)));
    assert!(poll(other.as_mut()).is_pending());
    assert_eq!(waits.await.unwrap().status(), StatusCode::OK);
    assert_eq!(other.await.unwrap().status(), StatusCode::OK);
}

/// The line comes with a reload or with the request, so the mistake cannot be found at startup.
#[tokio::test(start_paused = true)]
async fn request_that_would_hold_permits_in_line_is_refused_and_logged_once() {
    let limits = |requests| {
        let limits = Limits::builder()
            .limit("requests", requests)
            .limit("running", Limit::concurrent(2));
        limits.build().unwrap()
    };
    let line = || Limit::per(1, T).max_wait(100 * T);
    for is_reloaded in [true, false] {
        let (log, _guard) = Log::capture();
        let limiter = Limiter::new(limits(Limit::per(1, T)), MemoryBackend::new());
        let brings = rule().limit_from(move |_| Some(line()).filter(|_| !is_reloaded));
        let app = permits(&limiter).rule(brings).layer(Hello);
        if is_reloaded {
            limiter.reload(limits(line())).unwrap();
        }
        for _ in 0..3 {
            let response = app.clone().oneshot(from_ip(IP)).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
        let lines = log.count("layer inside of the one with the line");
        assert_eq!(lines, 1, "{log:?}");
        let left = bucket(&limiter, "running", "everyone").await;
        assert_eq!(left.remaining(), Some(2));
    }
}
