//! The last refusals, with the buckets then and now.

use serde_json::Value;

use super::page::Dashboard;

impl Dashboard {
    /// The reference of the refusal that the list shows first.
    fn first_reference(&self) -> String {
        self.browser
            .wait_until("document.querySelector('#refusals code')");
        self.content("#refusals code")
    }

    fn find(&self, sought: &str) {
        self.set("sought", sought);
        // Not by the pointer: the page may still be scrolling to its refusals.
        self.browser
            .run("document.querySelector('#find button').click()");
    }

    fn wait_for_rows(&self, rows: usize) {
        self.browser.wait_until(&format!(
            "document.querySelectorAll('#refusals tr').length === {rows}"
        ));
    }
}

#[test]
fn refusal_is_shown_with_its_bucket_then_and_now() {
    let page = Dashboard::open();
    page.servers.deny_exports(1, "alice");
    let reference = page.first_reference();
    let html = page
        .browser
        .run("return document.documentElement.outerHTML");
    assert!(!html.as_str().unwrap().contains("alice"));
    assert!(!page.servers.get("/figures").body.contains("alice"));

    page.browser.click("#refusals button");
    page.wait_for_text("#refusal-id", &reference);
    let facts = page.content("#refusal-charges");
    for fact in [
        "exports",
        "alice",
        "5 per 24h0m0s, 5 at once",
        "bucket then0 left",
    ] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    let kept = page.servers.get(&format!("/inspect/refusals/{reference}"));
    let kept: Value = kept.json();
    assert_eq!(kept["path"], "/export");
    let authorization = format!("authorization: Bearer {}\r\n", super::page::TOKEN);
    let reset = "DELETE /inspect/buckets/exports/alice";
    let page_server = &page.servers.page;
    let reset = page_server.request(reset, authorization.as_bytes(), b"");
    assert_eq!(reset.status, 200);
    page.find(&reference.to_uppercase());
    page.browser.wait_until(
        "document.getElementById('refusal-charges').textContent.includes('bucket now5 left')",
    );
}

#[test]
fn client_leads_to_its_refusals() {
    let page = Dashboard::open();
    page.servers.deny_exports(2, "alice");
    page.servers.deny_exports(3, "bob");
    page.browser.click("#show-ids");
    page.wait_for_clients(2);
    page.wait_for_rows(5);
    page.browser
        .wait_until("document.querySelector('#clients a')");
    // Bob is denied most.
    page.browser.click("#clients a");
    page.wait_for_rows(3);
    page.find("alice");
    page.wait_for_rows(2);
    page.find("nobody");
    page.wait_for_rows(0);
    assert!(page.shows("#refusals-hint"));
    page.browser.click("#all-refusals");
    page.wait_for_rows(5);
    // Nothing stays after signing out.
    page.find("alice");
    page.wait_for_rows(2);
    page.browser.click("#leave");
    page.browser.wait_for("body[data-state=locked]");
    let html = page
        .browser
        .run("return document.documentElement.outerHTML");
    assert!(!html.as_str().unwrap().contains("alice"));
}
