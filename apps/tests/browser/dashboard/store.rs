//! The page while the store, or the server, is away.

use super::page::Dashboard;
use crate::{eventually::eventually, redis_support::Server as Redis};

/// Holds the answers about buckets back.
const HOLD: &str = r"
    window.held = [];
    window.direct = window.fetch;
    window.fetch = async (path, options) => {
        const answer = await direct(path, options);
        const isHeld = options.method === 'GET' && path.startsWith('inspect/');
        if (isHeld) await new Promise((release) => held.push(release));
        return answer;
    };
";

/// Sends them, and waits until the page shows them.
const RELEASE: &str = r"
    window.fetch = direct;
    held.forEach((release) => release());
    const frame = () => new Promise(requestAnimationFrame);
    return (async () => { for (let frames = 0; frames < 20; frames += 1) await frame(); })();
";

#[test]
fn outage_of_the_store_is_shown_until_it_is_over() {
    let redis = Redis::start();
    // A deadline that no machine misses: only the outage opens the breaker.
    let page = Dashboard::open_with(&[("REDIS_URL", &redis.url()), ("DEADLINE_MS", "20000")]);
    let states = |state: &str| {
        // The breaker opens and closes by requests.
        eventually(state, || {
            page.servers.app.get("/", &[("x-account", "partner")]);
            page.content("#store-state") == state
        });
    };
    states("up");
    assert_eq!(page.content("#store-sub"), "shared by all servers");
    assert!(!page.shows("#outage"));
    page.servers.deny_exports(1, "alice");

    redis.kill();
    states("down");
    page.browser.wait_for("#outage:not([hidden])");
    assert!(
        page.content("#store")
            .contains("open: the store is not asked")
    );
    page.look_up("exports", "alice").unwrap();
    let facts = page.content("#facts");
    assert!(facts.contains("this server alone"), "{facts}");
    // The page looks at the bucket again and again. One answer arrives after that to the reset.
    page.browser.run(HOLD);
    page.browser.wait_until("window.held.length > 0");
    page.browser.click("#reset");
    page.browser.click("#confirm");
    page.browser.wait_for("#bucket-error:not([hidden])");
    page.browser.run(RELEASE);
    let error = page.content("#bucket-error");
    assert!(
        error.contains("the rate limit store is unavailable"),
        "{error}"
    );
    assert_eq!(page.content("#done"), "");

    redis.restart();
    states("up");
    assert!(!page.shows("#outage"));
    assert!(page.content("#store").contains("closed: the store answers"));
    page.look_up("exports", "alice").unwrap();
    assert!(!page.content("#facts").contains("this server alone"));
}

#[test]
fn memory_shows_its_buckets_and_their_cap() {
    let page = Dashboard::open();
    // A token bucket and a window.
    page.servers.ask(1, "/search", "alice");
    page.browser
        .wait_until("document.getElementById('store').textContent.includes('buckets2room')");
    let store = page.content("#store");
    assert!(
        store.contains("roomat most 1,") && store.contains(" buckets"),
        "{store}"
    );
    assert!(store.contains("evicted0"), "{store}");
    assert!(!store.contains("breaker"), "{store}");
}

#[test]
fn page_shows_that_its_server_does_not_answer() {
    let page = Dashboard::open();
    page.wait_for_text("#connection", "live");
    let Dashboard { browser, servers } = page;
    drop(servers);
    browser.wait_until("document.getElementById('connection').textContent === 'no answer'");
    browser.wait_for("#connection[data-kind=bad]");
}
