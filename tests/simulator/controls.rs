//! What people do with the page.

use crate::page::{Page, Totals};

#[tokio::test]
async fn space_asks_and_a_click_asks() {
    let page = Page::open("").await;
    let body = page.browser.find("body").await;
    body.send_keys(" ").await.unwrap();
    page.browser.wait_until("granted.textContent === '1'").await;
    assert!(
        page.browser
            .text("#last")
            .await
            .contains("granted by tier 0")
    );

    page.browser.click("#ask").await;
    page.browser.wait_until("granted.textContent === '2'").await;
    // Now the button has the focus.
    page.browser
        .find("#ask")
        .await
        .send_keys("\u{e007}")
        .await
        .unwrap();
    page.browser.wait_until("granted.textContent === '3'").await;
    let marks = page
        .browser
        .run("return [...log.querySelectorAll('b')].map((b) => b.textContent).join('')");
    assert_eq!(marks.await, "GGG");
}

#[tokio::test]
async fn space_in_a_field_asks_for_nothing() {
    let page = Page::open("").await;
    page.browser
        .find("#tier-0-limit")
        .await
        .send_keys(" ")
        .await
        .unwrap();
    page.browser.click("#reset").await;
    page.browser.wait_for("body[data-state=idle]").await;
    assert_eq!(page.totals().await.granted, 0);
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
}

#[tokio::test]
async fn malformed_list_counts_as_five_a_second_as_a_whole() {
    let page = Page::open("").await;
    for list in [
        "tiers=",
        "tiers=9,9,9",
        "tiers=9,9,9,9,9",
        "tiers=9,9,9,x",
        "tiers=9,9,9,-1",
        "tiers=9,9,9,1.5",
        "tiers=9,9,9,%209",
        "tiers=9,9,9,99999999999",
        "tiers=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
        "gcra=1,2",
    ] {
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
