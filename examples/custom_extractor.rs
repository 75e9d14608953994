//! Two custom extractors: a closure that takes the tenant from the path, and a type that refuses requests without an
//! API key.
//!
//! ```sh
//! cargo run --example custom_extractor
//! curl -i -H 'x-api-key: k1' http://127.0.0.1:3000/acme/orders
//! curl -i http://127.0.0.1:3000/acme/orders
//! ```

#[path = "shared/failure.rs"]
mod failure;

use axum::{Router, routing::get};
use http::request::Parts;
use tokio::net::TcpListener;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    id::Id,
    key::{Extracted, IdProperties, KeyExtractor, MissingId},
};

use self::failure::Failure;

/// The key in `x-api-key`, or in the query as `?key=`.
#[derive(Debug)]
struct ApiKey;

impl KeyExtractor for ApiKey {
    fn extract(&self, parts: &Parts) -> Extracted {
        let header = parts
            .headers
            .get("x-api-key")
            .and_then(|value| value.to_str().ok());
        let mut query = parts.uri.query().unwrap_or_default().split('&');
        match header.or_else(|| query.find_map(|pair| pair.strip_prefix("key="))) {
            // A secret: refusals and events contain a hash of it.
            Some(key) if !key.is_empty() => Extracted::Id(Id::from(key).secret()),
            _ => Extracted::Missing(MissingId::client("send your API key as `x-api-key`")),
        }
    }

    fn describe(&self) -> IdProperties {
        IdProperties::default().secret()
    }
}

/// The first segment of the path. Requests without one have no tenant, and the rule is skipped.
fn tenant(parts: &Parts) -> Option<Id> {
    parts
        .uri
        .path()
        .split('/')
        .find(|segment| !segment.is_empty())
        .map(Id::from)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let limits = Limits::builder()
        .limit("per-key", Limit::per_second(5))
        .limit("per-tenant", Limit::per_minute(100).burst(10))
        .build()?;
    let layer = RateLimitLayer::with_limiter(Limiter::new(limits, MemoryBackend::new()))
        .rule(Rule::new("per-key", ApiKey))
        .rule(Rule::new("per-tenant", tenant));
    let app = Router::new()
        .fallback(get(|| async { "hello\n" }))
        .layer(layer);

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
