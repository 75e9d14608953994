//! The limits and where they apply.

use axum::{Json, Router, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tollgate::{
    ClientIp, Limiter, Limits, RateLimitLayer, Rule,
    id::IdFormat,
    key::{HeaderId, Ipv6Range},
    limit::{LimitName, LimitsBuilder},
    response::Problem,
};

use super::order;

/// Names, numbers and id formats, which must not change while there are buckets.
pub(crate) fn limits() -> LimitsBuilder {
    Limits::builder()
        .name(LimitName::new(
            "NewRegistrationsPerIPAddress",
            1,
            IdFormat::IpAddress,
        ))
        .name(LimitName::new(
            "NewRegistrationsPerIPv6Range",
            2,
            IdFormat::Ipv6Range,
        ))
        .name(LimitName::new(
            "CertificatesPerDomain",
            5,
            IdFormat::DomainOrCidr,
        ))
        .name(LimitName::new("NewOrdersPerAccount", 6, IdFormat::RegId))
        .name(LimitName::new(
            "CertificatesPerFQDNSet",
            7,
            IdFormat::FqdnSet,
        ))
}

/// The source of clients' addresses.
pub(crate) struct Clients {
    pub(crate) address: ClientIp,
    pub(crate) range: Ipv6Range,
}

pub(crate) fn router(limiter: &Limiter, clients: Clients) -> Router {
    // A client is charged for its address and its range together, or for neither.
    let accounts = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("NewRegistrationsPerIPAddress", clients.address))
        .rule(Rule::new("NewRegistrationsPerIPv6Range", clients.range))
        .respond_with(Problem::acme());
    // In production, the account is the signer of the request, not the value of a header.
    let account = HeaderId::new("x-account-id").shown();
    let orders = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("NewOrdersPerAccount", account))
        .extensions(true)
        .respond_with(Problem::acme());
    Router::new()
        .route("/new-account", post(new_account).layer(accounts))
        .route("/new-order", post(order::new_order).layer(orders))
        .with_state(limiter.clone())
}

async fn new_account() -> (StatusCode, Json<Value>) {
    (StatusCode::CREATED, Json(json!({"status": "valid"})))
}
