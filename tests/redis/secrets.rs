//! Passwords are in no error and in no debug output, for servers of each kind.

use std::{error::Error, fmt, time::Duration};

use futures_util::future::join_all;
use tollgate::{
    Limiter, RateLimitLayer, RedisBackend, Rule, Transaction,
    backend::{DenyCache, FailurePolicy, redis::RedisBackendBuilder},
    key::Everyone,
    transaction::OnFailure,
};
use tower::Layer;

use crate::{CLUSTER, SERVER, load::limits, redis_support::Server};

const PASSWORD: &str = "hunter2";

/// The password as it appears in a URL: plain and percent-encoded.
const WRITTEN: [&str; 2] = ["hunter2", "%68unter2"];

#[track_caller]
fn keeps_secrets(printed: &str) {
    for secret in [PASSWORD, "%68unter2", "68756e74657232"] {
        assert!(!printed.contains(secret), "{printed}");
    }
    let bytes = format!("{:?}", PASSWORD.as_bytes());
    assert!(
        !printed.contains(bytes.trim_matches(['[', ']'])),
        "{printed}"
    );
}

#[track_caller]
fn hides(value: &impl fmt::Debug) {
    keeps_secrets(&format!("{value:?}"));
    keeps_secrets(&format!("{value:#?}"));
}

#[track_caller]
fn error_hides(error: &(dyn Error + 'static)) {
    let mut cause = Some(error);
    while let Some(error) = cause {
        keeps_secrets(&error.to_string());
        hides(&error);
        cause = error.source();
    }
}

/// Prints a backend and all wrappers that may be around it.
async fn all_hide(builder: RedisBackendBuilder) {
    let builder = builder.timeout(Duration::from_secs(10));
    hides(&builder);
    let backend = builder.build().unwrap();
    hides(&backend);
    if let Err(error) = backend.connected(Duration::from_secs(1)).await {
        error_hides(&error);
    }
    hides(&backend);
    let cache = DenyCache::new(backend);
    hides(&cache);
    let policy = FailurePolicy::new(cache).on_failure(OnFailure::Refuse);
    hides(&policy);
    let limiter = Limiter::new(limits(), policy);
    hides(&limiter);
    match limiter.spend(&Transaction::new("one", "id")).await {
        Ok(decision) => hides(&decision),
        Err(error) => error_hides(&error),
    }
    match limiter.reset(&[Transaction::new("one", "id")]).await {
        Ok(()) => {}
        Err(error) => error_hides(&error),
    }
    hides(&limiter);
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("one", Everyone));
    hides(&layer);
    hides(&layer.layer("service"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_can_be_printed_holds_a_password_that_can_be_read() {
    let locked = Server::start_with(&["--requirepass", PASSWORD]);
    let (locked_at, unix) = (locked.addr(), locked.unix_path());
    let (single, cluster) = (SERVER.addr(), CLUSTER.owner(0).addr());
    let unix = unix.display();
    let mut urls = Vec::new();
    for password in WRITTEN {
        urls.extend([
            format!("redis://:{password}@{locked_at}"),
            format!("redis://user:{password}@{locked_at}/3"),
            format!("redis://user:{password}@{single}"),
            format!("redis+unix://:{password}@localhost{unix}"),
            format!("redis-cluster://:{password}@{cluster}"),
            format!("redis-cluster://user:{password}@{cluster}?node={cluster}"),
            format!("redis-sentinel://user:{password}@{single}?sentinelServiceName=name"),
            format!(
                "redis-sentinel://{single}?sentinelServiceName=name&sentinelUsername=user&sentinelPassword={password}"
            ),
            format!("rediss://user:{password}@{locked_at}"),
        ]);
    }
    let apart = [locked_at, single].map(|addr| format!("redis://{addr}"));
    let apart = apart.map(|url| RedisBackend::builder(url).user("user").password(PASSWORD));
    let whole = urls.into_iter().map(RedisBackend::builder);
    // All at once: most of them wait for a connection in vain.
    join_all(whole.chain(apart).map(all_hide)).await;
}

#[tokio::test]
async fn url_that_is_mistaken_is_not_repeated() {
    for url in [
        "hunter2",
        "hunter2://host",
        ":hunter2@redis://host",
        "redis:hunter2://host",
        "redis://user:hunter2@host:port",
        "redis://user:hunter2@host:99999",
        "redis://user:hunter2@",
        "redis://hunter2@[::1",
        "redis://user:hunter2@host/hunter2",
        "redis://user:hunter2@host name",
        "redis://host?hunter2=hunter2",
        "redis-sentinel://user:hunter2@host",
        "redis-cluster://user:hunter2@",
        "redis+unix://user:hunter2@",
        "rediss://user:hunter2@host:port",
        "http://user:hunter2@host",
    ] {
        let error = RedisBackend::new(url).expect_err(url);
        error_hides(&error);
    }
}
