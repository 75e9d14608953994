//! The permissions that `docs/redis.md` lists suffice, and none of them is superfluous.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::{Duration, Instant};

use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction, limiter::LimiterError, tiers::Tier,
};

use crate::{
    connect,
    eventually::{PATIENCE, eventually_async},
    redis_support::{Cluster, Server},
};

/// A tier whose value is written in parts.
const LARGE: Tier = Tier::new(100, Duration::from_secs(3600));

/// Returns the users in the docs: first that for a single server, then that for a cluster.
fn users() -> Vec<Vec<&'static str>> {
    let docs = include_str!("../../docs/redis.md").lines();
    let lines = docs.filter_map(|line| line.strip_prefix("user "));
    lines.map(|line| line.split(' ').collect()).collect()
}

fn set_up(server: &Server, user: &[&str]) {
    server.exec(&[&["ACL", "SETUSER"], user].concat());
}

fn assert_nothing_was_denied(server: &Server) {
    let denied: Vec<redis::Value> = server.query(&["ACL", "LOG"]);
    assert!(denied.is_empty(), "{denied:?}");
}

fn rights<'a>(user: &[&'a str]) -> Vec<&'a str> {
    let rights = user.iter().filter_map(|rule| rule.strip_prefix('+'));
    rights.collect()
}

fn forbid(server: &Server, right: &str) {
    set_up(server, &["tollgate", &format!("-{right}")]);
}

async fn limiter(url: &str) -> Limiter {
    let backend = connect(url.replace("://", "://tollgate:secret@")).await;
    let limits = Limits::builder()
        .limit("first", Limit::per_hour(20))
        .limit("second", Limit::per_hour(20))
        .limit("window", Limit::window(4000, Duration::from_secs(3600)))
        .limit("tiers", Limit::tiers([LARGE]).unwrap())
        .limit("endless", Limit::tiers([LARGE, LARGE]).unwrap());
    Limiter::new(limits.build().unwrap(), backend)
}

/// Runs every operation on buckets.
async fn do_everything(limiter: &Limiter, id: &str) -> Result<(), LimiterError> {
    let [first, second] = ["first", "second"].map(|limit| Transaction::new(limit, id));
    limiter.spend(&first).await?;
    limiter.check(&first).await?;
    limiter.spend_batch(&[first, second]).await?;
    limiter.refund(&second).await?;
    // More units than are written anew each time.
    let window = Transaction::new("window", id);
    limiter.reset(&[window]).await?;
    limiter.spend(&window.cost(199)).await?;
    // The key lives longer from the next millisecond on.
    let written = Instant::now();
    while written.elapsed() < Duration::from_millis(2) {
        limiter.spend(&window).await?;
    }
    limiter.spend(&window).await?;
    // The second of the endless tiers is entered, and never left.
    for (limit, cost) in [("tiers", 99), ("endless", 199)] {
        let tiers = Transaction::new(limit, id);
        limiter.reset(&[first, tiers]).await?;
        limiter.spend(&tiers.cost(cost)).await?;
        limiter.spend(&tiers).await?;
    }
    Ok(())
}

#[tokio::test]
async fn user_of_a_server_has_the_rights_that_it_needs() {
    let server = Server::start();
    let user = &users()[0];
    set_up(&server, user);
    let limiter = limiter(&server.url()).await;
    do_everything(&limiter, "client").await.unwrap();
    assert_nothing_was_denied(&server);
    for right in rights(user) {
        // Each needs its script once more.
        server.exec(&["SCRIPT", "FLUSH"]);
        forbid(&server, right);
        let done = do_everything(&limiter, "client").await;
        assert!(done.is_err(), "{right}");
        set_up(&server, user);
        // Some failures in a row have opened the breaker.
        eventually_async("it decides again", async || {
            let other = Transaction::new("first", "other").cost(0);
            limiter.check(&other).await.is_ok()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_of_a_cluster_has_the_rights_that_it_needs() {
    let cluster = Cluster::start();
    let [alone, user] = &users()[..] else {
        panic!("two lines")
    };
    for node in cluster.nodes() {
        set_up(node, user);
    }
    let limiter = limiter(&cluster.url()).await;
    do_everything(&limiter, "client").await.unwrap();
    for node in cluster.masters() {
        assert_nothing_was_denied(node);
    }
    let (alone, more) = (rights(alone), rights(user));
    let more: Vec<_> = more
        .into_iter()
        .filter(|right| !alone.contains(right))
        .collect();
    assert_eq!(more, ["asking", "cluster|slots"]);

    // A key that its node does not have any more is asked for at the next.
    let slot = cluster.slot_of_client("client");
    let masters = cluster.masters();
    let to = masters
        .iter()
        .find(|node| node.id() != cluster.owner(slot).id())
        .unwrap();
    cluster.begin_migration(slot, to);
    let first = Transaction::new("first", "client");
    limiter.spend(&first).await.unwrap();
    forbid(to, "asking");
    limiter.spend(&first).await.unwrap_err();
}

#[tokio::test]
async fn user_that_may_not_run_scripts_is_refused_on_connecting() {
    let server = Server::start();
    let user = &users()[0];
    let connected = async || {
        let url = server.url().replace("://", "://tollgate:secret@");
        let backend = RedisBackend::new(url).unwrap();
        backend.connected(PATIENCE).await
    };
    set_up(&server, user);
    forbid(&server, "eval");
    let error = connected().await.unwrap_err();
    assert!(error.is_permanent(), "{error}");
    let error = error.to_string();
    assert!(error.contains("NOPERM"), "{error}");
    for needed in rights(user) {
        assert!(error.contains(&format!("+{needed}")), "{needed}: {error}");
    }
}
