use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header::AUTHORIZATION, request::Parts},
    middleware::{Next, from_fn},
    response::Response,
    routing::post,
};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule,
    key::ExtensionId,
    layer::Assessment,
    limit::LimitsError,
    limiter::{LimitHandle, LimiterError},
    quota::Per,
};

/// The longest body of a call, in bytes.
const MAX_BODY: usize = 1024 * 1024;

/// Reserved for an answer whose call does not say how long it may be.
const MAX_TOKENS: u32 = 500;

/// The call of a request, in the request's extensions.
#[derive(Clone)]
struct Call {
    key: &'static str,
    prompt: String,
    reserved: u32,
    used: Arc<AtomicU32>,
}

#[derive(Deserialize)]
struct Question {
    prompt: String,
    max_tokens: Option<u32>,
}

fn limits() -> Result<Limits, LimitsError> {
    let seconds = Duration::from_secs(2);
    Limits::builder()
        .limit("requests", Limit::per_minute(60).max_wait(seconds))
        .limit("tokens", Limit::per_minute(10_000))
        .limit("calls", Limit::concurrent(4))
        .limit("month", Limit::quota(1_000_000, Per::Month))
        .limit("searches", Limit::per_minute(10))
        .build()
}

fn app(limiter: Limiter) -> Result<Router, LimiterError> {
    let searches = limiter.limit("searches")?;
    let of_key = |limit| Rule::new(limit, ExtensionId::new(|call: &Call| call.key));
    // Reserves the estimate. At the end, charges the tokens that were used, however the call has ended.
    let tokens = |limit| {
        of_key(limit)
            .cost_by(|request| {
                request
                    .extensions
                    .get()
                    .map_or(1, |call: &Call| call.reserved)
            })
            .settle_by(|ending| {
                let call: &Call = ending.request_extensions().get()?;
                Some(call.used.load(Ordering::Relaxed))
            })
    };
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(of_key("requests"))
        .rule(tokens("tokens"))
        .rule(tokens("month"));
    // Inside, so that no call counts while it waits in line. With an `Assessment`, for the handler's own refusals.
    let at_once = RateLimitLayer::with_limiter(limiter)
        .rule(of_key("calls"))
        .extensions(true);
    let answer = post(answer).route_layer(at_once).route_layer(layer);
    // Outside, because the limits depend on the key and the body.
    let answer = answer.route_layer(from_fn(authorize));
    Ok(Router::new().route("/chat", answer).with_state(searches))
}

async fn authorize(request: Request, next: Next) -> Result<Response, StatusCode> {
    let (mut head, body) = request.into_parts();
    let key = match head.headers.get(AUTHORIZATION) {
        Some(key) if key == "Bearer key-of-alice" => "alice",
        Some(key) if key == "Bearer key-of-bob" => "bob",
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    let body = to_bytes(body, MAX_BODY).await;
    let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    let question: Question = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    // About four bytes are a token. A cost of 0 would not be limited.
    let prompt = u32::try_from(question.prompt.len().div_ceil(4)).unwrap_or(u32::MAX);
    let most = question.max_tokens.unwrap_or(MAX_TOKENS);
    head.extensions.insert(Call {
        key,
        reserved: prompt.saturating_add(most).max(1),
        prompt: question.prompt,
        used: Arc::default(),
    });
    Ok(next.run(Request::from_parts(head, Body::empty())).await)
}

async fn answer(
    State(searches): State<LimitHandle>,
    assessment: Assessment,
    request: Parts,
    Extension(call): Extension<Call>,
) -> Result<Body, Response> {
    let Call {
        key, prompt, used, ..
    } = call;
    // A stand-in for a model, which decides that it searches: no rule of a layer could know that.
    if prompt.contains("search") {
        let admitted = searches.admit(key).await;
        admitted.map_err(|denied| assessment.refuse(&request, &denied))?;
    }
    // It reads its prompt, and repeats it word by word.
    let words: Vec<_> = prompt.split_inclusive(' ').map(str::to_owned).collect();
    used.fetch_add(1, Ordering::Relaxed);
    let answer = stream::iter(words).map(move |token| {
        used.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(token)
    });
    Ok(Body::from_stream(answer))
}

// The page ends here.

use http_body_util::BodyExt;
use tollgate::{MemoryBackend, clock::ManualClock};
use tower::ServiceExt;

/// Sends a prompt, and returns the head of the response, and its body.
async fn ask(app: &Router, prompt: &str) -> (http::response::Parts, String) {
    let question = serde_json::json!({"prompt": prompt, "max_tokens": 100}).to_string();
    let request = Request::post("/chat").header(AUTHORIZATION, "Bearer key-of-alice");
    let request = request.body(Body::from(question)).unwrap();
    let (head, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head, String::from_utf8(body.into()).unwrap())
}

#[tokio::test]
async fn refused_search_is_the_response_of_a_layer_and_costs_no_tokens() {
    let limiter = Limiter::new(limits().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let tokens = limiter.limit("tokens").unwrap();
    let app = app(limiter).unwrap();
    let used = async || 10_000 - tokens.peek("alice").await.unwrap().remaining().unwrap();

    let (head, body) = ask(&app, "no tool").await;
    assert_eq!((head.status, &*body), (StatusCode::OK, "no tool"));
    assert_eq!(used().await, 3, "the prompt, and two words");
    for _ in 0..10 {
        let (head, _) = ask(&app, "search").await;
        assert_eq!(head.status, StatusCode::OK);
    }
    let before = used().await;
    let (head, body) = ask(&app, "search").await;
    assert_eq!(head.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(body.contains("limit `searches` exceeded"), "{body}");
    let fields = head.headers.get_all("ratelimit-policy").iter();
    let fields: Vec<_> = fields.map(|field| field.to_str().unwrap()).collect();
    for limit in ["requests", "tokens", "searches"] {
        let name = format!("\"{limit}\"");
        assert!(
            fields.iter().any(|field| field.contains(&name)),
            "{fields:?}"
        );
    }
    assert_eq!(used().await, before);
}
