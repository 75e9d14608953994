use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use axum::{
    Extension, Router,
    body::Body,
    extract::Request,
    http::{StatusCode, header::CONTENT_LENGTH, request::Parts},
    middleware::map_request,
    routing::post,
};
use futures_util::{StreamExt, stream};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, layer::Assessment, limit::LimitsError,
    rule::RequestEnd,
};

/// The usage of a request so far, in kilobytes or tokens.
#[derive(Clone, Default)]
struct Used(Arc<AtomicU32>);

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("upload-kilobytes", Limit::per_hour(100_000).burst(10_000))
        .limit("tokens", Limit::per_day(50_000).burst(5_000))
        .build()
}

fn app(limiter: Limiter) -> Router {
    // Reserve the declared size, or a megabyte, and charge what was read.
    let kilobytes = Rule::new("upload-kilobytes", ClientIp::peer())
        .cost_by(declared_kilobytes)
        .settle_by(used);
    // Reserve the longest answer, and charge what was generated.
    let tokens = Rule::new("tokens", ClientIp::peer())
        .cost(1_000)
        .settle_by(used);
    // The handler of uploads asks what it may read.
    let layer = move |rule| {
        let layer = RateLimitLayer::with_limiter(limiter.clone());
        layer.rule(rule).extensions(true)
    };
    Router::new()
        .route("/upload", post(upload).route_layer(layer(kilobytes)))
        .route("/chat", post(chat).route_layer(layer(tokens)))
        // Outside, so that the counter exists before a request is charged.
        .layer(map_request(async |mut request: Request| {
            request.extensions_mut().insert(Used::default());
            request
        }))
}

/// Called once, however the request ends.
fn used(ending: &RequestEnd<'_>) -> Option<u32> {
    let Used(used) = ending.request_extensions().get()?;
    Some(used.load(Ordering::Relaxed))
}

fn declared_kilobytes(parts: &Parts) -> u32 {
    let length = parts.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let kilobytes = length.map_or(1_000, |bytes| bytes.div_ceil(1024));
    u32::try_from(kilobytes).unwrap_or(u32::MAX).max(1)
}

async fn upload(
    Extension(Used(used)): Extension<Used>,
    Extension(assessment): Extension<Assessment>,
    body: Body,
) -> StatusCode {
    let reserved = assessment.of("upload-kilobytes");
    let reserved = reserved.map_or(0, |reserved| reserved.cost);
    let mut bytes = 0_u64;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else {
            return StatusCode::BAD_REQUEST;
        };
        bytes += chunk.len() as u64;
        let kilobytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        used.store(kilobytes.min(reserved), Ordering::Relaxed);
        if kilobytes > reserved {
            return StatusCode::PAYLOAD_TOO_LARGE;
        }
    }
    StatusCode::CREATED
}

async fn chat(Extension(Used(used)): Extension<Used>, prompt: String) -> Body {
    let words: Vec<_> = prompt.split_inclusive(' ').map(str::to_owned).collect();
    // A stand-in for a model: it repeats the prompt, word by word.
    let answer = stream::iter(words).map(move |token| {
        used.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(token)
    });
    Body::from_stream(answer)
}
