use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule,
    limit::LimitsError,
    limiter::{LimitHandle, LimiterError},
};

#[derive(Deserialize)]
struct Login {
    user: String,
    password: String,
}

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("failed-logins-per-ip", Limit::per_hour(20))
        .limit("failed-logins-per-user", Limit::per_hour(20).burst(5))
        .build()
}

fn app(limiter: Limiter) -> Result<Router, LimiterError> {
    let per_user = limiter.limit("failed-logins-per-user")?;
    let per_ip = Rule::new("failed-logins-per-ip", ClientIp::peer())
        .refund_if(|ending| ending.status().is_some_and(|status| status.is_success()));
    let layer = RateLimitLayer::with_limiter(limiter).rule(per_ip);
    Ok(Router::new()
        .route("/login", post(login).route_layer(layer))
        .with_state(per_user))
}

async fn login(
    State(per_user): State<LimitHandle>,
    Json(login): Json<Login>,
) -> Result<String, Response> {
    // Different spellings of a name must share a bucket.
    let user = login.user.trim().to_lowercase();
    let unavailable = |_| StatusCode::SERVICE_UNAVAILABLE.into_response();
    // Charge first, so that guesses sent at the same time are all counted.
    let decision = per_user.spend(&user).await.map_err(unavailable)?;
    if !decision.allowed() {
        let secs = decision.retry_after_secs().unwrap_or(3600);
        let retry = [(RETRY_AFTER, secs.to_string())];
        return Err((StatusCode::TOO_MANY_REQUESTS, retry, "too many attempts").into_response());
    }
    if !is_right(&user, &login.password) {
        return Err((StatusCode::UNAUTHORIZED, "wrong user or password").into_response());
    }
    // A success does not count.
    if let Some(receipt) = decision.receipt() {
        let refunded = per_user.refund_receipt(&user, receipt).await;
        refunded.map_err(unavailable)?;
    }
    Ok(format!("welcome, {user}"))
}

/// A real server verifies a password hash, for unknown users too.
fn is_right(user: &str, password: &str) -> bool {
    (user, password) == ("alice", "wonderland")
}
