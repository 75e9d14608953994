use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, StatusCode},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::get,
};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, key::ExtensionId, limit::LimitsError,
};

/// The account of a valid API key.
#[derive(Clone, Copy)]
struct Account(&'static str);

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("attempts-per-ip", Limit::per_second(50))
        .limit("per-account", Limit::per_minute(600))
        .limit("anonymous-per-ip", Limit::per_minute(60))
        .build()
}

fn app(limiter: Limiter) -> Router {
    let attempts = Rule::new("attempts-per-ip", ClientIp::peer());
    let account = ExtensionId::optional(|Account(id): &Account| *id);
    let anonymous = Rule::new("anonymous-per-ip", ClientIp::peer());
    let requests = Rule::new("per-account", account).or_else(anonymous);
    Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::with_limiter(limiter.clone()).rule(requests))
        .layer(from_fn(authenticate))
        // The layer added last is the outermost: it sees requests before their keys are verified.
        .layer(RateLimitLayer::with_limiter(limiter).rule(attempts))
}

async fn authenticate(mut request: Request, next: Next) -> Response {
    let mut keys = request.headers().get_all("x-api-key").iter();
    let account = match (keys.next(), keys.next()) {
        (None, _) => None,
        (Some(key), None) => match account_of(key) {
            Some(account) => Some(account),
            None => return (StatusCode::UNAUTHORIZED, "unknown API key").into_response(),
        },
        (Some(_), Some(_)) => {
            return (StatusCode::BAD_REQUEST, "send one `x-api-key` header").into_response();
        }
    };
    if let Some(account) = account {
        request.extensions_mut().insert(account);
    }
    next.run(request).await
}

/// Looks up a key. A real server stores hashes of keys in a database.
fn account_of(key: &HeaderValue) -> Option<Account> {
    match key.as_bytes() {
        b"key-of-alice" | b"second-key-of-alice" => Some(Account("alice")),
        b"key-of-bob" => Some(Account("bob")),
        _ => None,
    }
}
