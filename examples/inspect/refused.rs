//! The last refusals, with what the buckets looked like then and now.

use std::{sync::Arc, time::UNIX_EPOCH};

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use tollgate::{
    Limiter,
    response::{KeptRefusal, RefusalId, RefusalLog, RefusedCharge},
};

use super::{
    bucket::{self, BucketState},
    client::Client,
    refusal::Refusal,
};

/// The number of refusals in an answer, unless the request says another one.
const LAST: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// The id of a client, in the form of any limit.
    client: Option<String>,
    /// The name of a limit.
    limit: Option<String>,
    /// The number of refusals.
    last: Option<usize>,
}

/// A refusal, as it was kept.
#[derive(Serialize)]
pub(crate) struct Refused {
    reference: String,
    /// Microseconds since 1970.
    at_us: u64,
    reason: &'static str,
    detail: Option<String>,
    path: Option<String>,
    retry_after_us: Option<u64>,
    charges: Vec<Charge>,
}

/// A limit that has denied the request.
#[derive(Serialize)]
struct Charge {
    limit: String,
    id: Option<String>,
    cost: u32,
    /// The values in one line.
    summary: Option<String>,
    #[serde(rename = "override")]
    is_override: bool,
    then: Then,
    /// The bucket as it is now. Only in the answer for one refusal, and only if the id is not a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<BucketState>,
}

/// The bucket when the request was refused. The figures are absent if the store did not answer.
#[derive(Serialize)]
struct Then {
    remaining: Option<u32>,
    /// The time until the request would have passed.
    next_after_us: Option<u64>,
    reset_after_us: Option<u64>,
    source: &'static str,
}

/// Lists refusals, latest first.
pub(crate) async fn list(
    State(limiter): State<Limiter>,
    State(log): State<RefusalLog>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<Vec<Refused>>, Refusal> {
    let Query(filter) =
        filter.map_err(|error| Refusal::bad_request("invalid_query", error.body_text()))?;
    let mut refused = match &filter.client {
        Some(id) => log.of_client(&limiter.limits(), id),
        None => log.latest(),
    };
    if let Some(limit) = &filter.limit {
        refused.retain(|kept| kept.charges.iter().any(|charge| *charge.limit == **limit));
    }
    refused.truncate(filter.last.unwrap_or(LAST));
    Ok(Json(refused.iter().map(Refused::new).collect()))
}

/// Shows one refusal, with the buckets as they are now.
pub(crate) async fn show(
    State(limiter): State<Limiter>,
    State(log): State<RefusalLog>,
    Path(reference): Path<String>,
) -> Result<Json<Refused>, Refusal> {
    let Some(kept) = RefusalId::parse(&reference).and_then(|id| log.get(id)) else {
        let message = "no refusal with this reference is kept: it is too old, of another process, or mistyped";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
    };
    let mut refused = Refused::new(&kept);
    for (charge, shown) in kept.charges.iter().zip(&mut refused.charges) {
        shown.now = now(&limiter, charge).await?;
    }
    Ok(Json(refused))
}

/// Returns the bucket as it is now, if it can be found by what was kept.
async fn now(limiter: &Limiter, charge: &RefusedCharge) -> Result<Option<BucketState>, Refusal> {
    let limits = limiter.limits();
    let id = charge.client.as_deref().filter(|_| !charge.is_hashed);
    let client = id.zip(limits.get(&charge.limit));
    let client = client.and_then(|(id, named)| Client::look_up(&limits, named, id).ok());
    Ok(match client {
        Some(client) => Some(BucketState::ask(limiter, client).await?),
        None => None,
    })
}

impl Refused {
    /// Returns the last refusals, without the ids of clients.
    #[allow(dead_code, reason = "only the page of the dashboard hides ids")]
    pub(crate) fn latest_without_ids(log: &RefusalLog, number: usize) -> Vec<Self> {
        let latest = log.latest();
        let mut refused: Vec<_> = latest.iter().take(number).map(Self::new).collect();
        for charge in refused.iter_mut().flat_map(|one| &mut one.charges) {
            charge.id = None;
        }
        refused
    }

    fn new(kept: &Arc<KeptRefusal>) -> Self {
        let at = kept.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            reference: kept.id.to_string(),
            at_us: bucket::micros(at).unwrap_or_default(),
            reason: kept.reason,
            detail: kept.detail.as_deref().map(str::to_owned),
            path: kept.path.as_deref().map(str::to_owned),
            retry_after_us: kept.retry_after.and_then(bucket::micros),
            charges: kept.charges.iter().map(Charge::new).collect(),
        }
    }
}

impl Charge {
    fn new(kept: &RefusedCharge) -> Self {
        Self {
            limit: kept.limit.to_string(),
            id: kept.client.as_deref().map(str::to_owned),
            cost: kept.cost,
            summary: kept.values.as_deref().map(str::to_owned),
            is_override: kept.is_override,
            then: Then {
                remaining: kept.remaining,
                next_after_us: kept.retry_after.and_then(bucket::micros),
                reset_after_us: kept.reset_after.and_then(bucket::micros),
                source: bucket::source(kept.source),
            },
            now: None,
        }
    }
}
