//! The statements of `docs/redis.md` on memory, eviction and restarts hold on a real server.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use tollgate::{Limit, Limiter, Limits, Transaction, id::IdFormat, limit::LimitName, tiers::Tier};

use crate::{connect, redis_support::Server};

const HOUR: Duration = Duration::from_secs(3600);

/// The tolerance for figures of the docs, in per cent, because versions and allocators differ.
const TOLERANCE: u64 = 30;

/// Limits that give nothing back while a test runs.
async fn limiter(server: &Server) -> Limiter {
    let backend = connect(server.url()).await;
    let tiers = |units| Limit::tiers([Tier::new(units, HOUR)]).unwrap();
    let address = |name| LimitName::unnumbered(name, IdFormat::IpAddress);
    let orders = LimitName::new("orders", 6, IdFormat::RegId);
    let limits = Limits::builder()
        .limit(address("requests"), Limit::per_day(24).burst(20))
        .limit(orders, Limit::per_day(24).burst(20))
        .limit(address("five"), tiers(5))
        .limit(address("most"), tiers(4096));
    Limiter::new(limits.build().unwrap(), backend)
}

fn request() -> Transaction<'static> {
    Transaction::new("requests", "10.1.2.3")
}

/// The figures in the docs for buckets: a key, its bytes by `MEMORY USAGE`, and its total bytes.
fn documented() -> Vec<(&'static str, u64, u64)> {
    let docs = include_str!("../../docs/redis.md").lines();
    let rows = docs.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let bytes = |text: &str| text.replace(',', "").parse().ok();
    let documented = rows.filter_map(|row| match row[..] {
        ["", _, key, usage, all, _, ""] => {
            let key = key.strip_prefix('`')?.strip_suffix('`')?;
            Some((key, bytes(usage)?, bytes(all)?))
        }
        _ => None,
    });
    documented.collect()
}

#[track_caller]
fn expect_about(what: &str, measured: u64, documented: u64) {
    let (least, most) = (
        documented * (100 - TOLERANCE),
        documented * (100 + TOLERANCE),
    );
    let is_so = (least..=most).contains(&(measured * 100));
    assert!(
        is_so,
        "{what}: {measured} bytes, and the docs say {documented}"
    );
}

#[tokio::test]
async fn buckets_take_the_memory_that_the_page_states() {
    let server = Server::start();
    let limiter = limiter(&server).await;
    let documented = documented();
    assert_eq!(documented.len(), 4);
    for (key, usage, all) in documented {
        let (limit, id, cost) = match key.split_once("}:").unwrap().1 {
            "6:12345678" => ("orders", "12345678", 1),
            bucket => {
                let (limit, id) = bucket.split_once(':').unwrap();
                let limit = limit.trim_end_matches("~t");
                let full = [("five", 5), ("most", 4096)];
                let cost = full.iter().find(|(name, _)| *name == limit);
                (limit, id, cost.map_or(1, |(_, cost)| *cost))
            }
        };
        let spend = Transaction::new(limit, id).cost(cost);
        assert!(limiter.spend(&spend).await.unwrap().allowed());
        let measured: u64 = server.query(&["MEMORY", "USAGE", key]);
        expect_about(key, measured, usage);
        assert!(usage < all, "{key}: the tables take something");
    }
}

#[tokio::test]
async fn tables_take_the_memory_that_the_page_states() {
    /// Nearly a power of two, for which tables have room.
    const MANY: u32 = 16_000;
    /// Makes buckets of other clients with the same tag out of one, as a spend would have left them.
    const COPIES: &str = r#"
        for n = 1, ARGV[1] do
            local id = string.format("10.2.%d.%d", math.floor(n / 256), n % 256)
            redis.call("COPY", KEYS[1], (string.gsub(KEYS[1], "[^:]+$", id)))
        end
    "#;
    let server = Server::start();
    let limiter = limiter(&server).await;
    limiter.spend(&request()).await.unwrap();
    let (key, _, all) = documented()[0];
    let copy = |many: u32| server.exec(&["EVAL", COPIES, "1", key, &many.to_string()]);
    copy(1);
    let used = || server.info("used_memory").parse::<u64>().unwrap();
    let before = used();
    copy(MANY);
    // The one that was spent from, and its copies.
    assert_eq!(server.query::<u32>(&["DBSIZE"]), MANY + 1);
    expect_about(key, (used() - before) / u64::from(MANY), all);
}

#[tokio::test]
async fn buckets_that_are_full_soonest_go_first() {
    let server = Server::start();
    let limiter = limiter(&server).await;
    // Full in twenty hours; the others in one.
    assert!(limiter.spend(&request().cost(20)).await.unwrap().allowed());
    let used: u64 = server.info("used_memory").parse().unwrap();
    server.configure("maxmemory-policy", "volatile-ttl");
    server.configure("maxmemory", &(used + 400_000).to_string());
    for n in 0..4_000 {
        let id = format!("10.2.{}.{}", n / 256, n % 256);
        let spend = Transaction::new("requests", &id);
        assert!(limiter.spend(&spend).await.unwrap().allowed());
    }
    assert_ne!(server.info("evicted_keys"), "0");
    assert!(!limiter.spend(&request()).await.unwrap().allowed());
}

/// Spends five of twenty, does something, kills and restarts the server, and returns what remains.
async fn remaining_after_restart(options: &[&str], between: &str) -> Option<u32> {
    let server = Server::start_with(options);
    let five = request().cost(5);
    let before = limiter(&server).await;
    before.spend(&five).await.unwrap();
    server.exec(&[between]);
    before.spend(&five).await.unwrap();
    server.restart();
    let after = limiter(&server).await;
    let state = after.check(&request().cost(0)).await.unwrap();
    state.remaining()
}

#[tokio::test]
async fn restart_loses_unwritten_charges() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    assert_eq!(remaining_after_restart(&[], "PING").await, Some(20));
    assert_eq!(remaining_after_restart(&[], "SAVE").await, Some(15));
    assert_eq!(remaining_after_restart(&always, "PING").await, Some(10));
}
