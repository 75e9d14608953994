//! Limits that are read again when their files change. Time is paused: it passes when all wait.

#![cfg(all(feature = "reload", feature = "yaml"))]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{fs, path::PathBuf, time::Duration};

use tokio::{task::JoinHandle, time};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    id::IdFormat,
    key::{HeaderId, IpList},
    limit::{LimitName, LimitsBuilder},
    reload::{Reloader, ReloaderError},
};

use crate::support::{Log, send};

const DEFAULTS: &str = "orders: {number: 6, id: regId, burst: 10, count: 10, period: 1s}\n";
const OVERRIDES: &str = "- orders: {burst: 20, count: 10, period: 1s, ids: [7, 8]}\n";

/// A directory with both files, gone when dropped.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = path.join(format!("reloader-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let files = Self(path);
        files.write("defaults.yml", DEFAULTS);
        files.write("overrides.yml", OVERRIDES);
        files
    }

    /// Writes a file as the docs say: under another name, and then renamed.
    fn write(&self, name: &str, text: &str) {
        let temporary = self.0.join("temporary");
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, self.0.join(name)).unwrap();
    }

    fn recipe(&self) -> LimitsBuilder {
        let [defaults, overrides] = ["defaults.yml", "overrides.yml"].map(|name| self.0.join(name));
        Limits::builder()
            .defaults_file(defaults)
            .overrides_file(overrides)
    }

    fn limiter(&self) -> Limiter {
        Limiter::new(self.recipe().build().unwrap(), MemoryBackend::new())
    }

    fn reloader(&self, limiter: &Limiter) -> Reloader {
        Reloader::new(limiter.clone(), self.recipe()).every(Duration::from_secs(10))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The burst that an account has.
fn burst(limiter: &Limiter, id: &str) -> u32 {
    let probe = Transaction::new("orders", id).cost(0);
    limiter
        .try_spend(&probe)
        .unwrap()
        .unwrap()
        .remaining()
        .unwrap()
}

#[test]
fn files_are_put_in_force_once_they_have_changed() {
    let files = Files::new("changed");
    let limiter = files.limiter();
    let reloader = files.reloader(&limiter);
    assert!(!reloader.reload().unwrap());
    files.write(
        "overrides.yml",
        "- orders: {burst: 30, count: 10, period: 1s, ids: [9]}",
    );
    assert!(reloader.reload().unwrap());
    assert_eq!(["7", "9"].map(|id| burst(&limiter, id)), [10, 30]);
    assert!(!reloader.reload().unwrap());
    files.write("defaults.yml", &DEFAULTS.replace("burst: 10", "burst: 15"));
    assert!(reloader.reload().unwrap());
    assert_eq!(["7", "9"].map(|id| burst(&limiter, id)), [15, 30]);
}

#[test]
fn recipe_counts_as_much_as_its_files() {
    let files = Files::new("recipe");
    let limiter = files.limiter();
    let recipe = files
        .recipe()
        .override_for("orders", "9", Limit::per_second(5));
    let reloader = Reloader::new(limiter.clone(), recipe);
    assert!(reloader.reload().unwrap());
    assert_eq!(burst(&limiter, "9"), 5);
    assert!(!reloader.reload().unwrap());
}

#[test]
fn empty_list_of_overrides_removes_them() {
    for empty in ["[]", "{}", "orders: []\n"] {
        let files = Files::new("empty");
        let limiter = files.limiter();
        assert_eq!(burst(&limiter, "7"), 20);
        files.write("overrides.yml", empty);
        assert!(files.reloader(&limiter).reload().unwrap());
        assert_eq!(burst(&limiter, "7"), 10, "{empty:?}");
    }
}

#[test]
fn truncated_files_change_nothing() {
    for truncated in ["", "\n", "# overrides of March\n", "---\n"] {
        let files = Files::new("truncated");
        let limiter = files.limiter();
        files.write("overrides.yml", truncated);
        let error = files.reloader(&limiter).reload().unwrap_err().to_string();
        assert!(
            error.contains("overrides.yml: it is empty: write `[]`"),
            "{error}"
        );
        assert_eq!(burst(&limiter, "7"), 20, "{truncated:?}");
    }
    let files = Files::new("truncated-list");
    files.write("denied.txt", "203.0.113.7");
    let list = IpList::from_file(files.0.join("denied.txt")).unwrap();
    for truncated in ["", " \n\n", "\u{feff}"] {
        files.write("denied.txt", truncated);
        let error = list.reload().unwrap_err().to_string();
        assert!(
            error.contains("denied.txt: it is empty: write a comment"),
            "{error}"
        );
        assert!(list.contains("203.0.113.7".parse().unwrap()));
    }
    files.write("denied.txt", "# none\n");
    assert!(list.reload().unwrap() && list.is_empty());
}

#[test]
fn last_good_limits_stay() {
    let files = Files::new("good");
    let limiter = files.limiter();
    let reloader = files.reloader(&limiter);
    let path = files.0.join("overrides.yml");
    let bad = [
        (
            "- orders: {burst: 30, count: 10, period: 1s, ids: [9, 07]}",
            ":1: limit `orders`: `07`",
        ),
        ("- orders: {burst: 30", ":1: "),
        (
            "- order: {burst: 1, count: 1, period: 1s, ids: [9]}",
            "did you mean `orders`?",
        ),
    ];
    for (text, message) in bad {
        files.write("overrides.yml", text);
        let error = reloader.reload().unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        assert!(error.contains(message), "{error}");
        assert_eq!(["7", "9"].map(|id| burst(&limiter, id)), [20, 10]);
    }
    fs::remove_file(&path).unwrap();
    let error = reloader.reload().unwrap_err().to_string();
    assert!(error.contains("cannot read it"), "{error}");
    // Neither file is put in force without the other.
    files.write("defaults.yml", &DEFAULTS.replace("burst: 10", "burst: 15"));
    reloader.reload().unwrap_err();
    assert_eq!(["7", "9"].map(|id| burst(&limiter, id)), [20, 10]);
}

#[test]
fn files_that_would_break_a_rule_are_refused() {
    let files = Files::new("rule");
    let limiter = files.limiter();
    let _layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("orders", HeaderId::new("x-account")).cost(8));
    files.write(
        "overrides.yml",
        "- orders: {burst: 7, count: 10, period: 1s, ids: [9]}",
    );
    let error = files.reloader(&limiter).reload().unwrap_err();
    assert!(matches!(error, ReloaderError::Limiter(_)));
    assert!(
        error
            .to_string()
            .contains("cost 8 is above the burst of limit `orders` for `9`, 7")
    );
    assert_eq!(burst(&limiter, "7"), 20);
}

#[test]
fn limit_that_is_removed_is_named_with_its_file() {
    let files = Files::new("removed");
    let limiter = files.limiter();
    let rule = Rule::new("orders", HeaderId::new("x-account"));
    let _layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let reloader = files.reloader(&limiter);
    let defaults = files.0.join("defaults.yml");
    files.write("overrides.yml", "[]");
    files.write("defaults.yml", &DEFAULTS.replace("orders", "order"));
    let expected = format!(
        "limit `orders`, which a rule uses, is no longer in {}: put it back, or write `orders: {{number: 6, id: \
         regId}}` to turn it off (did you mean `order`?)",
        defaults.display()
    );
    assert_eq!(reloader.reload().unwrap_err().to_string(), expected);
    assert_eq!(burst(&limiter, "7"), 20, "what was in force stays");
    // One that is declared in code stays, and loses its values.
    let name = LimitName::new("orders", 6, IdFormat::RegId);
    let declared = || Limits::builder().name(name.clone());
    let recipe = declared().name("others").defaults_file(&defaults);
    files.write("defaults.yml", DEFAULTS);
    let limiter = Limiter::new(recipe.build().unwrap(), MemoryBackend::new());
    let rule = Rule::new("orders", HeaderId::new("x-account"));
    let _layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    files.write("defaults.yml", "others: {}");
    let error = Reloader::new(limiter, recipe).reload().unwrap_err();
    let expected = format!(
        "limit `orders` no longer has values in {}, and a rule uses it",
        defaults.display()
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[test]
fn advice_to_turn_a_removed_limit_off_is_accepted() {
    let files = Files::new("off");
    files.write("overrides.yml", "[]");
    for (fields, id) in [
        ("", "7"),
        ("number: 6", "7"),
        ("id: regId:fqdnSet", "7:example.com"),
        ("number: 6, id: regId", "7"),
    ] {
        let comma = if fields.is_empty() { "" } else { ", " };
        let values = format!("orders: {{{fields}{comma}burst: 10, count: 10, period: 1s}}");
        files.write("defaults.yml", &values);
        let limiter = files.limiter();
        let rule = Rule::new("orders", HeaderId::new("x-account"));
        let _layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        let reloader = files.reloader(&limiter);
        files.write("defaults.yml", "others: {}");
        let error = reloader.reload().unwrap_err().to_string();
        let advice = format!("write `orders: {{{fields}}}` to turn it off");
        assert!(error.contains(&advice), "{error}");
        files.write("defaults.yml", &format!("orders: {{{fields}}}"));
        assert!(reloader.reload().unwrap(), "{fields}");
        let off = limiter.try_spend(&Transaction::new("orders", id));
        assert!(!off.unwrap().unwrap().limited(), "{fields}");
    }
}

/// Whether a list is said to hold an address.
fn lists(list: &IpList, ip: &str) -> bool {
    list.contains(ip.parse().unwrap())
}

#[test]
fn list_is_what_its_file_says() {
    let files = Files::new("list");
    let path = files.0.join("list.txt");
    let text = "\u{feff}# scanners\r\n203.0.113.7\r\n\r\n  2001:db8:bad::/48  # until June\n198.51.100.0/25\n198.51.100.128/25";
    files.write("list.txt", text);
    let list = IpList::from_file(&path).unwrap();
    assert_eq!(list.len(), 3, "two halves are one range");
    for (ip, expected) in [
        ("203.0.113.7", true),
        ("::ffff:203.0.113.7", true),
        ("203.0.113.8", false),
        ("2001:db8:bad:1::1", true),
        ("2001:db8:bae::", false),
        ("198.51.100.200", true),
    ] {
        assert_eq!(lists(&list, ip), expected, "{ip}");
    }
    assert!(!format!("{list:?}").contains("203.0.113"), "{list:?}");
    assert!(!list.reload().unwrap(), "nothing has changed");
    let clone = list.clone();
    files.write("list.txt", "# nobody\n");
    assert!(list.reload().unwrap());
    assert!(clone.is_empty() && !lists(&clone, "203.0.113.7"));
}

#[test]
fn mistake_in_a_list_changes_nothing() {
    let files = Files::new("list-mistake");
    let path = files.0.join("list.txt");
    files.write("list.txt", "203.0.113.7");
    let list = IpList::from_file(&path).unwrap();
    for (text, reason) in [
        (
            "10.0.0.1\n10.0.0.256\n",
            "list.txt:2: `10.0.0.256` is not an address or a range: write",
        ),
        (
            "10.0.0.1/8",
            "list.txt:1: `10.0.0.1/8` has bits set beyond its prefix: write `10.0.0.0/8`",
        ),
        ("a b", "list.txt:1: `a b` is not an address or a range"),
    ] {
        files.write("list.txt", text);
        let error = list.reload().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    fs::write(&path, b"\xff").unwrap();
    let error = list.reload().unwrap_err().to_string();
    assert!(error.contains("list.txt: it is not UTF-8"), "{error}");
    fs::remove_file(&path).unwrap();
    let error = list.reload().unwrap_err().to_string();
    assert!(error.contains("list.txt: cannot read it: "), "{error}");
    assert!(lists(&list, "203.0.113.7"), "those of before stay");
    IpList::from_file(&path).unwrap_err();
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
async fn lists_are_read_again_with_the_limits_and_each_by_itself() {
    let (log, _guard) = Log::capture();
    let files = Files::new("lists");
    files.write("denied.txt", "203.0.113.7");
    files.write("exempt.txt", "# none");
    let [denied, exempt] =
        ["denied.txt", "exempt.txt"].map(|name| IpList::from_file(files.0.join(name)).unwrap());
    let limiter = files.limiter();
    let reloader = files.reloader(&limiter).list(&denied).list(&exempt);
    let running = run(reloader.clone());
    let layer = RateLimitLayer::new(Limit::per_day(1), ClientIp::peer())
        .skip_if(ClientIp::peer().listed_in(&exempt))
        .deny_if("denied", ClientIp::peer().listed_in(&denied));
    let statuses = async |ip| {
        let mut statuses = Vec::new();
        for _ in 0..2 {
            statuses.push(send(&layer, ip).await.status().as_u16());
        }
        statuses
    };
    assert_eq!(statuses("203.0.113.7").await, [403, 403]);
    files.write("denied.txt", "203.0.113.8");
    files.write("exempt.txt", "192.0.2.0/24");
    time::sleep(Duration::from_secs(11)).await;
    assert_eq!(statuses("203.0.113.7").await, [200, 429]);
    assert_eq!(statuses("203.0.113.8").await, [403, 403]);
    assert_eq!(statuses("192.0.2.1").await, [200, 200]);
    assert_eq!(log.count("a list of addresses is reloaded"), 2);
    // A mistake in one keeps neither the other nor the limits back, and is logged once.
    files.write("denied.txt", "203.0.113.9/33");
    files.write("exempt.txt", "# none");
    files.write("overrides.yml", "[]");
    time::sleep(Duration::from_secs(100)).await;
    assert_eq!(statuses("203.0.113.8").await, [403, 403]);
    assert_eq!(statuses("192.0.2.1").await, [200, 429]);
    assert_eq!(burst(&limiter, "7"), 10);
    assert_eq!(
        log.count("denied.txt:1: `203.0.113.9/33` is not an address"),
        1
    );
    let error = reloader.reload().unwrap_err();
    assert!(matches!(error, ReloaderError::List(_)), "{error}");
    running.abort();
}

fn run(reloader: Reloader) -> JoinHandle<()> {
    tokio::spawn(async {
        reloader.run().await;
    })
}

#[tokio::test(start_paused = true)]
async fn files_are_looked_at_again_and_again() {
    let files = Files::new("interval");
    let limiter = files.limiter();
    let running = run(files.reloader(&limiter));
    time::sleep(Duration::from_secs(25)).await;
    files.write("overrides.yml", "[]");
    assert_eq!(burst(&limiter, "7"), 20);
    time::sleep(Duration::from_secs(10)).await;
    assert_eq!(burst(&limiter, "7"), 10);
    files.write("overrides.yml", OVERRIDES);
    time::sleep(Duration::from_secs(10)).await;
    assert_eq!(burst(&limiter, "7"), 20);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn file_that_comes_back_unchanged_is_logged() {
    const BACK: &str = "the files match the limits in force again";
    let (log, _guard) = Log::capture();
    let files = Files::new("back");
    files.write("denied.txt", "203.0.113.7");
    let list = IpList::from_file(files.0.join("denied.txt")).unwrap();
    let limiter = files.limiter();
    let running = run(files.reloader(&limiter).list(&list));
    let (path, away) = ("overrides.yml", "overrides.yml.away");
    for (times, (name, content)) in [(path, OVERRIDES), ("denied.txt", "203.0.113.7")]
        .into_iter()
        .cycle()
        .take(4)
        .enumerate()
    {
        fs::rename(files.0.join(name), files.0.join(away)).unwrap();
        time::sleep(Duration::from_secs(100)).await;
        assert_eq!(log.count("cannot read it"), times + 1, "{log:?}");
        assert_eq!(log.count(BACK), times, "{log:?}");
        files.write(name, content);
        time::sleep(Duration::from_secs(100)).await;
        assert_eq!(log.count(BACK), times + 1, "{log:?}");
    }
    // A refused version that is read again and again is no return.
    files.write(path, "- orders: 5");
    time::sleep(Duration::from_secs(100)).await;
    fs::remove_file(files.0.join(path)).unwrap();
    time::sleep(Duration::from_secs(100)).await;
    files.write(path, "- orders: 5");
    time::sleep(Duration::from_secs(100)).await;
    assert_eq!(log.count(BACK), 4, "{log:?}");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn what_has_changed_is_logged_once() {
    let (log, _guard) = Log::capture();
    let files = Files::new("log");
    let limiter = files.limiter();
    let running = run(files.reloader(&limiter));
    time::sleep(Duration::from_secs(95)).await;
    assert_eq!(log.count("limits"), 0, "nothing has changed");
    files.write("overrides.yml", "- orders: 5");
    time::sleep(Duration::from_secs(100)).await;
    assert_eq!(
        log.count("limits were not reloaded: the current ones stay in force"),
        1
    );
    assert_eq!(log.count("expected a map, found `5`"), 1);
    files.write("overrides.yml", "[]");
    time::sleep(Duration::from_secs(100)).await;
    assert_eq!(log.count("limits were reloaded limits=1 overrides=0"), 1);
    files.write("overrides.yml", "- orders: 5");
    time::sleep(Duration::from_secs(100)).await;
    assert_eq!(
        log.count("limits were not reloaded"),
        2,
        "it is logged again"
    );
    files.write("overrides.yml", "[]");
    time::sleep(Duration::from_secs(100)).await;
    assert_eq!(log.count("the files match the limits in force again"), 1);
    running.abort();
}
