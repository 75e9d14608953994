//! `POST /new-order`: the limits that depend on the body.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::{
    Decision, Limiter, Transaction,
    id::{IdError, IdFormat},
    layer::Assessment,
    limiter::LimiterError,
};

const MAX_IDENTIFIERS: usize = 100;

#[derive(Deserialize)]
pub(crate) struct Order {
    identifiers: Vec<String>,
}

/// Accepts an order. The layer has charged the account for it. A rejected order does not count.
pub(crate) async fn new_order(
    State(limiter): State<Limiter>,
    assessment: Assessment,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let charged = charge(&limiter, &assessment, &order.identifiers).await;
    if let Err(refusal) = charged {
        assessment.refund().await?;
        return Err(refusal);
    }
    let order = json!({"status": "pending", "identifiers": order.identifiers});
    Ok((StatusCode::CREATED, Json(order)))
}

/// Charges each registered domain and each network of an address once, and the set of names: all of them, or none.
async fn charge(
    limiter: &Limiter,
    assessment: &Assessment,
    identifiers: &[String],
) -> Result<(), Refusal> {
    if assessment.iter().next().is_none() {
        return Err(Refusal::malformed("an account is needed"));
    }
    if identifiers.is_empty() || identifiers.len() > MAX_IDENTIFIERS {
        let detail = format!("name 1 to {MAX_IDENTIFIERS} identifiers");
        return Err(Refusal::malformed(detail));
    }
    // Two names of one domain, or two addresses of one network, share a bucket, which a batch may contain only once.
    let domains = identifiers
        .iter()
        .map(|name| IdFormat::DomainOrCidr.fold(name))
        .collect::<Result<Vec<_>, _>>()?;
    let domains: BTreeSet<_> = domains.iter().map(|domain| domain.as_str()).collect();
    let names = identifiers.join(",");
    let charges: Vec<_> = domains
        .iter()
        .map(|domain| ("CertificatesPerDomain", *domain))
        .chain([("CertificatesPerFQDNSet", &*names)])
        .collect();
    let transactions = charges
        .iter()
        .map(|(limit, id)| Transaction::new(limit, id));
    let transactions: Vec<_> = transactions.collect();
    let spent = limiter.spend_batch(&transactions).await?;
    match spent.strictest() {
        Some(strictest) if !spent.allowed() => {
            Err(Refusal::too_many(charges[strictest], spent.decision()))
        }
        _ => Ok(()),
    }
}

/// A problem document in the form of ACME (RFC 8555, section 6.7).
pub(crate) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    retry_after: Option<u64>,
}

impl Refusal {
    fn malformed(detail: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "malformed",
            detail: detail.into(),
            retry_after: None,
        }
    }

    fn too_many((limit, id): (&str, &str), decision: &Decision) -> Self {
        let wait = decision.retry_after_secs();
        let retry = wait.map_or_else(String::new, |seconds| format!(", retry in {seconds} s"));
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: "rateLimited",
            detail: format!("{limit}: too many for {id}{retry}"),
            retry_after: wait,
        }
    }
}

impl From<IdError> for Refusal {
    fn from(error: IdError) -> Self {
        Self::malformed(error.to_string())
    }
}

impl From<LimiterError> for Refusal {
    fn from(error: LimiterError) -> Self {
        match error {
            LimiterError::InvalidId { source, .. } => source.into(),
            error => Self {
                status: StatusCode::SERVICE_UNAVAILABLE,
                kind: "serverInternal",
                detail: error.to_string(),
                retry_after: Some(1),
            },
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = json!({
            "type": format!("urn:ietf:params:acme:error:{}", self.kind),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = (self.status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            "content-type",
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
