//! Clients that are blocked for a time, with a reason for them.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate::{
    Limiter, Transaction,
    id::Id,
    limit::{NamedLimit, parse_duration},
};

use super::{
    admin::{BucketPath, client},
    bucket::micros,
    refusal::Refusal,
};

/// A list of blocked clients.
#[derive(Serialize)]
pub(crate) struct BlockList {
    limit: String,
    /// The format of the ids.
    id: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Time {
    /// A duration, such as `90m` or `24h`.
    #[serde(rename = "for")]
    time: String,
}

/// The lists of this limiter.
pub(crate) async fn lists(State(limiter): State<Limiter>) -> Json<Vec<BlockList>> {
    let limits = limiter.limits();
    let lists = limits.iter().filter(|named| named.is_block());
    let lists = lists.map(|named| BlockList {
        limit: named.name().to_owned(),
        id: named.format().to_string(),
        reason: reason(named),
    });
    Json(lists.collect())
}

pub(crate) async fn show(
    State(limiter): State<Limiter>,
    path: BucketPath,
) -> Result<Json<Value>, Refusal> {
    state(&limiter, path).await.map(Json)
}

pub(crate) async fn block(
    State(limiter): State<Limiter>,
    path: BucketPath,
    time: Result<Query<Time>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let invalid = |message: String| Refusal::bad_request("invalid_query", message);
    let Query(Time { time }) =
        time.map_err(|error| invalid(format!("{}: write `?for=24h`", error.body_text())))?;
    let time = parse_duration(&time).map_err(|error| invalid(format!("for: {error}")))?;
    let found = client(&limiter, path)?;
    limiter.block(&found.limit, &found.id, time).await?;
    tracing::info!(
        limit = found.limit,
        id = shown(&found.id),
        ?time,
        "a client was blocked"
    );
    state(&limiter, Ok(Path((found.limit, found.id))))
        .await
        .map(Json)
}

pub(crate) async fn unblock(
    State(limiter): State<Limiter>,
    path: BucketPath,
) -> Result<Json<Value>, Refusal> {
    let found = client(&limiter, path)?;
    limiter.unblock(&found.limit, &found.id).await?;
    tracing::info!(
        limit = found.limit,
        id = shown(&found.id),
        "a block was lifted"
    );
    state(&limiter, Ok(Path((found.limit, found.id))))
        .await
        .map(Json)
}

/// Returns whether a client is blocked, why, and for how long. A block by an override has no end.
async fn state(limiter: &Limiter, path: BucketPath) -> Result<Value, Refusal> {
    let found = client(limiter, path)?;
    let nothing = Transaction::new(&found.limit, &found.id).cost(0);
    let bucket = limiter.peek(&nothing).await?;
    let is_blocked = bucket.next_after() != Some(Duration::ZERO) && bucket.limited();
    let limits = limiter.limits();
    let list = limits.get(&found.limit).filter(|_| is_blocked);
    Ok(json!({
        "limit": found.limit,
        "id": found.id,
        "blocked": is_blocked,
        "reason": list.and_then(reason),
        "ends_after_us": list.and_then(|_| micros(bucket.next_after())),
        "override": found.own.is_some(),
    }))
}

fn reason(named: &NamedLimit) -> Option<String> {
    named.description().map(str::to_owned)
}

/// Returns an id as the log shows it: as a hash, because an id can be a secret.
pub(crate) fn shown(id: &str) -> String {
    Id::from(id).secret().shown().into_owned()
}
