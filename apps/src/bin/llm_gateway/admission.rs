//! Finds the key and the call of a request before it is limited.

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
use tollgate::Limiter;

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

/// The longest that a body waits to be read.
const TURN: Duration = Duration::from_secs(10);

/// The keys, and the limits of their plans.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) keys: Arc<LiveKeys>,
    pub(crate) limiter: Limiter,
}

impl Gateway {
    /// Replaces the body by the one for the server, and puts the call into the extensions.
    async fn read(&self, request: Request) -> Result<Request, Refusal> {
        let keys = self.keys.in_force();
        let (mut head, body) = request.into_parts();
        let key = keys.of(&head.headers).ok_or_else(Refusal::unknown_key)?;
        let asked = asked(key, &head.headers, body).await?;
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
            meter: Meter::new(asked.prompt, model.cached_percent),
            asks_usage: asked.asks_usage,
        };
        head.extensions.insert(Arc::new(call));
        Ok(Request::from_parts(head, Body::from(asked.body)))
    }
}

async fn asked(key: &ApiKey, headers: &HeaderMap, body: Body) -> Result<Asked, Refusal> {
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY as u64) {
        return Err(Refusal::too_long(MAX_BODY));
    }
    // The limits of the plan depend on the model, which is in the body.
    let turn = time::timeout(TURN, key.bodies.acquire()).await;
    let _permit = turn.map_err(|_| Refusal::too_many_bodies())?;
    Asked::parse(&collect(body).await?)
}

async fn collect(body: Body) -> Result<Bytes, Refusal> {
    let read = time::timeout(READ, body::to_bytes(body, MAX_BODY)).await;
    let read = read.map_err(|_| Refusal::too_slow())?;
    read.map_err(|_| Refusal::too_long(MAX_BODY))
}

/// Admits a request to the layer that limits it, and adds the decisions to the response.
pub(crate) async fn admit(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
    next: Next,
) -> Response {
    match gateway.read(request).await {
        Ok(request) => {
            let mut response = next.run(request).await;
            headers::show(&mut response, &gateway.limiter.limits());
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Lists the models, for clients with a key.
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
