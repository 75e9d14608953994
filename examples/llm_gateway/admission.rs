//! What happens to a request before it is limited: whose it is, and what it asks for.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::{self, Body},
    extract::{Request, State},
    http::{HeaderMap, header::CONTENT_LENGTH},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time;
use tollgate::{
    Limiter, Limits, MemoryBackend,
    concurrency::Concurrency,
    limit::{LimitError, LimitsError},
    limiter::{LimitHandle, LimiterError},
};

use super::{
    call::{Asked, Call},
    headers,
    keys::{ApiKey, LiveKeys},
    meter::Meter,
    refusal::Refusal,
};

/// The longest body of a request, in bytes.
const MAX_BODY: usize = 1024 * 1024;

/// The longest that a body may take to arrive.
const READ: Duration = Duration::from_secs(30);

/// The bodies of a key that are read at the same time. Others wait, unread.
const BODIES: u32 = 16;

/// The longest that a body waits to be read.
const TURN: Duration = Duration::from_secs(10);

/// The keys, and the bodies that are being read.
#[derive(Debug)]
pub(crate) struct Gateway {
    keys: Arc<LiveKeys>,
    bodies: LimitHandle,
}

impl Gateway {
    /// # Errors
    ///
    /// If the limit on bodies is invalid, which the constants above rule out.
    pub(crate) fn new(keys: Arc<LiveKeys>) -> Result<Self, GatewayError> {
        // The limits of the plan depend on the model, which is in the body. So reading has a limit of its own, which belongs to
        // this process.
        let limit = Concurrency::new(BODIES)?.with_max_wait(TURN)?;
        let limits = Limits::builder().limit("bodies", limit.into()).build()?;
        let bodies = Limiter::new(limits, MemoryBackend::new()).limit("bodies")?;
        Ok(Self { keys, bodies })
    }

    /// Replaces the body by the one for the server, and puts the call into the extensions.
    async fn read(&self, request: Request) -> Result<Request, Refusal> {
        let keys = self.keys.in_force();
        let (mut head, body) = request.into_parts();
        let key = keys.of(&head.headers).ok_or_else(Refusal::unknown_key)?;
        let asked = self.asked(key, &head.headers, body).await?;
        let model = keys.model(&asked.model);
        let model = model.ok_or_else(Refusal::unknown_model)?;
        let default = match head.uri.path() {
            "/v1/embeddings" => 0,
            _ => model.max_tokens,
        };
        let call = Call {
            key: Arc::clone(key),
            limits: self.keys.plans().choose(&key.plan, model.class.as_deref()),
            reserved: asked.reservation(default),
            meter: Meter::new(asked.prompt),
            asks_usage: asked.asks_usage,
        };
        head.extensions.insert(Arc::new(call));
        Ok(Request::from_parts(head, Body::from(asked.body)))
    }

    async fn asked(&self, key: &ApiKey, headers: &HeaderMap, body: Body) -> Result<Asked, Refusal> {
        let length = headers.get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > MAX_BODY as u64) {
            return Err(Refusal::too_long(MAX_BODY));
        }
        let entered = self.bodies.enter(&key.id).await;
        let entered = entered.map_err(|_| Refusal::internal())?;
        let _permit = entered.map_err(|_| Refusal::too_many_bodies())?;
        Asked::parse(&collect(body).await?)
    }
}

/// The error for a gateway that cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Limits(#[from] LimitsError),
    #[error(transparent)]
    Limiter(#[from] LimiterError),
}

async fn collect(body: Body) -> Result<Bytes, Refusal> {
    let read = time::timeout(READ, body::to_bytes(body, MAX_BODY)).await;
    let read = read.map_err(|_| Refusal::too_slow())?;
    read.map_err(|_| Refusal::too_long(MAX_BODY))
}

/// Admits a request to the layer that limits it, and shows on the response what that has decided.
pub(crate) async fn admit(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
    next: Next,
) -> Response {
    match gateway.read(request).await {
        Ok(request) => {
            let mut response = next.run(request).await;
            headers::show(&mut response);
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Lists the models, to those who have a key.
pub(crate) async fn models(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    let keys = gateway.keys.in_force();
    keys.of(&headers).ok_or_else(Refusal::unknown_key)?;
    let models = keys.models();
    let models: Vec<_> = models
        .map(|model| json!({"id": model.name, "object": "model"}))
        .collect();
    Ok(Json(json!({"object": "list", "data": models})))
}
