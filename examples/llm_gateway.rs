//! A gateway for language models: requests and tokens per minute, calls at once and tokens per month of each API key.
//!
//! ```sh
//! cargo run --example llm_gateway
//! curl -i http://127.0.0.1:3000/chat -H 'authorization: Bearer key-of-alice' -d '{"prompt": "who is a good bird"}'
//! ```
//!
//! A stand-in for a model repeats the prompt. The repository's `apps/` has a gateway for real ones.

#[path = "shared/failure.rs"]
mod failure;

use std::{
    convert::Infallible,
    env,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{Next, from_fn},
    response::Response,
    routing::post,
};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tokio::net::TcpListener;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::ExtensionId,
    limit::LimitsError, quota::Per,
};

use self::failure::Failure;

/// The longest body of a call, in bytes.
const MAX_BODY: usize = 1024 * 1024;

/// Reserved for an answer whose call does not say how long it may be.
const MAX_TOKENS: u32 = 500;

/// The question of a request, which is in its extensions.
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

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // A restart empties memory, and with it the month: use a `RedisBackend` with a `FailurePolicy` in production.
    let limiter = Limiter::new(limits()?, MemoryBackend::new());
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(limiter)).await?;
    Ok(())
}

fn limits() -> Result<Limits, LimitsError> {
    let seconds = Duration::from_secs(2);
    Limits::builder()
        .limit("requests", Limit::per_minute(60).max_wait(seconds))
        .limit("tokens", Limit::per_minute(10_000))
        .limit("calls", Limit::concurrent(4))
        .limit("month", Limit::quota(1_000_000, Per::Month))
        .build()
}

fn app(limiter: Limiter) -> Router {
    let of_key = |limit| Rule::new(limit, ExtensionId::new(|call: &Call| call.key));
    // Reserves the estimate. At the end, charges what was used, however the call has ended.
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
    // Inside, so that no call counts while it waits in line.
    let at_once = RateLimitLayer::with_limiter(limiter).rule(of_key("calls"));
    let answer = post(answer).route_layer(at_once).route_layer(layer);
    // Outside, because the limits depend on the key and the body.
    let answer = answer.route_layer(from_fn(authorize));
    Router::new().route("/chat", answer)
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

async fn answer(Extension(call): Extension<Call>) -> Body {
    let Call { prompt, used, .. } = call;
    // A stand-in for a model: it reads its prompt, and repeats it word by word.
    let words: Vec<_> = prompt.split_inclusive(' ').map(str::to_owned).collect();
    used.fetch_add(1, Ordering::Relaxed);
    let answer = stream::iter(words).map(move |token| {
        used.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(token)
    });
    Body::from_stream(answer)
}
