//! The routes and their handlers.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tollgate::{Limiter, RedisBackend};

use crate::{
    answer::{BatchAnswer, RenewalsAnswer},
    args::ClockSource,
    limits,
    refusal::Refusal,
    request::{Op, Request},
};

const MAX_BODY: usize = 1 << 20;

/// The most bytes of a too large body that are still read, so that the sender receives the answer. Closing a connection
/// with unread data would reset it, and the answer would be lost.
const MAX_DISCARDED: usize = 64 << 20;

/// The longest that a health check waits for the connection to Redis.
const MAX_HEALTH_CHECK: Duration = Duration::from_millis(250);

/// All routes of the service.
pub(crate) fn router(
    limiter: Limiter,
    clock: ClockSource,
    redis: Option<Arc<RedisBackend>>,
) -> Router {
    Router::new()
        .route("/v1/decide", post(decide))
        .route("/v1/limits", get(shown_limits))
        .route("/healthz", get(health))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .with_state(Service {
            limiter,
            clock,
            redis,
        })
}

#[derive(Clone)]
struct Service {
    limiter: Limiter,
    clock: ClockSource,
    redis: Option<Arc<RedisBackend>>,
}

async fn decide(State(service): State<Service>, body: Body) -> Result<Response, Refusal> {
    let request = Request::parse(&read(body).await?, service.clock)?;
    let limiter = match request.now {
        Some(now) => service.limiter.with_clock(now),
        None => service.limiter,
    };
    let receipts = request.receipts(&limiter)?;
    let transactions = request.transactions(&receipts);
    let batch = match request.op {
        Op::Reset => {
            limiter.reset(&transactions).await?;
            return Ok(Json(json!({"reset": true})).into_response());
        }
        Op::Renew => limiter.renew(&transactions).await?,
        Op::Refund => limiter.refund_batch(&transactions).await?,
        Op::Spend => limiter.spend_batch(&transactions).await?,
        Op::Check => limiter.check_batch(&transactions).await?,
    };
    let (limits, asked) = (limiter.limits(), &request.transactions);
    Ok(match request.op {
        Op::Renew => Json(RenewalsAnswer::new(&limits, asked, &batch)).into_response(),
        op => Json(BatchAnswer::new(&limits, op, asked, &batch)).into_response(),
    })
}

/// The limits in force, both in the form of their files.
async fn shown_limits(State(service): State<Service>) -> Json<Value> {
    Json(limits::shown(&service.limiter.limits()))
}

async fn health(State(service): State<Service>) -> Result<Json<Value>, Refusal> {
    if let Some(redis) = service.redis {
        redis.connected(MAX_HEALTH_CHECK).await.map_err(|error| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "backend_unavailable",
                error.to_string(),
            )
        })?;
    }
    Ok(Json(json!({"status": "ok"})))
}

async fn method_not_allowed() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "POST to /v1/decide, GET /v1/limits and /healthz",
    )
}

async fn not_found() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is /v1/decide, /v1/limits and /healthz",
    )
}

/// Reads a body of at most [`MAX_BODY`] bytes.
async fn read(mut body: Body) -> Result<Vec<u8>, Refusal> {
    let (mut kept, mut seen) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Refusal::bad_request("invalid_json", format!("the body broke off: {error}"))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        seen += data.len();
        if seen <= MAX_BODY {
            kept.extend_from_slice(&data);
        } else if seen > MAX_DISCARDED {
            break;
        }
    }
    if seen <= MAX_BODY {
        return Ok(kept);
    }
    Err(Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        "the body is over 1 MiB: send fewer transactions at once",
    ))
}
