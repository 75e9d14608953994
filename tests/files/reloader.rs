//! Limits and lists that are read again when their files change. Time is paused: it passes when all wait.
#![cfg(all(feature = "reload", feature = "yaml"))]

use std::{fs, time::Duration};

use tokio::{task::JoinHandle, time};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    id::IdFormat,
    key::{HeaderId, IpList},
    limit::{LimitName, LimitsBuilder},
    reload::Reloader,
};

use crate::support::{Folder, Log, send};

const DEFAULTS: &str = "orders: {number: 6, id: regId, burst: 10, count: 10, period: 1s}\n";
const OVERRIDES: &str = "- orders: {burst: 20, count: 10, period: 1s, ids: [7, 8]}\n";

/// A folder with both files.
struct Files(Folder);

impl Files {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("defaults.yml", DEFAULTS);
        folder.write("overrides.yml", OVERRIDES);
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }

    fn list(&self, name: &str, text: &str) -> IpList {
        IpList::from_file(self.0.write(name, text)).unwrap()
    }

    fn recipe(&self) -> LimitsBuilder {
        Limits::builder()
            .defaults_file(self.0.path("defaults.yml"))
            .overrides_file(self.0.path("overrides.yml"))
    }

    fn limiter(&self) -> Limiter {
        Limiter::new(self.recipe().build().unwrap(), MemoryBackend::new())
    }

    fn reloader(&self, limiter: &Limiter) -> Reloader {
        Reloader::new(limiter.clone(), self.recipe()).every(Duration::from_secs(10))
    }
}

/// The bursts that accounts have.
fn bursts<const N: usize>(limiter: &Limiter, ids: [&str; N]) -> [u32; N] {
    ids.map(|id| {
        let probe = Transaction::new("orders", id).cost(0);
        let decision = limiter.try_spend(&probe).unwrap().unwrap();
        decision.remaining().unwrap()
    })
}

/// A layer that uses the limit.
fn layer(limiter: &Limiter, cost: u32) -> RateLimitLayer {
    let rule = Rule::new("orders", HeaderId::new("x-account")).cost(cost);
    RateLimitLayer::with_limiter(limiter.clone()).rule(rule)
}

#[test]
fn files_and_recipes_are_put_in_force_once_they_have_changed() {
    let files = Files::new();
    let limiter = files.limiter();
    let reloader = files.reloader(&limiter);
    assert!(!reloader.reload().unwrap());
    let overrides = "- orders: {burst: 30, count: 10, period: 1s, ids: [9]}";
    files.write("overrides.yml", overrides);
    assert!(reloader.reload().unwrap());
    assert_eq!(bursts(&limiter, ["7", "9"]), [10, 30]);
    files.write("defaults.yml", &DEFAULTS.replace("burst: 10", "burst: 15"));
    assert!(reloader.reload().unwrap());
    assert_eq!(bursts(&limiter, ["7", "9"]), [15, 30]);
    assert!(!reloader.reload().unwrap());
    // Limits in code count as much.
    let recipe = files
        .recipe()
        .override_for("orders", "7", Limit::per_second(5));
    let reloader = Reloader::new(limiter.clone(), recipe);
    assert!(reloader.reload().unwrap());
    assert_eq!(bursts(&limiter, ["7"]), [5]);
    for empty in ["[]", "{}", "orders: []\n"] {
        files.write("overrides.yml", OVERRIDES);
        files.reloader(&limiter).reload().unwrap();
        assert_eq!(bursts(&limiter, ["7"]), [20]);
        files.write("overrides.yml", empty);
        assert!(files.reloader(&limiter).reload().unwrap());
        assert_eq!(bursts(&limiter, ["7"]), [15], "{empty:?}");
    }
}

#[test]
fn last_good_limits_stay() {
    let files = Files::new();
    let limiter = files.limiter();
    let _layer = layer(&limiter, 8);
    let reloader = files.reloader(&limiter);
    let path = files.0.path("overrides.yml");
    let refused = |message: &str| {
        let error = reloader.reload().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(bursts(&limiter, ["7", "9"]), [20, 10], "{message}");
    };
    for (text, message) in [
        (
            "- orders: {burst: 30, count: 10, period: 1s, ids: [9, 07]}",
            "overrides.yml:1: limit `orders`: `07`",
        ),
        ("- orders: {burst: 30", "overrides.yml:1: "),
        (
            "- order: {burst: 1, count: 1, period: 1s, ids: [9]}",
            "did you mean `orders`?",
        ),
        // A file that was cut.
        ("", "overrides.yml: it is empty: write `[]`"),
        ("# overrides of March\n", "overrides.yml: it is empty"),
        // One that would break the rule.
        (
            "- orders: {burst: 7, count: 10, period: 1s, ids: [9]}",
            "limit `orders`: id `9`: a request that meets its rules costs 8, and at most 7 can ever pass",
        ),
    ] {
        files.write("overrides.yml", text);
        refused(message);
    }
    fs::remove_file(&path).unwrap();
    refused("cannot read it");
    // Neither file is put in force without the other.
    files.write("defaults.yml", &DEFAULTS.replace("burst: 10", "burst: 15"));
    refused("cannot read it");
}

#[test]
fn limit_that_a_rule_uses_is_not_removed_but_turned_off() {
    let files = Files::new();
    let limiter = files.limiter();
    let _layer = layer(&limiter, 1);
    let reloader = files.reloader(&limiter);
    files.write("overrides.yml", "[]");
    files.write("defaults.yml", &DEFAULTS.replace("orders", "order"));
    let error = reloader.reload().unwrap_err().to_string();
    let expected = "limit `orders`: a rule uses it: no limit has this name: did you mean `order`?";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(bursts(&limiter, ["7"]), [20]);
    files.write("defaults.yml", "orders: {number: 6, id: regId}");
    assert!(reloader.reload().unwrap());
    let off = limiter.try_spend(&Transaction::new("orders", "7"));
    assert!(!off.unwrap().unwrap().limited());
    // One that is declared in code stays, and loses its values.
    let name = LimitName::new("orders", 6, IdFormat::RegId);
    let recipe = Limits::builder().name(name).name("others");
    let recipe = recipe.defaults_file(files.0.path("defaults.yml"));
    files.write("defaults.yml", DEFAULTS);
    let limiter = Limiter::new(recipe.build().unwrap(), MemoryBackend::new());
    let _layer = layer(&limiter, 1);
    files.write("defaults.yml", "others: {}");
    let error = Reloader::new(limiter.clone(), recipe.clone())
        .reload()
        .unwrap_err();
    let expected =
        "a rule uses it, and it has no values any more: add them again, or write `orders: {}`";
    assert!(error.to_string().contains(expected), "{error}");
    files.write("defaults.yml", "orders: {}");
    assert!(Reloader::new(limiter, recipe).reload().unwrap());
}

fn run(reloader: Reloader) -> JoinHandle<()> {
    tokio::spawn(async {
        reloader.run().await;
    })
}

/// Waits until the files were checked this number of times.
async fn looks(count: u64) {
    time::sleep(Duration::from_secs(10 * count + 1)).await;
}

#[tokio::test(start_paused = true)]
async fn lists_are_read_again_with_the_limits_and_each_by_itself() {
    let (log, _guard) = Log::capture();
    let files = Files::new();
    let denied = files.list("denied.txt", "203.0.113.7");
    let exempt = files.list("exempt.txt", "# none");
    let limiter = files.limiter();
    let running = run(files.reloader(&limiter).list(&denied).list(&exempt));
    let layer = RateLimitLayer::new(Limit::per_day(1), ClientIp::peer())
        .skip_if(ClientIp::peer().listed_in(&exempt))
        .deny_if("denied", ClientIp::peer().listed_in(&denied));
    let status = async |ip| send(&layer, ip).await.status();
    assert_eq!(status("203.0.113.7").await, 403);
    files.write("denied.txt", "203.0.113.8");
    files.write("exempt.txt", "192.0.2.0/24");
    looks(1).await;
    assert_eq!(status("203.0.113.7").await, 200);
    assert_eq!(status("203.0.113.8").await, 403);
    for _ in 0..2 {
        assert_eq!(status("192.0.2.1").await, 200);
    }
    assert_eq!(log.count("a list of addresses is reloaded"), 2);
    // A mistake in one keeps neither the other nor the limits back, and is logged once.
    files.write("denied.txt", "203.0.113.9/33");
    files.write("exempt.txt", "# none");
    files.write("overrides.yml", "[]");
    looks(10).await;
    assert_eq!(status("203.0.113.8").await, 403);
    for expected in [200, 429] {
        assert_eq!(status("192.0.2.1").await, expected);
    }
    assert_eq!(bursts(&limiter, ["7"]), [10]);
    assert_eq!(
        log.count("denied.txt:1: `203.0.113.9/33` is not an address"),
        1
    );
    running.abort();
    let error = files.reloader(&limiter).list(&denied).reload();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("denied.txt:1: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn running_reloader_logs_each_change_once() {
    const BACK: &str = "the files match the limits in force again";
    let (log, _guard) = Log::capture();
    let files = Files::new();
    let list = files.list("denied.txt", "203.0.113.7");
    let limiter = files.limiter();
    let running = run(files.reloader(&limiter).list(&list));
    looks(10).await;
    assert_eq!(log.count("limits"), 0, "nothing has changed");
    // Mistakes, and the end of each.
    for round in 1..=2 {
        files.write("overrides.yml", "- orders: 5");
        looks(10).await;
        let stays = "limits were not reloaded: the current ones stay in force";
        assert_eq!(log.count(stays), round, "{log:?}");
        files.write("overrides.yml", OVERRIDES);
        looks(10).await;
        assert_eq!(log.count(BACK), round, "{log:?}");
    }
    files.write("overrides.yml", "[]");
    assert_eq!(bursts(&limiter, ["7"]), [20]);
    looks(10).await;
    assert_eq!(bursts(&limiter, ["7"]), [10]);
    assert_eq!(log.count("limits were reloaded limits=1 overrides=0"), 1);
    // Files that are gone for a while.
    for (times, (name, content)) in [("overrides.yml", "[]"), ("denied.txt", "203.0.113.7")]
        .into_iter()
        .enumerate()
    {
        fs::remove_file(files.0.path(name)).unwrap();
        looks(10).await;
        assert_eq!(log.count("cannot read it"), times + 1, "{log:?}");
        files.write(name, content);
        looks(10).await;
        assert_eq!(log.count(BACK), times + 3, "{log:?}");
    }
    // A bad file that disappears and reappears logs no recovery.
    for _ in 0..2 {
        files.write("overrides.yml", "- orders: 5");
        looks(10).await;
        fs::remove_file(files.0.path("overrides.yml")).unwrap();
        looks(10).await;
    }
    assert_eq!(log.count(BACK), 4, "{log:?}");
    running.abort();
}
