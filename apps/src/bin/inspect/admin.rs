//! The routes for admins.

use axum::{
    Json, Router,
    extract::{Path, Request, State, rejection::PathRejection},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get},
};
use serde_json::{Value, json};
use tollgate::{Limiter, Transaction, limit::NamedLimit};

use super::{
    block::{self, shown},
    bucket::{BucketState, ResetEffect},
    client::Client,
    refusal::Refusal,
    stream,
    token::Token,
};

/// A limit and an id. The id is the rest of the path, so it can contain slashes.
pub(crate) type BucketPath = Result<Path<(String, String)>, PathRejection>;

/// The routes for administrators with the token.
pub(crate) fn router(limiter: Limiter, token: Token) -> Router {
    let blocks = get(block::show).put(block::block).delete(block::unblock);
    Router::new()
        .route("/limits", get(limits))
        .route("/buckets/{limit}/{*id}", get(show).delete(reset))
        .route("/blocks", get(block::lists))
        .route("/blocks/{limit}/{*id}", blocks)
        .route("/clients/{*id}", delete(reset_client))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        // Around all routes, so that clients without the token do not learn which routes exist.
        .layer(middleware::from_fn_with_state(token, authorize))
        .with_state(limiter)
}

/// Lets requests with the token pass, and answers 401 to all others.
pub(crate) async fn authorize(
    State(token): State<Token>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if token.is_in(request.headers()) {
        Ok(next.run(request).await)
    } else {
        Err(Refusal::unauthorized())
    }
}

async fn limits(State(limiter): State<Limiter>) -> Response {
    stream::respond(limiter.limits())
}

async fn show(
    State(limiter): State<Limiter>,
    path: BucketPath,
) -> Result<Json<BucketState>, Refusal> {
    let client = client(&limiter, path)?;
    Ok(Json(BucketState::ask(&limiter, client).await?))
}

async fn reset(State(limiter): State<Limiter>, path: BucketPath) -> Result<Json<Value>, Refusal> {
    let client = client(&limiter, path)?;
    let effect = ResetEffect::ask(&limiter, &client).await?;
    // A full bucket is reset, too, because a request may use it at the same time.
    let transaction = Transaction::new(&client.limit, &client.id);
    limiter.reset(&[transaction]).await?;
    Ok(Json(match effect {
        ResetEffect::Fills => {
            tracing::info!(
                limit = client.limit,
                id = shown(&client.id),
                "a bucket was reset"
            );
            json!({"reset": true, "key": client.key})
        }
        ResetEffect::Nothing(reason) => {
            json!({"reset": false, "key": client.key, "reason": reason})
        }
    }))
}

/// Resets the buckets of a client, whatever the limit.
async fn reset_client(
    State(limiter): State<Limiter>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Refusal> {
    let Path(id) = id.map_err(|error| invalid_path(&error))?;
    let limits = limiter.limits();
    let mut reset = Vec::new();
    for named in limits.iter().filter(|named| !named.is_block()) {
        let Ok(client) = Client::look_up(named, &id) else {
            continue;
        };
        let effect = ResetEffect::ask(&limiter, &client).await?;
        limiter
            .reset(&[Transaction::new(named.name(), &id)])
            .await?;
        if let ResetEffect::Fills = effect {
            reset.push(client.limit);
        }
    }
    tracing::info!(limits = ?reset, "the buckets of a client were reset");
    Ok(Json(json!({"reset": reset})))
}

/// Finds the client in a path.
pub(crate) fn client(limiter: &Limiter, path: BucketPath) -> Result<Client, Refusal> {
    let Path((limit, id)) = path.map_err(|error| invalid_path(&error))?;
    let limits = limiter.limits();
    let Some(named) = limits.get(&limit) else {
        let mut known: Vec<_> = limits.iter().map(NamedLimit::name).collect();
        known.sort_unstable();
        let known = known.join(", ");
        return Err(Refusal::unknown_limit(format!(
            "unknown limit `{limit}`: known are {known}"
        )));
    };
    Client::look_up(named, &id)
        .map_err(|error| Refusal::bad_request("invalid_id", format!("limit `{limit}`: {error}")))
}

fn invalid_path(error: &PathRejection) -> Refusal {
    let message = format!("{error}: write the id in UTF-8, percent-encoded");
    Refusal::bad_request("invalid_path", message)
}

async fn method_not_allowed() -> impl IntoResponse {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "GET /limits, GET or DELETE /buckets/{limit}/{id}, DELETE /clients/{id}, GET /blocks, and \
          GET, PUT or DELETE /blocks/{limit}/{id}",
    )
}

async fn not_found() -> impl IntoResponse {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "there are /limits, /buckets/{limit}/{id}, /clients/{id}, /blocks and /blocks/{limit}/{id}",
    )
}
