//! A login that is safe against guessing: it admits five failures for each account and twenty for each client IP.
//!
//! ```sh
//! cargo run --example login_failures
//! for i in $(seq 6); do curl -s -o /dev/null -w '%{http_code} ' -X POST -u alice:guess http://127.0.0.1:3000/login; done
//! curl -i -X POST -u alice:wonderland http://127.0.0.1:3000/login
//! ```
//!
//! Both limits are charged before the password is checked, and refunded unless the answer is a 401 (`refund_if`):
//!
//! - Of a thousand guesses sent at once, at most five for each account, and at most twenty from each client IP, are compared with
//!   the password.
//! - Successes, refusals and requests for other reasons than a wrong password are not charged, so the users of an office
//!   with one address do not lock each other out. A login that is being checked holds a unit, so twenty of them can log in
//!   at the same moment.
//! - If the client disconnects before the answer, the charges stay. A guess is never free.
//!
//! Both limits are windows, so no quarter of an hour admits a sixth failure for an account. A token bucket of the same size would
//! admit nine. A success resets the count of its account.
//!
//! A client over a limit gets a 429, even with the right password. If that were accepted, the limit would not stop anybody: an
//! attacker would continue guessing, and the first answer other than 429 would reveal the password.
//!
//! Anyone can lock an account this way, as long as guesses keep coming. If that is a problem, give browsers that
//! have logged in before a cookie, and count them separately: use the pair (account, cookie) as the id.

#[path = "shared/failure.rs"]
mod failure;

use std::{env, net::SocketAddr, time::Duration};

use axum::{
    Router,
    http::{
        HeaderMap, StatusCode,
        header::{AUTHORIZATION, WWW_AUTHENTICATE},
        request::Parts,
    },
    response::{IntoResponse, Response},
    routing::post,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::net::TcpListener;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, layer::Assessment,
    limit::LimitsError, rule::RequestEnd,
};

use self::failure::Failure;

/// The accounts. A real server stores Argon2 hashes, and verifies one for unknown names too, which takes the same time
/// for every guess. The time of a plain comparison, as here, reveals how much of a guess is right.
const USERS: [(&str, &str); 2] = [("alice", "wonderland"), ("bob", "builder")];

const PER_ACCOUNT: &str = "login-failures-per-account";
const PER_IP: &str = "login-failures-per-ip";

const QUARTER: Duration = Duration::from_secs(15 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let app = app()?.into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

fn app() -> Result<Router, LimitsError> {
    let limits = Limits::builder()
        .limit(PER_ACCOUNT, Limit::window(5, QUARTER))
        .limit(PER_IP, Limit::window(20, HOUR))
        .build()?;
    // For several servers with shared limits: `RedisBackend::new("redis://127.0.0.1:6379")?`, feature `redis`.
    let limiter = Limiter::new(limits, MemoryBackend::new());

    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new(PER_ACCOUNT, account).refund_if(is_no_failure))
        .rule(Rule::new(PER_IP, ClientIp::peer()).refund_if(is_no_failure))
        .extensions(true);
    // Around the handler only, because a request that the router refuses, such as one with another method, is not a failure.
    Ok(Router::new().route("/login", post(login).route_layer(layer)))
}

/// Returns whether there was an answer other than a 401. Without an answer, because the client has disconnected, the
/// charges stay.
fn is_no_failure(ending: &RequestEnd<'_>) -> bool {
    let status = ending.status();
    status.is_some_and(|status| status != StatusCode::UNAUTHORIZED)
}

/// The account that a login is charged to. Without a name, it is only charged to the client IP.
///
/// Unknown names have buckets too, so that the answers do not reveal which accounts exist.
fn account(request: &Parts) -> Option<String> {
    let Credentials { name, .. } = Credentials::of(&request.headers)?;
    Some(name)
}

async fn login(assessment: Assessment, headers: HeaderMap) -> Response {
    match Credentials::of(&headers).filter(Credentials::are_right) {
        Some(Credentials { name, .. }) => {
            forget_failures(&assessment).await;
            format!("welcome, {name}\n").into_response()
        }
        None => {
            let challenge = [(WWW_AUTHENTICATE, r#"Basic realm="login", charset="UTF-8""#)];
            (StatusCode::UNAUTHORIZED, challenge, "try again\n").into_response()
        }
    }
}

/// Resets the count of the account. If the store does not answer, earlier failures still count, but the password is right,
/// so the login succeeds.
async fn forget_failures(assessment: &Assessment) {
    if let Some(account) = assessment.of(PER_ACCOUNT) {
        let _ = account.reset().await;
    }
}

/// A name and a password. The rule and the handler read them with the same function. If they read different names,
/// one account would have two buckets.
struct Credentials {
    name: String,
    password: String,
}

impl Credentials {
    /// Reads the credentials of HTTP Basic (RFC 7617), if there are any.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let (scheme, encoded) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
        let (name, password) = str::from_utf8(&decoded).ok()?.split_once(':')?;
        // `Alice` and `alice` are one account.
        let (name, password) = (name.to_lowercase(), password.to_owned());
        (!name.is_empty()).then_some(Self { name, password })
    }

    fn are_right(&self) -> bool {
        USERS.contains(&(&*self.name, &*self.password))
    }
}
