//! What people do with the page.

use crate::page::{Page, Totals};

#[tokio::test]
async fn click_and_space_ask_but_space_in_a_field_does_not() {
    let page = Page::open("?tiers=90,60,60,0").await;
    let field = page.browser.find("#tier-0-limit").await;
    field.send_keys(" ").await.unwrap();
    let body = page.browser.find("body").await;
    body.send_keys(" ").await.unwrap();
    page.browser
        .wait_until("Number(granted.textContent) > 0")
        .await;
    let last = page.browser.text("#last").await;
    assert!(last.contains("granted by tier 0"), "{last}");
    let first = page.browser.text("#log li:last-child").await;
    assert!(
        first.starts_with("G\n0.000 s"),
        "the field's asked for nothing: {first}"
    );

    // A slow machine may hold the button so long that it asks again.
    let before = page.totals().await.granted;
    page.browser.click("#ask").await;
    page.browser
        .wait_until(&format!("Number(granted.textContent) > {before}"))
        .await;
    // Now the button has the focus.
    let before = page.totals().await.granted;
    let button = page.browser.find("#ask").await;
    button.send_keys("\u{e007}").await.unwrap();
    page.browser
        .wait_until(&format!("Number(granted.textContent) > {before}"))
        .await;
    let marks = "return log.children.length === Number(granted.textContent)";
    assert_eq!(page.browser.run(marks).await, true);
}

#[tokio::test]
async fn held_button_asks_again_and_again_until_it_is_rejected() {
    let page = Page::open("?tiers=2,30,30,30&gcra=1,1,30").await;
    page.browser
        .run("ask.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
        .await;
    page.browser
        .wait_until("Number(rejected.textContent) > 1")
        .await;
    page.browser
        .run("ask.dispatchEvent(new PointerEvent('pointerup', {bubbles: true}))")
        .await;
    let Totals {
        granted,
        gcra_granted,
        ..
    } = page.totals().await;
    assert_eq!((granted, gcra_granted), (2, 1));
    let last = page.browser.text("#last").await;
    assert!(
        last.contains("rejected, tier 0 is full; granted in "),
        "{last}"
    );
}

#[tokio::test]
async fn configuration_is_in_the_address_and_comes_back_from_it() {
    let page = Page::open("?tiers=5,1,1,0").await;
    page.choose("count", "2").await;
    page.browser.wait_for("#tier-1-cooldown").await;
    page.fill("tier-1-cooldown", "42").await;
    page.fill("gcra-burst", "7").await;
    page.browser
        .wait_until("location.search.endsWith('gcra=7,5,1')")
        .await;
    let query = page.query().await;
    assert_eq!(query, "tiers=5,1,1,0,50,5,5,42&gcra=7,5,1");

    page.go("").await;
    assert_eq!(page.query().await, "tiers=5,1,1,0&gcra=5,5,1");
    page.go(&format!("?{query}")).await;
    assert_eq!(page.query().await, query);
    assert_eq!(page.field("tier-1-cooldown").await, "42");
    assert_eq!(page.field("gcra-burst").await, "7");

    // A list that is malformed counts as a whole as five a second.
    for list in ["tiers=9,9,9", "tiers=9,9,9,x&gcra=1,2"] {
        page.go(&format!("?{list}")).await;
        assert_eq!(page.query().await, "tiers=5,1,1,0&gcra=5,5,1", "{list}");
    }
}

#[tokio::test]
async fn parameters_that_make_no_sense_are_told_in_the_words_of_the_crate() {
    let page = Page::open("").await;
    page.fill("tier-0-limit", "0").await;
    page.browser.wait_for("#error:not([hidden])").await;
    let error = page.browser.text("#error").await;
    assert!(
        error.starts_with("tier 0: limit is 0, so no request"),
        "{error}"
    );

    page.fill("tier-0-limit", "6").await;
    page.browser.wait_for("#error[hidden]").await;
    page.fill("gcra-period", "0").await;
    page.browser.wait_for("#error:not([hidden])").await;
    let error = page.browser.text("#error").await;
    assert!(error.starts_with("GCRA: period is 0"), "{error}");

    // It can be mended too if it comes from the address.
    let url = format!("{}/?tiers=5,1,0,0", page.server.url());
    page.browser.open(&url).await;
    page.browser.wait_for("#error:not([hidden])").await;
    let error = page.browser.text("#error").await;
    assert!(error.starts_with("tier 0: active is 0"), "{error}");
    page.fill("tier-0-active", "3").await;
    page.browser.wait_for("#error[hidden]").await;
    assert_eq!(page.query().await, "tiers=5,1,3,0&gcra=5,5,1");
}
