//! Requests that wait in line for their limit instead of being refused.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::Full;
use tokio::{task::JoinSet, time::Instant};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::Backend,
    clock::TokioClock,
    key::{Everyone, HeaderId},
    layer::Assessment,
    tiers::Tier,
    transaction::{Mode, Transaction},
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{
    Hello, bucket, from_ip,
    patience::{Answer, LINE, Slow, T, backends, poll, request, settle},
    store::{Fate, Store},
    text,
};

const IP: &str = "203.0.113.7";

fn limiter(backend: impl Backend) -> Limiter {
    let tiers = Limit::tiers([Tier::new(5, Duration::from_secs(60))]).unwrap();
    let limits = Limits::builder()
        .limit("requests", LINE)
        .limit("tiers", tiers)
        .limit("all", Limit::per_hour(100));
    Limiter::new(limits.build().unwrap(), backend).with_clock(TokioClock::default())
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("requests", ClientIp::peer()))
}

/// How long until a client's bucket is full.
async fn taken(limiter: &Limiter) -> Duration {
    taken_of(limiter, "requests", IP).await
}

async fn taken_of(limiter: &Limiter, limit: &str, id: &str) -> Duration {
    bucket(limiter, limit, id).await.reset_after()
}

/// Uses the burst up.
async fn use_up(limiter: &Limiter) {
    let burst = Transaction::new("requests", IP).cost(2);
    assert!(limiter.spend(&burst).await.unwrap().allowed());
}

#[tokio::test(start_paused = true)]
async fn requests_start_in_order_each_at_its_instant() {
    for backend in backends() {
        let limiter = limiter(backend);
        let (layer, began) = (layer(&limiter), Instant::now());
        let mut requests = JoinSet::new();
        for number in 0..30_u32 {
            let sent = request(&layer);
            requests.spawn(async move { (number, sent.await.status(), began.elapsed()) });
            settle().await;
        }
        let mut started = Vec::new();
        while let Some(ended) = requests.join_next().await {
            match ended.unwrap() {
                (number, StatusCode::OK, at) => started.push((number, at)),
                (number, status, at) => {
                    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
                    assert!(at.is_zero() && number >= 22, "the line holds twenty");
                }
            }
        }
        let expected = (0..22_u32).map(|number| (number, T * number.saturating_sub(1)));
        assert_eq!(started, expected.collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn refused_request_is_told_when_there_is_room_in_the_line() {
    let limiter = limiter(MemoryBackend::new());
    let layer = layer(&limiter);
    use_up(&limiter).await;
    // Two seconds of the line are taken, and six to come.
    let debit = Transaction::new("requests", IP).cost(80).mode(Mode::Debit);
    limiter.spend(&debit).await.unwrap();
    let refused = request(&layer).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "7");
    assert_eq!(refused.headers()["ratelimit"], "\"requests\";r=0;t=7");
    let text = text(refused).await;
    assert!(
        text.contains("(10 per 1s, 2 at once, waiting up to 2s)"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn rule_that_does_not_wait_refuses() {
    let limiter = limiter(MemoryBackend::new());
    let rule = |rule: Rule| RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let no_wait = rule(Rule::new("requests", ClientIp::peer()).no_wait());
    use_up(&limiter).await;
    let refused = request(&no_wait).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    // One of the rules that meet in a bucket is enough.
    let both = rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("requests", ClientIp::peer()).no_wait());
    assert_eq!(request(&both).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(taken(&limiter).await, 2 * T, "nothing was taken");
    let waits = rule(Rule::new("requests", ClientIp::peer()));
    assert_eq!(request(&waits).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn client_that_disconnects_leaves_the_line() {
    let limiter = limiter(MemoryBackend::new());
    let with_all = layer(&limiter).rule(Rule::new("all", Everyone));
    let with_all = with_all.rule(Rule::new("tiers", Everyone));
    for layer in [with_all.clone(), with_all.extensions(true)] {
        limiter
            .reset(&[Transaction::new("requests", IP)])
            .await
            .unwrap();
        use_up(&limiter).await;
        let [mut first, mut last] = [request(&layer), request(&layer)];
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(last.as_mut()).is_pending());
        assert_eq!(taken(&limiter).await, 4 * T);
        let hour = Duration::from_secs(36);
        assert_eq!(taken_of(&limiter, "all", "everyone").await, 2 * hour);
        drop(last);
        assert_eq!(taken(&limiter).await, 3 * T);
        assert_eq!(taken_of(&limiter, "all", "everyone").await, hour);
        drop(first);
        assert_eq!(taken(&limiter).await, 2 * T);
        assert_eq!(
            taken_of(&limiter, "all", "everyone").await,
            Duration::ZERO,
            "all that the request was charged is given back"
        );
    }
    let tiers = Transaction::new("tiers", "everyone").mode(Mode::CheckOnly);
    let tiers = limiter.check(&tiers).await.unwrap();
    assert_eq!(tiers.remaining(), Some(0), "tiers give nothing back");
}

#[tokio::test(start_paused = true)]
async fn client_that_disconnects_while_the_store_decides_is_refunded_once() {
    for (decides, answers) in [(false, false), (true, false), (true, true)] {
        let store = Slow::default();
        let gates = Arc::clone(&store.gates);
        let limiter = limiter(store);
        let (layer, mut sent) = (layer(&limiter), Vec::new());
        for _ in 0..3 {
            let mut request = request(&layer);
            assert!(poll(request.as_mut()).is_pending());
            settle().await;
            sent.push(request);
        }
        gates.decide.add_permits(2);
        gates.answer.add_permits(2);
        settle().await;
        let last = sent.pop().unwrap();
        gates.decide.add_permits(usize::from(decides));
        gates.answer.add_permits(usize::from(answers));
        settle().await;
        drop(last);
        gates.open();
        settle().await;
        assert_eq!(gates.counts(), (3, 1), "exactly once");
        assert_eq!(taken(&limiter).await, 2 * T);
        for request in sent {
            assert_eq!(request.await.status(), StatusCode::OK);
        }
        settle().await;
        assert_eq!(gates.counts(), (3, 1), "those who started stay charged");
    }
}

#[tokio::test(start_paused = true)]
async fn only_so_many_requests_of_a_layer_wait() {
    let limiter = limiter(MemoryBackend::new());
    let layer = layer(&limiter).max_waiting(2);
    use_up(&limiter).await;
    let mut waiting = [0; 2].map(|_| request(&layer));
    for request in &mut waiting {
        assert!(poll(request.as_mut()).is_pending());
    }
    for layer in [layer.clone(), layer.clone().max_waiting(0)] {
        let refused = request(&layer).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        assert_eq!(refused.headers()["ratelimit"], "\"requests\";r=0;t=1");
        assert_eq!(taken(&limiter).await, 4 * T, "it has left the line");
        let other = layer.layer(Hello).oneshot(from_ip("203.0.113.8"));
        assert_eq!(other.await.unwrap().status(), StatusCode::OK);
    }
    let [first, last] = waiting;
    drop(last);
    let mut next = request(&layer);
    assert!(poll(next.as_mut()).is_pending(), "there is room again");
    assert_eq!(first.await.status(), StatusCode::OK);
    assert_eq!(next.await.status(), StatusCode::OK);
    let mut again = request(&layer);
    assert!(poll(again.as_mut()).is_pending());
}

/// What becomes of a thousand requests in line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Served,
    Panicked,
    Dropped,
    DroppedAfterReload,
}

impl End {
    const ALL: [Self; 4] = [
        Self::Served,
        Self::Panicked,
        Self::Dropped,
        Self::DroppedAfterReload,
    ];

    /// Lets it become so.
    async fn of<F: Future<Output: Send> + Send + 'static>(self, waiting: Vec<F>) {
        match self {
            Self::Dropped | Self::DroppedAfterReload => drop(waiting),
            Self::Served | Self::Panicked => {
                for request in waiting {
                    let ended = tokio::spawn(request).await;
                    assert_eq!(ended.is_err(), self == Self::Panicked);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn places_of_a_thousand_requests_are_free_again_whatever_became_of_them() {
    const WAITING: u32 = 1000;
    let line = Limit::per_second(10)
        .burst(1)
        .max_wait(Duration::from_secs(1000));
    let limits = || Limits::builder().limit("requests", line.clone()).build();
    for fate in End::ALL {
        let limiter = Limiter::new(limits().unwrap(), MemoryBackend::new());
        let limiter = limiter.with_clock(TokioClock::default());
        let layer = layer(&limiter).max_waiting(WAITING as usize);
        let service = layer.layer(service_fn(move |_: Request<Full<Bytes>>| async move {
            assert!(fate != End::Panicked, "the service panics");
            Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
        }));
        let send = || Box::pin(service.clone().oneshot(from_ip(IP)));
        // One is served at once.
        let _ = tokio::spawn(send()).await;
        for round in 0..2 {
            let mut waiting: Vec<_> = (0..WAITING).map(|_| send()).collect();
            for request in &mut waiting {
                assert!(poll(request.as_mut()).is_pending(), "{fate:?} {round}");
            }
            if fate == End::DroppedAfterReload {
                limiter.reload(limits().unwrap()).unwrap();
            }
            let refused = send().await.unwrap();
            let status = StatusCode::TOO_MANY_REQUESTS;
            assert_eq!(refused.status(), status, "{fate:?}: the room is full");
            fate.of(waiting).await;
            // None is in line now.
            tokio::time::advance(Duration::from_secs(1)).await;
            let _ = tokio::spawn(send()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_for_want_of_room_is_as_if_the_rule_did_not_wait() {
    let limiter = limiter(MemoryBackend::new());
    use_up(&limiter).await;
    let with = |rule: Rule| {
        let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        layer
            .rule(Rule::new("all", Everyone))
            .response_extension(true)
    };
    let rule = Rule::new("requests", ClientIp::peer());
    let full = request(&with(rule.clone()).max_waiting(0)).await;
    let no_wait = request(&with(rule.no_wait())).await;
    assert_eq!(full.status(), no_wait.status());
    assert_eq!(full.headers(), no_wait.headers());
    let decisions = |answer: &Answer| {
        let assessment = answer.extensions().get::<Assessment>().unwrap();
        let all = assessment.iter();
        all.map(|assessed| (format!("{:?}", assessed.decision), assessed.charged()))
            .collect::<Vec<_>>()
    };
    assert_eq!(decisions(&full), decisions(&no_wait));
    assert_eq!(text(full).await, text(no_wait).await);
    assert_eq!(taken_of(&limiter, "all", "everyone").await, Duration::ZERO);
}

/// A body that counts how often it is asked for data.
struct Counted(Arc<AtomicUsize>);

impl Body for Counted {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(None)
    }
}

#[tokio::test(start_paused = true)]
async fn body_is_not_read_while_the_request_waits() {
    let limiter = limiter(MemoryBackend::new());
    use_up(&limiter).await;
    let reads = Arc::new(AtomicUsize::new(0));
    let service = service_fn(|request: Request<Counted>| async {
        http_body_util::BodyExt::collect(request.into_body())
            .await
            .unwrap();
        Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default()))
    });
    let body = Counted(Arc::clone(&reads));
    let request = from_ip(IP).map(|_| body);
    let mut sent = Box::pin(layer(&limiter).layer(service).oneshot(request));
    assert!(poll(sent.as_mut()).is_pending());
    settle().await;
    assert_eq!(reads.load(Ordering::SeqCst), 0);
    assert_eq!(sent.await.unwrap().status(), StatusCode::OK);
    assert_eq!(reads.load(Ordering::SeqCst), 1);
}

/// A layer with a rule that is charged by how requests end, and what it was asked.
fn settled(limiter: &Limiter) -> (RateLimitLayer, Arc<Mutex<Vec<bool>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let rule = Rule::new("requests", ClientIp::peer()).settle_by(move |ending| {
        let is_answered = ending.response().is_some();
        seen.lock().unwrap().push(is_answered);
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
        let mut waits = request(&layer);
        assert!(poll(waits.as_mut()).is_pending());
        settle().await;
        assert!(poll(waits.as_mut()).is_pending());
        assert_eq!(taken(&limiter).await, 3 * T);
        drop(waits);
        settle().await;
        assert_eq!(taken(&limiter).await, 2 * T);
        assert!(asked.lock().unwrap().is_empty(), "it has no ending");
    }
}

#[tokio::test(start_paused = true)]
async fn settlement_gives_nothing_back_while_others_wait() {
    let limiter = limiter(MemoryBackend::new());
    let (layer, asked) = settled(&limiter);
    use_up(&limiter).await;
    let (began, mut sent) = (Instant::now(), [0; 3].map(|_| request(&layer)));
    for request in &mut sent {
        assert!(poll(request.as_mut()).is_pending());
    }
    let [first, second, third] = sent;
    drop(text(first.await).await);
    // Two are behind it.
    assert_eq!(taken(&limiter).await, 4 * T);
    drop(text(second.await).await);
    drop(text(third.await).await);
    assert_eq!(began.elapsed(), 3 * T);
    assert_eq!(*asked.lock().unwrap(), [true; 3]);
    assert_eq!(
        taken(&limiter).await,
        T,
        "the last one is refunded as usual"
    );
}

#[tokio::test(start_paused = true)]
async fn refund_of_a_request_that_waited_is_made_when_it_fails() {
    let limiter = limiter(MemoryBackend::new());
    use_up(&limiter).await;
    let rule = Rule::new("requests", ClientIp::peer()).refund_if(|ending| ending.failed());
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let broken = service_fn(|_: Request<Full<Bytes>>| async {
        Err::<Response<Full<Bytes>>, _>(std::io::Error::other("broken"))
    });
    let sent = layer.layer(broken).oneshot(from_ip(IP));
    assert!(sent.await.is_err());
    assert_eq!(taken(&limiter).await, T);
}

#[tokio::test(start_paused = true)]
async fn request_refused_by_another_rule_takes_no_place_in_line() {
    let limiter = limiter(MemoryBackend::new());
    use_up(&limiter).await;
    let layer = layer(&limiter).rule(Rule::new("all", Everyone).cost(60));
    let first = request(&layer).await;
    assert_eq!(first.status(), StatusCode::OK);
    let refused = request(&layer).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(taken(&limiter).await, 2 * T);
    let no_id = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("all", HeaderId::new("x-account")));
    let refused = request(&no_id).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "at once");
}

#[tokio::test(start_paused = true)]
async fn reload_moves_no_request_that_waits() {
    let limiter = limiter(MemoryBackend::new());
    let layer = layer(&limiter);
    use_up(&limiter).await;
    let (began, mut waits) = (Instant::now(), request(&layer));
    assert!(poll(waits.as_mut()).is_pending());
    let without = Limits::builder()
        .limit("requests", LINE.max_wait(Duration::ZERO))
        .name("tiers")
        .name("all");
    limiter.reload(without.build().unwrap()).unwrap();
    assert_eq!(
        request(&layer).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(waits.await.status(), StatusCode::OK);
    assert_eq!(began.elapsed(), T);
}

/// Limits like those of [`limiter`], with or without a line.
fn reloaded(has_line: bool) -> Limits {
    let max_wait = if has_line { 20 * T } else { Duration::ZERO };
    let limits = Limits::builder().limit("requests", LINE.max_wait(max_wait));
    limits.name("tiers").name("all").build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn request_is_decided_by_the_limits_with_which_it_began_and_leaves_their_line() {
    for has_line in [true, false] {
        let store = Slow::default();
        let gates = Arc::clone(&store.gates);
        gates.decide.add_permits(1);
        gates.answer.add_permits(1);
        let limiter = limiter(store);
        use_up(&limiter).await;
        limiter.reload(reloaded(has_line)).unwrap();
        let layer = layer(&limiter);
        let call = || Box::pin(layer.layer(Hello).call(from_ip(IP)));
        // Neither is polled before the reload.
        let (mut leaves, stays) = (call(), call());
        limiter.reload(reloaded(!has_line)).unwrap();
        assert!(poll(leaves.as_mut()).is_pending());
        settle().await;
        gates.decide.add_permits(1);
        settle().await;
        assert!(poll(leaves.as_mut()).is_pending());
        drop(leaves);
        gates.open();
        settle().await;
        // It is behind the slot of the one that has left, which is refunded as on a limit without a line.
        let (status, refunds, rest) = match has_line {
            true => (StatusCode::OK, 1, T),
            false => (StatusCode::TOO_MANY_REQUESTS, 0, 2 * T),
        };
        assert_eq!(stays.await.unwrap().status(), status);
        assert_eq!(gates.counts(), (3, refunds));
        assert_eq!(taken(&limiter).await, rest);
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_fails_while_requests_wait_moves_none() {
    let store = Store::default();
    let limiter = limiter(store.clone());
    let layer = layer(&limiter);
    use_up(&limiter).await;
    let mut sent = [0; 3].map(|_| request(&layer));
    for request in &mut sent {
        assert!(poll(request.as_mut()).is_pending());
        settle().await;
        assert!(poll(request.as_mut()).is_pending());
    }
    let began = Instant::now();
    store.becomes(Fate::Away);
    let refused = request(&layer).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let [first, second, third] = sent;
    drop(third);
    settle().await;
    assert_eq!(first.await.status(), StatusCode::OK);
    assert_eq!(second.await.status(), StatusCode::OK);
    assert_eq!(began.elapsed(), 2 * T);
    store.becomes(Fate::Works);
    assert_eq!(taken(&limiter).await, 3 * T, "the refund was lost");
}

#[test]
fn request_outside_of_a_runtime_is_refused_instead_of_waiting() {
    let limits = Limits::builder().limit("requests", LINE).build().unwrap();
    let clock = tollgate::clock::ManualClock::default();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock);
    let layer = layer(&limiter);
    for number in 0..4 {
        let mut sent = request(&layer);
        let Poll::Ready(answer) = poll(sent.as_mut()) else {
            panic!("nobody could wake it")
        };
        assert_eq!(answer.status() == StatusCode::OK, number < 2);
    }
}
