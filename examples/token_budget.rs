//! A chat with a budget: each account has a thousand tokens per day, and pays for those that were generated.
//!
//! ```sh
//! cargo run --example token_budget
//! curl -i -H 'x-account-id: alice' -H 'x-max-tokens: 50' -d 'who is a good bird' http://127.0.0.1:3000/chat
//! curl -i -H 'x-account-id: alice' http://127.0.0.1:3000/budget
//! ```
//!
//! The model is a parrot: it says each word as soon as it has heard the space after it, so that one can type
//! (`curl -N -T . -X POST ..`), watch the answer, and go away in the middle of it.
//!
//! How many tokens an answer takes is known when it has ended, and by then it has been sent. So a request **reserves** the
//! most that it may take, its `x-max-tokens`: answers on their way at the same time never take more than the budget
//! has. Then it is **settled** by `Rule::settle_by`, once, when the answer's body ends, breaks or is dropped, because the
//! client went away. The closure sees the head of the response; there it finds a counter, into which the answer
//! counts as it goes on.
//!
//! `GET /budget` has a layer of its own, whose rule observes: it has the same bucket, takes nothing from it, and never
//! refuses.

use std::{
    env,
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use axum::{
    Extension, Router,
    body::Body,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{AsyncBufReadExt, AsyncReadExt, Stream, StreamExt, TryStreamExt, stream};
use tokio::net::TcpListener;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::HeaderId, layer::Assessment,
    limit::LimitsError, rule::Ending, transaction::Mode,
};

/// How many tokens a request may take if it does not say.
const MAX_TOKENS: u32 = 100;

/// How much of a prompt is heard, in bytes.
const MAX_PROMPT: u64 = 64 * 1024;

/// How many tokens an answer has taken so far, among the response's extensions.
#[derive(Clone, Default)]
struct Generated(Arc<AtomicU32>);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or("127.0.0.1:3000".into());
    let app = app()?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

fn app() -> Result<Router, LimitsError> {
    let limits = Limits::builder()
        .limit("tokens", Limit::per_day(1000))
        .build()?;
    // For several servers that count together: `RedisBackend::new("redis://127.0.0.1:6379")?`, feature `redis`.
    let limiter = Limiter::new(limits, MemoryBackend::new());

    // Let only a gateway that authenticates set this header, or find the account as the example `plans` does.
    let account = HeaderId::new("x-account-id");
    let spends = Rule::new("tokens", account.clone())
        // Who sends garbage is told so by the handler, and reserves something meanwhile: what costs 0 is not limited.
        .cost_by(|request| max_tokens(&request.headers).unwrap_or(1).max(1))
        .settle_by(generated);
    let looks = Rule::new("tokens", account).cost(0).mode(Mode::Observe);
    let spends = RateLimitLayer::new(limiter.clone()).rule(spends);
    let looks = RateLimitLayer::new(limiter).rule(looks);
    Ok(Router::new()
        .route("/chat", post(chat).route_layer(spends))
        .route("/budget", get(budget).route_layer(looks)))
}

/// What a request has taken in the end. If there is no counter, no answer was begun.
fn generated(ending: &Ending<'_>) -> u32 {
    let generated = ending.response().and_then(|head| head.extensions.get());
    generated.map_or(0, |Generated(tokens)| tokens.load(Ordering::Relaxed))
}

/// The most tokens that a request may take, or `None` if it says what is no number.
fn max_tokens(headers: &HeaderMap) -> Option<u32> {
    let Some(sent) = headers.get("x-max-tokens") else {
        return Some(MAX_TOKENS);
    };
    let sent: u64 = sent.to_str().ok()?.parse().ok()?;
    // More than the budget is refused with 413 by the layer.
    Some(u32::try_from(sent).unwrap_or(u32::MAX))
}

async fn chat(headers: HeaderMap, prompt: Body) -> Response {
    let Some(max) = max_tokens(&headers) else {
        return (StatusCode::BAD_REQUEST, "`x-max-tokens` is no number\n").into_response();
    };
    let generated = Generated::default();
    let Generated(tokens) = generated.clone();
    let answer = parrot(prompt).take(max as usize).inspect_ok(move |_| {
        tokens.fetch_add(1, Ordering::Relaxed);
    });
    (Extension(generated), Body::from_stream(answer)).into_response()
}

/// The model: says word by word what it hears, a word being a token.
fn parrot(prompt: Body) -> impl Stream<Item = io::Result<Vec<u8>>> {
    let prompt = prompt.into_data_stream().map_err(io::Error::other);
    let ear = prompt.into_async_read().take(MAX_PROMPT);
    stream::try_unfold(ear, async |mut ear| {
        let mut word = Vec::new();
        let heard = ear.read_until(b' ', &mut word).await?;
        Ok((heard > 0).then_some((word, ear)))
    })
}

async fn budget(Extension(assessment): Extension<Assessment>) -> String {
    let tokens = assessment.of("tokens");
    let left = tokens.and_then(|tokens| tokens.decision.remaining());
    match left {
        Some(left) => format!("{left}\n"),
        None => "unlimited\n".into(),
    }
}
