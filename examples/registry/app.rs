//! The routes, and their limit.

use std::error::Error;

use axum::{
    Json, Router,
    extract::Path,
    http::{HeaderName, StatusCode},
    routing::get,
};
use serde_json::{Value, json};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule,
    backend::{
        Backend,
        redis::{KeyForm, RedisError},
    },
    id::IdFormat,
    key::Proxies,
    limit::LimitName,
    response::Registry,
};

/// The only repository.
const REPOSITORY: &str = "alpine";

/// The header that identifies a registry.
const VERSION: (HeaderName, &str) = (
    HeaderName::from_static("docker-distribution-api-version"),
    "registry/2.0",
);

pub(crate) fn router() -> Router {
    Router::new()
        .route("/v2/", get(|| async { ([VERSION], Json(json!({}))) }))
        .route("/v2/_catalog", get(catalog))
        .route("/v2/{name}/tags/list", get(tags))
}

/// The registry's form of keys: `registry:api:{rate-limit:ip:1.2.3.4}`.
pub(crate) fn key_form() -> Result<KeyForm, RedisError> {
    KeyForm::new("registry:api:{rate-limit:<limit>:<id>}")
}

/// One limit for each address. It has no number, so the keys contain its name.
pub(crate) fn limiter(backend: impl Backend) -> Result<Limiter, Box<dyn Error>> {
    let ip = LimitName::unnumbered("ip", IdFormat::IpAddress);
    let limits = Limits::builder()
        .limit(ip, Limit::per_minute(60).burst(100))
        .build()?;
    Ok(Limiter::try_new(limits, backend)?)
}

pub(crate) fn layer(limiter: Limiter) -> Result<RateLimitLayer, Box<dyn Error>> {
    // The registry counts IPv6 addresses one by one.
    let client = ClientIp::behind(Proxies::registry()).exact();
    let layer = RateLimitLayer::with_limiter(limiter).try_rule(Rule::new("ip", client))?;
    // Clients expect the registry's JSON.
    Ok(layer.respond_with(Registry))
}

async fn catalog() -> Json<Value> {
    Json(json!({"repositories": [REPOSITORY]}))
}

async fn tags(Path(name): Path<String>) -> (StatusCode, Json<Value>) {
    if name == REPOSITORY {
        return (
            StatusCode::OK,
            Json(json!({"name": name, "tags": ["latest"]})),
        );
    }
    let error = json!({
        "code": "NAME_UNKNOWN",
        "message": "repository name not known to registry",
        "detail": {"name": name},
    });
    (StatusCode::NOT_FOUND, Json(json!({"errors": [error]})))
}
