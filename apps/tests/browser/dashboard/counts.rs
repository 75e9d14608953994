//! The page counts what the server has answered.

use super::page::Dashboard;

fn row(limit: &str, figure: &str) -> String {
    format!("[data-limit={limit}] dd.{figure}")
}

#[test]
fn decisions_are_counted_for_each_limit() {
    let page = Dashboard::open();
    page.wait_for_text(&row("requests", "allowed"), "0");
    let (allowed, denied) = page.servers.ask(40, "/", "alice");
    assert_eq!(page.servers.ask(3, "/", "spammer"), (0, 3));
    page.servers.deny_exports(4, "bob");
    // Bob's denied exports were charged to neither limit.
    page.wait_for_text(&row("requests", "allowed"), &(allowed + 5).to_string());
    page.wait_for_text(&row("requests", "denied"), &(denied + 3).to_string());
    page.wait_for_text(&row("exports", "allowed"), "5");
    page.wait_for_text(&row("exports", "denied"), "4");
    page.wait_for_text("#allowed", &(allowed + 10).to_string());
    page.wait_for_text("#denied", &(denied + 7).to_string());
    page.wait_for_text(&row("searches", "allowed"), "0");
    let about = page.content("[data-limit=requests] .about");
    assert!(about.contains("60 per minute, 30 at once"), "{about}");
    assert!(about.contains("2 overrides"), "{about}");
}

#[test]
fn shadow_mode_counts_what_would_be_denied() {
    let page = Dashboard::open();
    // The window admits ten in a minute. A slow machine may take longer, and then fewer would be denied.
    let responses = page
        .servers
        .app
        .get_often(25, "/search", &[("x-account", "alice")]);
    let allowed = responses.iter().filter(|one| one.status == 200).count();
    assert_eq!(allowed, 25);
    page.wait_for_text(&row("searches", "allowed"), "25");
    page.wait_for_text(&row("searches", "denied"), "0");
    let figures = page.servers.get("/figures").json();
    let limits = figures["limits"].as_array().unwrap();
    let searches = limits
        .iter()
        .find(|limit| limit["name"] == "searches")
        .unwrap();
    let would_be_denied = searches["shadow_denied"].as_u64().unwrap();
    assert!(would_be_denied <= 15, "{searches}");
    assert!(page.shows("[data-limit=searches] .pill"));
    let about = page.content("[data-limit=searches] .about");
    let note = format!("{would_be_denied} would be denied");
    assert_eq!(about.contains(&note), would_be_denied > 0, "{about}");
}

#[test]
fn seconds_add_up_to_the_totals() {
    let page = Dashboard::open();
    // A reading before the requests, and one after them.
    page.browser.wait_until(
        "fetch('figures', {headers: {authorization: `Bearer ${sessionStorage.token}`}})
            .then((answer) => answer.json()).then(({limits}) => limits[0].seconds.length > 0)",
    );
    page.servers.ask(12, "/", "partner");
    page.browser.wait_until(
        "Number(document.querySelector('[data-limit=requests] dd.allowed').textContent) === 12",
    );
    let sum = || {
        let figures = page.servers.get("/figures").json();
        let limits = figures["limits"].as_array().unwrap().clone();
        let requests = limits
            .iter()
            .find(|limit| limit["name"] == "requests")
            .unwrap()
            .clone();
        let seconds = requests["seconds"].as_array().unwrap().clone();
        seconds
            .iter()
            .map(|second| second[0].as_u64().unwrap())
            .sum::<u64>()
    };
    crate::eventually::eventually("the sum of seconds", || sum() == 12);
    let bars = "const canvas = document.querySelector('[data-limit=requests] canvas');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.some((part) => part > 0)";
    assert_eq!(page.browser.run(bars), true);
}

#[test]
fn paused_page_stands_still() {
    let page = Dashboard::open();
    let watched = "window.timers = 0;
        const set = window.setTimeout;
        window.setTimeout = (...args) => { timers += 1; return set(...args); };
        pause.click()";
    page.browser.run(watched);
    page.wait_for_text("#connection", "paused");
    assert_eq!(page.browser.run("return timers"), 0, "nothing asks again");
    page.browser.wait_for("#pause[aria-pressed=true]");
    page.servers.deny_exports(1, "alice");
    assert_eq!(page.content("#denied"), "0");
    assert_eq!(page.content("#allowed"), "0");
    page.browser.click("#pause");
    page.wait_for_text("#denied", "1");
    page.wait_for_text("#connection", "live");
}
