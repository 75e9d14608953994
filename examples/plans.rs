//! An API with plans: ten requests per month for free accounts, and a hundred for paying ones.
//!
//! ```sh
//! cargo run --example plans
//! curl -i -H 'x-api-key: key-of-alice' http://127.0.0.1:3000/        # free
//! curl -i -H 'x-api-key: key-of-bob' http://127.0.0.1:3000/          # pro
//! curl -i -H 'x-api-key: key-of-initech' http://127.0.0.1:3000/      # pro, with a quota of its own
//! curl -i -H 'x-api-key: key-of-globex' http://127.0.0.1:3000/       # not limited
//! curl -i -H 'x-api-key: key-of-mallory' http://127.0.0.1:3000/      # 429, whenever
//! curl -i -H 'x-api-key: key-of-nobody' http://127.0.0.1:3000/       # 401
//! ```
//!
//! A middleware outside of the rate limiting layer identifies the caller first, and puts the account into the
//! request's extensions. It answers requests without an account with 401, and they are not charged.
//!
//! The account determines both the bucket, which all its keys share, and the limit. So the
//! `RateLimit` and `RateLimit-Policy` fields of each response show the caller's own plan. A plan is a quota per
//! calendar month: it admits exactly the number on the bill, and starts again on the first of the month, at midnight UTC.
//! Accounts with individual contracts, and blocked ones, have overrides instead of plans. An override belongs to one
//! limit, here that of the account's plan.
//!
//! This example does not limit guesses of keys. Add a layer outside of the middleware for that, as in `login_failures`.

#[path = "shared/failure.rs"]
mod failure;

use std::env;

use axum::{
    Extension, Router,
    extract::Request,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::ExtensionId,
    limit::LimitsError, quota::Per,
};

use self::failure::Failure;

#[derive(Clone, Copy, Debug)]
enum Plan {
    Free,
    Pro,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    id: &'static str,
    plan: Plan,
}

/// API keys and their accounts. A real server looks them up by their hashes, in its database.
const KEYS: [(&str, Account); 6] = [
    ("key-of-alice", Account::new("alice", Plan::Free)),
    ("key-of-bob", Account::new("bob", Plan::Pro)),
    ("other-key-of-bob", Account::new("bob", Plan::Pro)),
    ("key-of-initech", Account::new("initech", Plan::Pro)),
    ("key-of-globex", Account::new("globex", Plan::Pro)),
    ("key-of-mallory", Account::new("mallory", Plan::Free)),
];

/// Accounts that differ from their plans. In a file, with `overrides_file`, they can change while the server runs.
const OVERRIDES: &str = "
- pro:
    quota: 250
    per: month
    ids: [{id: initech, comment: bought more}]
- pro:
    unlimited: true
    ids: [{id: globex, comment: an enterprise with a contract}]
- free:
    blocked: true
    ids: [{id: mallory, comment: resells what is free}]
";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let app = app()?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

fn app() -> Result<Router, LimitsError> {
    let limits = Limits::builder()
        .limit("free", Limit::quota(10, Per::Month))
        .limit("pro", Limit::quota(100, Per::Month))
        .overrides_text("overrides.yml", OVERRIDES)
        .build()?;
    // For several servers with shared limits: `RedisBackend::new("redis://127.0.0.1:6379")?`, feature `redis`.
    let limiter = Limiter::new(limits, MemoryBackend::new());

    let account = ExtensionId::new(|account: &Account| account.id);
    let rule = Rule::new("free", account).limit_by(["pro"], |request| {
        match request.extensions.get::<Account>()?.plan {
            Plan::Free => None,
            Plan::Pro => Some("pro"),
        }
    });
    Ok(Router::new()
        .route("/", get(hello))
        .layer(RateLimitLayer::with_limiter(limiter).rule(rule))
        // The layer added last is the outermost, and sees requests first.
        .layer(from_fn(authenticate)))
}

async fn authenticate(mut request: Request, next: Next) -> Response {
    match Account::of(&request) {
        Some(account) => {
            request.extensions_mut().insert(account);
            next.run(request).await
        }
        None => (StatusCode::UNAUTHORIZED, "send your key as `x-api-key`\n").into_response(),
    }
}

async fn hello(Extension(Account { id, plan }): Extension<Account>) -> String {
    format!("hello {id}, your plan is {plan:?}\n")
}

impl Account {
    const fn new(id: &'static str, plan: Plan) -> Self {
        Self { id, plan }
    }

    fn of(request: &Request) -> Option<Self> {
        let sent = request.headers().get("x-api-key")?;
        let known = KEYS.iter().find(|(key, _)| sent == key);
        known.map(|(_, account)| *account)
    }
}
