use std::time::Duration;

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::get,
};
use moka::future::Cache;
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule, key::ExtensionId, limit::LimitsError,
};

/// A row. `limit` is a column of text, such as `600/minute burst 50`; without one, the default holds.
#[derive(Clone)]
struct Customer {
    id: String,
    limit: Option<Limit>,
}

/// The rows that were read within 30 seconds, by API key.
type Customers = Cache<String, Customer>;

/// Stands for the query.
async fn read_row(key: &str) -> Result<Customer, StatusCode> {
    tracing::debug!("a query");
    tokio::task::yield_now().await;
    let (id, limit) = match key {
        "key-of-acme" => ("acme", None),
        "key-of-globex" => ("globex", Some("600/minute burst 50")),
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    let limit = limit.map(str::parse).transpose();
    let limit = limit.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let id = id.to_owned();
    Ok(Customer { id, limit })
}

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("requests", Limit::per_minute(60))
        .build()
}

fn app(limiter: Limiter) -> Router {
    let customer = ExtensionId::new(|customer: &Customer| customer.id.clone());
    let requests = Rule::new("requests", customer)
        .limit_from(|parts| parts.extensions.get::<Customer>()?.limit.clone());
    let customers = Cache::builder().time_to_live(Duration::from_secs(30));
    let customers: Customers = customers.max_capacity(100_000).build();
    Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::with_limiter(limiter).rule(requests))
        // Outside: one place to wait, one cache, one error.
        .layer(from_fn_with_state(customers, look_up))
}

async fn look_up(
    State(customers): State<Customers>,
    mut request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let key = request.headers().get("x-api-key");
    let key = key.and_then(|key| key.to_str().ok());
    let key = key.ok_or(StatusCode::UNAUTHORIZED)?;
    let row = customers.try_get_with_by_ref(key, read_row(key)).await;
    let customer = row.map_err(|status| *status)?;
    request.extensions_mut().insert(customer);
    Ok(next.run(request).await)
}

// The page ends here.

use futures_util::future::join_all;
use tollgate::MemoryBackend;
use tower::ServiceExt;

use crate::support::Log;

#[tokio::test]
async fn simultaneous_requests_ask_once_and_errors_are_not_kept() {
    let (log, _guard) = Log::capture_at(tracing::Level::DEBUG);
    let app = app(Limiter::new(limits().unwrap(), MemoryBackend::new()));
    let get = async |key: &str| {
        let request = Request::get("/").header("x-api-key", key);
        let request = request.body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap()
    };
    let responses = join_all((0..5).map(|_| get("key-of-globex"))).await;
    for response in responses {
        let policy = response.headers().get("ratelimit-policy").unwrap();
        assert_eq!(policy, "\"requests\";q=50;w=5");
    }
    assert_eq!(log.count("a query"), 1);
    assert_eq!(get("key-of-acme").await.status(), StatusCode::OK);
    assert_eq!(log.count("a query"), 2);
    for queries in [3, 4] {
        let response = get("invented").await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(log.count("a query"), queries);
    }
}
