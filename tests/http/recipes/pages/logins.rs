use std::time::Duration;

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

const QUARTER: Duration = Duration::from_secs(15 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// The longest user name, in bytes.
const LONGEST_NAME: usize = 256;

#[derive(Deserialize)]
struct Login {
    user: String,
    password: String,
}

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("failed-logins-per-ip", Limit::window(20, HOUR))
        .limit("failed-logins-per-user", Limit::window(5, QUARTER))
        .build()
}

fn app(limiter: Limiter) -> Result<Router, LimiterError> {
    let per_user = limiter.limit("failed-logins-per-user")?;
    // Only a 401 stays charged, and a request whose client leaves before the answer.
    let per_ip = Rule::new("failed-logins-per-ip", ClientIp::peer()).refund_if(|ending| {
        ending
            .status()
            .is_some_and(|status| status != StatusCode::UNAUTHORIZED)
    });
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
    if user.len() > LONGEST_NAME {
        return Err((StatusCode::BAD_REQUEST, "the user name is too long").into_response());
    }
    // Charge first, so that guesses sent at the same time are all counted.
    let decision = per_user
        .spend(&user)
        .await
        .map_err(|error| undecided(&error))?;
    if !decision.allowed() {
        let secs = decision.retry_after_secs().unwrap_or(QUARTER.as_secs());
        let retry = [(RETRY_AFTER, secs.to_string())];
        return Err((StatusCode::TOO_MANY_REQUESTS, retry, "too many attempts").into_response());
    }
    if !is_right(&user, &login.password) {
        return Err((StatusCode::UNAUTHORIZED, "wrong user or password").into_response());
    }
    // A success ends the count. If the store does not answer, at least this attempt is given back. In either case, the
    // password is right.
    if per_user.reset(&user).await.is_err()
        && let Some(receipt) = decision.receipt()
    {
        let _ = per_user.refund_receipt(&user, receipt).await;
    }
    Ok(format!("welcome, {user}"))
}

fn undecided(error: &LimiterError) -> Response {
    match error {
        LimiterError::InvalidId { .. } => {
            (StatusCode::BAD_REQUEST, "the user name is empty").into_response()
        }
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// A real server verifies a password hash, for unknown users too.
fn is_right(user: &str, password: &str) -> bool {
    [("alice", "wonderland"), ("bob", "builder")].contains(&(user, password))
}
