//! Users can control the page.

use crate::page::{Page, Totals};

#[test]
fn click_and_space_ask_but_space_in_a_field_does_not() {
    let page = Page::open("?tiers=90,60,60,0");
    page.browser.type_into("#tier-0-limit", " ");
    page.browser.type_into("body", " ");
    page.browser.wait_until("Number(granted.textContent) > 0");
    let last = page.browser.text("#last");
    assert!(last.contains("granted by tier 0"), "{last}");
    let first = page.browser.text("#log li:last-child");
    assert!(
        first.starts_with("G\n0.000 s"),
        "the field's asked for nothing: {first}"
    );

    // A slow machine may hold the button so long that it asks again.
    let before = page.totals().granted;
    page.browser.click("#ask");
    page.browser
        .wait_until(&format!("Number(granted.textContent) > {before}"));
    // Now the button has the focus.
    let before = page.totals().granted;
    page.browser.type_into("#ask", "\u{e007}");
    page.browser
        .wait_until(&format!("Number(granted.textContent) > {before}"));
    let marks = "return log.children.length === Number(granted.textContent)";
    assert_eq!(page.browser.run(marks), true);
}

#[test]
fn held_button_asks_again_and_again_until_it_is_rejected() {
    let page = Page::open(
        "?tiers=2,3000,3000,3000&gcra=1,1,3000&window=3,3000&quota=4,3000&concurrent=3,3000",
    );
    page.browser
        .run("ask.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))");
    let quota = "Number(document.getElementById('quota-rejected').textContent) > 1";
    page.browser.wait_until(quota);
    page.browser
        .run("ask.dispatchEvent(new PointerEvent('pointerup', {bubbles: true}))");
    let Totals { granted, plain, .. } = page.totals();
    assert_eq!(granted, 2);
    let granted = ["gcra", "window", "quota", "concurrent"].map(|limit| plain[limit][0]);
    assert_eq!(granted, [1, 3, 4, 3]);
    let last = page.browser.text("#last");
    assert!(
        last.contains("rejected, tier 0 is full; granted in "),
        "{last}"
    );
    for limit in ["GCRA", "Window", "Quota"] {
        let rejected = format!("{limit}: rejected, granted in ");
        assert!(last.contains(&rejected), "{last}");
    }
    let rejected = "At once: rejected, granted once a permit is back.";
    assert!(last.contains(rejected), "{last}");
    let marks = page.browser.text("#log li:first-child");
    assert!(marks.ends_with("R\nR\nR\nR"), "{marks}");
}

#[test]
fn configuration_is_kept_in_the_address_of_the_page() {
    let page = Page::open("?tiers=5,1,1,0");
    page.choose("count", "2");
    page.browser.wait_for("#tier-1-cooldown");
    page.fill("tier-1-cooldown", "42");
    page.fill("gcra-burst", "7");
    page.fill("window-limit", "8");
    page.fill("quota-period", "9");
    page.fill("concurrent-work", "6");
    page.browser
        .wait_until("location.search.endsWith('concurrent=5,6')");
    let query = page.query();
    assert_eq!(
        query,
        "tiers=5,1,1,0,50,5,5,42&gcra=7,5,1&window=8,1&quota=5,9&concurrent=5,6"
    );

    page.go("");
    assert_eq!(
        page.query(),
        "tiers=5,1,1,0&gcra=5,5,1&window=5,1&quota=5,1&concurrent=5,1"
    );
    page.go(&format!("?{query}"));
    assert_eq!(page.query(), query);
    for (field, value) in [
        ("tier-1-cooldown", "42"),
        ("gcra-burst", "7"),
        ("window-limit", "8"),
        ("quota-period", "9"),
        ("concurrent-work", "6"),
    ] {
        assert_eq!(page.field(field), value, "{field}");
    }
    assert_eq!(page.browser.text("#window-rate"), "8 in any 1 s");
    assert_eq!(page.browser.text("#quota-left"), "5 of 5");
    let rate = page.browser.text("#concurrent-rate");
    assert_eq!(rate, "5 at once, each for 6 s");
}

/// Waits for an error on the page, and returns it.
fn error(page: &Page) -> String {
    page.browser.wait_for("#error:not([hidden])");
    page.browser.text("#error")
}

#[test]
fn invalid_parameters_show_the_error_of_the_crate() {
    let page = Page::open("");
    for (field, wrong, right, algorithm, expected) in [
        (
            "tier-0-limit",
            "0",
            "6",
            "tiers",
            "limit is 0, so no request",
        ),
        ("gcra-period", "0", "1", "GCRA", "period is 0"),
        ("window-limit", "4097", "5", "window", "limit is above 4096"),
        ("quota-quota", "0", "5", "quota", "quota is 0"),
        ("quota-period", "0", "1", "quota", "per is 0"),
        (
            "concurrent-limit",
            "0",
            "5",
            "concurrency",
            "concurrent is 0",
        ),
    ] {
        page.fill(field, wrong);
        let error = error(&page);
        let of_it = error.starts_with(&format!("{algorithm}: "));
        assert!(of_it && error.contains(expected), "{error}");
        page.fill(field, right);
        page.browser.wait_for("#error[hidden]");
    }

    // It can be mended too if it comes from the address.
    let url = format!("{}/?tiers=5,1,0,0", page.server.url());
    page.browser.open(&url);
    let error = error(&page);
    assert!(error.starts_with("tiers: tier 0: active is 0"), "{error}");
    page.fill("tier-0-active", "3");
    page.browser.wait_for("#error[hidden]");
    assert_eq!(
        page.query(),
        "tiers=5,1,3,0&gcra=5,5,1&window=5,1&quota=5,1&concurrent=5,1"
    );
}
