//! Handlers see the decisions on their requests, and correct their charges.

use std::{
    convert::Infallible,
    future::{pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use http_body_util::Full;
use tokio::time::advance;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::Backend,
    clock::{ManualClock, TokioClock},
    key::Everyone,
    layer::{Assessment, LimitAssessment},
    limit::LimitName,
    quota::Per,
    rule::RequestEnd,
    tiers::Tier,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{
    assessed, bucket, from_ip, limiter, limiter_of,
    patience::{poll, settle},
    send,
    store::{Fate, Store},
};

const IP: &str = "203.0.113.7";
const T: Duration = Duration::from_secs(1);

fn names(assessment: &Assessment) -> Vec<&str> {
    assessment.iter().map(|assessed| &*assessed.limit).collect()
}

#[tokio::test]
async fn handler_sees_the_decisions_of_all_layers_around_it() {
    let limits = Limits::builder()
        .limit("outer", Limit::per_minute(10))
        .limit("inner", Limit::per_minute(20));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let of = |limit: &str| {
        let layer = RateLimitLayer::with_limiter(limiter.clone());
        layer.rule(Rule::new(limit, Everyone)).extensions(true)
    };
    let handler = service_fn(|request: Request<Full<Bytes>>| {
        let assessment: &Assessment = request.extensions().get().unwrap();
        assert_eq!(names(assessment), ["outer", "inner"]);
        assert_eq!(
            assessment.of("inner").unwrap().decision.remaining(),
            Some(19)
        );
        assert!(assessment.of("other").is_none());
        ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
    });
    let service = of("outer").layer(of("inner").layer(handler));
    let response = service.oneshot(from_ip(IP)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn request_that_is_not_charged_has_an_assessment_without_decisions() {
    let shadow = LimitName::from("requests").shadow(true);
    let limits = Limits::builder().limit(shadow, Limit::per_minute(1));
    let away = Limiter::new(limits.build().unwrap(), Store::new(Fate::NoReply));
    let rule = || Rule::new("requests", ClientIp::peer());
    let of = |limiter: Limiter| RateLimitLayer::with_limiter(limiter);
    let ours = || of(limiter(&ManualClock::default()));
    for layer in [
        ours(),
        ours().rule(rule().skip_if(|_: &Parts| true)),
        ours().rule(rule()).skip_if(|_: &Parts| true),
        of(away).rule(rule()),
    ] {
        let assessment = assessed(&layer, from_ip(IP)).await.unwrap();
        assert!(names(&assessment).is_empty(), "{layer:?}");
        // Inside another layer, it has the decision of that one.
        let handler = service_fn(|request: Request<Full<Bytes>>| {
            let assessment = request.extensions().get::<Assessment>();
            assert_eq!(names(assessment.unwrap()), ["requests"]);
            ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
        });
        let outer = ours().rule(rule()).extensions(true);
        let both = outer.layer(layer.clone().extensions(true).layer(handler));
        let response = both.oneshot(from_ip(IP)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{layer:?}");
    }
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn extractor_names_the_setting_that_it_needs() {
    use axum::{Router, body::Body, routing::get};
    use http_body_util::BodyExt;

    use crate::support::Log;

    let (log, _guard) = Log::capture();
    let handler = get(async |assessment: Assessment| assessment.iter().count().to_string());
    for (extends, status, text) in [(true, 200, "1"), (false, 500, "`.extensions(true)`")] {
        let layer = RateLimitLayer::new(Limit::per_minute(1), Everyone).extensions(extends);
        let app = Router::new().route("/", handler.clone()).layer(layer);
        let response = app.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), status);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = str::from_utf8(&body).unwrap();
        assert!(body.contains(text), "{body}");
        let line = format!("ERROR tollgate::layer::extractor: a handler fails error={body}");
        assert_eq!(log.count(&line), usize::from(!extends), "{log:?}");
    }
}

/// One per second, forty at once, in kinds that differ in what they give back.
fn of_forty(backend: impl Backend) -> Limiter {
    let tokens = Limit::per_second(1).burst(40);
    let limits = Limits::builder()
        .limit("line", tokens.clone().max_wait(60 * T))
        .limit("tokens", tokens)
        .limit("quota", Limit::quota(40, Per::first_use(10 * T)))
        .limit("window", Limit::window(40, 10 * T));
    Limiter::new(limits.build().unwrap(), backend).with_clock(TokioClock::default())
}

/// In memory, and in a store that has to be waited for.
fn limiters() -> [Limiter; 2] {
    [of_forty(MemoryBackend::new()), of_forty(Store::default())]
}

/// Sends a request that costs 10, and lets a handler do this.
async fn handle(limiter: &Limiter, limit: &'static str, then: impl AsyncFn(Assessment)) {
    let rule = Rule::new(limit, Everyone).cost(10);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let assessment = assessed(&layer, from_ip(IP)).await.unwrap();
    then(assessment).await;
}

fn of<'a>(assessment: &'a Assessment, limit: &str) -> &'a LimitAssessment {
    assessment.of(limit).unwrap()
}

async fn taken(limiter: &Limiter, limit: &str) -> Option<Duration> {
    bucket(limiter, limit, "everyone").await.reset_after()
}

async fn remaining(limiter: &Limiter, limit: &str) -> u32 {
    let bucket = bucket(limiter, limit, "everyone").await;
    bucket.remaining().unwrap()
}

#[tokio::test(start_paused = true)]
async fn charge_is_corrected_as_often_as_the_handler_likes() {
    for limit in ["line", "tokens", "quota", "window"] {
        for limiter in limiters() {
            handle(&limiter, limit, async |assessment| {
                for cost in [4, 10, 0, 10, 25, 3] {
                    of(&assessment, limit).settle(cost).await.unwrap();
                    assert_eq!(remaining(&limiter, limit).await, 40 - cost, "{limit}");
                }
                assessment.refund().await.unwrap();
                assessment.refund().await.unwrap();
                assert_eq!(remaining(&limiter, limit).await, 40, "once");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn units_that_a_line_does_not_give_back_count_toward_the_next_settlement() {
    for limiter in limiters() {
        handle(&limiter, "line", async |assessment| {
            let line = of(&assessment, "line");
            // Thirty fit, and one waits behind them.
            let others = Transaction::new("line", "everyone").cost(31);
            assert_eq!(limiter.spend(&others).await.unwrap().delay(), T);
            for (cost, charged) in [(4, 10), (10, 10), (0, 10), (7, 10), (12, 12)] {
                line.settle(cost).await.unwrap();
                assert_eq!(
                    taken(&limiter, "line").await,
                    Some((31 + charged) * T),
                    "{cost}"
                );
            }
            // The line is empty then.
            advance(3 * T).await;
            assessment.refund().await.unwrap();
            assert_eq!(taken(&limiter, "line").await, Some(28 * T));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn settlement_after_the_charge_has_expired_charges_only_what_exceeds_it() {
    for limit in ["quota", "window", "tokens"] {
        for limiter in limiters() {
            handle(&limiter, limit, async |assessment| {
                let assessed = of(&assessment, limit);
                assert_eq!(remaining(&limiter, limit).await, 30);
                advance(11 * T).await;
                for cost in [4, 10] {
                    assessed.settle(cost).await.unwrap();
                    assert_eq!(remaining(&limiter, limit).await, 40, "{limit} {cost}");
                }
                assessed.settle(13).await.unwrap();
                assert_eq!(remaining(&limiter, limit).await, 37, "{limit}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn corrections_are_made_again_unless_the_store_may_have_made_them() {
    let store = Store::default();
    let limiter = of_forty(store.clone());
    handle(&limiter, "tokens", async |assessment| {
        let tokens = of(&assessment, "tokens");
        for (fate, cost, left) in [
            (Fate::Fails, 14, 30),
            (Fate::AppliesThenErrors, 14, 26),
            (Fate::Works, 14, 26),
            // The units whose answer was lost are not refunded.
            (Fate::Works, 12, 26),
            (Fate::Fails, 5, 26),
            (Fate::Works, 5, 31),
            (Fate::Works, 9, 27),
            (Fate::AppliesThenErrors, 3, 31),
            (Fate::Works, 3, 33),
        ] {
            store.set_fate(fate);
            let settled = tokens.settle(cost).await;
            assert_eq!(settled.is_ok(), fate == Fate::Works, "{fate:?} {cost}");
            store.set_fate(Fate::Works);
            assert_eq!(remaining(&limiter, "tokens").await, left, "{fate:?} {cost}");
        }
    })
    .await;
}

#[tokio::test]
async fn grants_of_tiers_are_charged_as_far_as_they_go() {
    let tiers = Limit::tiers([Tier::new(4, 10 * T)]).unwrap();
    let limiter = limiter_of(&ManualClock::default(), tiers);
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    let layer = layer.rule(Rule::new("requests", Everyone));
    let assessment = assessed(&layer, from_ip(IP)).await.unwrap();
    let requests = of(&assessment, "requests");
    let peek = Transaction::new("requests", "everyone");
    for (cost, is_settled, left) in [(3, true, 1), (9, true, 0), (2, false, 0)] {
        assert_eq!(requests.settle(cost).await.is_ok(), is_settled, "{cost}");
        let bucket = limiter.peek(&peek).await.unwrap();
        assert_eq!(bucket.remaining(), Some(left), "{cost}");
    }
}

#[tokio::test(start_paused = true)]
async fn handler_fills_the_bucket_of_its_client() {
    let limiter = of_forty(MemoryBackend::new());
    handle(&limiter, "tokens", async |assessment| {
        of(&assessment, "tokens").reset().await.unwrap();
    })
    .await;
    assert_eq!(remaining(&limiter, "tokens").await, 40);
}

#[tokio::test]
async fn charge_that_was_not_made_is_not_corrected() {
    let store = Store::default();
    let shadow = LimitName::from("shadow").shadow(true);
    let limits = Limits::builder()
        .limit("unlimited", Limit::UNLIMITED)
        .limit(shadow, Limit::BLOCKED);
    let limiter = Limiter::new(limits.build().unwrap(), store.clone());
    for limit in ["unlimited", "shadow"] {
        handle(&limiter, limit, async |assessment| {
            store.calls();
            of(&assessment, limit).settle(20).await.unwrap();
            assert_eq!(store.calls(), 0, "{limit}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn handler_that_settles_to_the_most_and_refunds_gives_back_its_own_charges_only() {
    for limit in ["tokens", "quota", "window"] {
        let limiter = of_forty(MemoryBackend::new());
        let others = Transaction::new(limit, "everyone").cost(24);
        assert!(limiter.spend(&others).await.unwrap().allowed());
        handle(&limiter, limit, async |assessment| {
            // Of tokens, a debt of more than 71 years cannot be given back.
            let most = if limit == "tokens" { 1 << 31 } else { u32::MAX };
            for cost in [most, 3, most, most] {
                of(&assessment, limit).settle(cost).await.unwrap();
            }
            assessment.refund().await.unwrap();
        })
        .await;
        assert_eq!(remaining(&limiter, limit).await, 16, "{limit}");
    }
}

#[tokio::test]
async fn settlement_goes_on_if_its_client_leaves() {
    let store = Store::gated();
    let limiter = of_forty(store.clone());
    store.gates().decide.add_permits(1);
    store.gates().answer.add_permits(1);
    handle(&limiter, "tokens", async |assessment| {
        let settled = async move { of(&assessment, "tokens").settle(3).await };
        assert!(poll(Box::pin(settled).as_mut()).is_pending());
    })
    .await;
    store.gates().open();
    settle().await;
    assert_eq!(remaining(&limiter, "tokens").await, 37);
}

/// Lets a service answer so, or fail, by a rule for a limit of 5.
async fn answered(limiter: &Limiter, rule: Rule, status: Option<u16>) {
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let service = layer.layer(service_fn(move |_: Request<Full<Bytes>>| {
        let response = status.map(|status| {
            let response = Response::builder().status(status);
            response.body(Full::from("three")).unwrap()
        });
        ready(response.ok_or("broken"))
    }));
    if let Ok(response) = service.oneshot(from_ip(IP)).await {
        http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn rules_charge_by_how_requests_end() {
    let is_ok = |end: &RequestEnd<'_>| end.status() == Some(StatusCode::OK);
    let rule = || Rule::new("requests", ClientIp::peer());
    let refunds = || rule().refund_if(move |end| is_ok(end) || end.failed());
    let charges = || rule().charge_if(move |end| !is_ok(end));
    let settles = || {
        let price = move |end: &RequestEnd<'_>| match end.status() {
            Some(StatusCode::OK) if end.sent() == 5 => Some(1),
            Some(_) => None,
            None => Some(5),
        };
        rule().cost(3).settle_by(price)
    };
    for limit in [
        Limit::per_day(10),
        Limit::window(10, 900 * T),
        Limit::quota(10, Per::Day),
    ] {
        let limiter = limiter_of(&ManualClock::default(), limit);
        for (rule, status, left) in [
            (refunds(), Some(200), 10),
            (refunds(), Some(401), 9),
            (refunds(), None, 9),
            (charges(), Some(200), 9),
            (charges(), Some(401), 8),
            (settles(), Some(200), 7),
            (settles(), Some(401), 4),
        ] {
            answered(&limiter, rule, status).await;
            assert_eq!(
                bucket(&limiter, "requests", IP).await.remaining(),
                Some(left)
            );
        }
        answered(&limiter, settles(), None).await;
        assert!(
            !bucket(&limiter, "requests", IP).await.allowed(),
            "it is in debt"
        );
    }
}

#[tokio::test]
async fn denied_request_is_not_charged_by_its_outcome() {
    let limits = Limits::builder()
        .limit("failures", Limit::per_hour(5))
        .limit("requests", Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("failures", Everyone).charge_if(|_| true))
        .rule(Rule::new("requests", Everyone));
    for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(send(&layer, IP).await.status(), status);
        settle().await;
        assert_eq!(remaining(&limiter, "failures").await, 4, "{status}");
    }
}

/// tokio makes a task that has done much yield to others, although its result is ready.
#[tokio::test]
async fn charges_are_corrected_at_once_however_much_a_task_has_done() {
    for limit in [Limit::per_hour(1), Limit::concurrent(1)] {
        let is_rate = limit != Limit::concurrent(1);
        let limiter = limiter_of(&ManualClock::default(), limit);
        let rule = Rule::new("requests", ClientIp::peer());
        let rule = if is_rate {
            rule.refund_if(|_| true)
        } else {
            rule
        };
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
        for request in 0..1000 {
            let status = send(&layer, IP).await.status();
            assert_eq!(status, StatusCode::OK, "{is_rate} {request}");
        }
    }
}

/// Sends a request to a service that never answers, and disconnects.
fn abandon(layer: &RateLimitLayer) {
    let hangs = service_fn(|_: Request<Full<Bytes>>| {
        pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let mut sent = Box::pin(layer.layer(hangs).oneshot(from_ip(IP)));
    assert!(poll(sent.as_mut()).is_pending());
}

#[tokio::test]
async fn rule_distinguishes_answers_failures_and_clients_that_disconnect() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(10));
    let ends = Arc::<Mutex<Vec<_>>>::default();
    let rule = || {
        let ends = Arc::clone(&ends);
        Rule::new("requests", ClientIp::peer()).settle_by(move |end| {
            let end = (end.status(), end.failed(), end.is_abandoned(), end.sent());
            ends.lock().unwrap().push(end);
            None
        })
    };
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule());
    abandon(&layer);
    // The client leaves after the head.
    drop(send(&layer, IP).await);
    answered(&limiter, rule(), Some(200)).await;
    answered(&limiter, rule(), None).await;
    let expected = [
        (None, false, true, 0),
        (Some(StatusCode::OK), false, false, 0),
        (Some(StatusCode::OK), false, false, 5),
        (None, true, false, 0),
    ];
    assert_eq!(*ends.lock().unwrap(), expected);
    assert_eq!(bucket(&limiter, "requests", IP).await.remaining(), Some(6));
}

#[tokio::test]
async fn panic_of_a_closure_keeps_the_charge_and_is_caught() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(10));
    let calls = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&calls);
    let rule = Rule::new("requests", ClientIp::peer()).refund_if(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("a planted panic")
    });
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    abandon(&layer);
    assert_eq!(send(&layer, IP).await.status(), StatusCode::OK);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(bucket(&limiter, "requests", IP).await.remaining(), Some(8));
}
