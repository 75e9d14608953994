use std::time::Duration;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule,
    layer::Assessment,
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
    // With an `Assessment`, the handler refuses as the layer does.
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(per_ip)
        .extensions(true);
    Ok(Router::new()
        .route("/login", post(login).route_layer(layer))
        .with_state(per_user))
}

async fn login(
    State(per_user): State<LimitHandle>,
    assessment: Assessment,
    request: Parts,
    Json(login): Json<Login>,
) -> Result<String, Response> {
    // Different spellings of a name must share a bucket.
    let user = login.user.trim().to_lowercase();
    if user.len() > LONGEST_NAME {
        return Err((StatusCode::BAD_REQUEST, "the user name is too long").into_response());
    }
    // Charge first, so that guesses sent at the same time are all counted.
    let admitted = per_user.admit(&user).await;
    let decision = admitted.map_err(|denied| assessment.refuse(&request, &denied))?;
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

/// A real server verifies a password hash, for unknown users too.
fn is_right(user: &str, password: &str) -> bool {
    [("alice", "wonderland"), ("bob", "builder")].contains(&(user, password))
}

// The page ends here.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use http::Request;
use http_body_util::BodyExt;
use tollgate::{MemoryBackend, clock::ManualClock};
use tower::ServiceExt;

/// The status of a login, and its document.
async fn attempt(app: &Router, user: &str, password: &str) -> (StatusCode, String) {
    let login = serde_json::json!({"user": user, "password": password}).to_string();
    let request = Request::post("/login").header("content-type", "application/json");
    let request = request.body(Body::from(login)).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let retry = response.headers().get("retry-after").cloned();
    assert_eq!(
        retry.is_some(),
        status == StatusCode::TOO_MANY_REQUESTS,
        "{retry:?}"
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.into()).unwrap())
}

fn server() -> Router {
    let limiter = Limiter::new(limits().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let peer = SocketAddr::from(([203, 0, 113, 7], 49_152));
    app(limiter).unwrap().layer(MockConnectInfo(peer))
}

#[tokio::test]
async fn sixth_guess_is_refused_as_the_layer_refuses() {
    let app = server();
    for _ in 0..5 {
        let (status, _) = attempt(&app, "Alice ", "guess").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
    let (status, body) = attempt(&app, "alice", "wonderland").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    let detail = "limit `failed-logins-per-user` exceeded (5 in any 15 minutes) from alice: retry in 15 minutes";
    assert_eq!(document["detail"], detail);
    assert_eq!(document["violated-policies"][0], "failed-logins-per-user");
    assert_eq!(attempt(&app, "bob", "builder").await.0, StatusCode::OK);
}

#[tokio::test]
async fn success_ends_the_count_of_its_user() {
    let app = server();
    for _ in 0..3 {
        for _ in 0..4 {
            attempt(&app, "alice", "guess").await;
        }
        let (status, _) = attempt(&app, "alice", "wonderland").await;
        assert_eq!(status, StatusCode::OK);
    }
}

#[tokio::test]
async fn empty_or_too_long_name_is_a_bad_request() {
    let app = server();
    for user in [" ".to_owned(), "u".repeat(257)] {
        let (status, _) = attempt(&app, &user, "guess").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{user}");
    }
}
