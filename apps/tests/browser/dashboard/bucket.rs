//! Looking up a bucket, and resetting it.

use super::page::Dashboard;

#[test]
fn reset_fills_one_bucket_after_a_confirmation() {
    let page = Dashboard::open();
    for account in ["carol", "dave"] {
        page.servers.deny_exports(1, account);
    }
    assert_eq!(page.look_up("exports", "carol").unwrap(), "exports:carol");
    assert_eq!(page.content("#found-state"), "would be denied");
    let facts = page.content("#facts");
    assert!(facts.contains("0 of 5"), "{facts}");
    assert!(facts.contains("passes in"), "{facts}");

    page.browser.click("#reset");
    page.browser.wait_for("#cancel:focus");
    page.browser.click("#cancel");
    page.browser.wait_for("#reset:focus");
    assert_eq!(page.servers.ask(1, "/export", "carol"), (0, 1), "kept");

    page.browser.click("#reset");
    page.browser.click("#confirm");
    page.wait_for_text("#done", "Reset exports:carol.");
    assert_eq!(page.content("#found-state"), "would pass");
    let facts = page.content("#facts");
    assert!(facts.contains("5 of 5"), "{facts}");
    assert_eq!(page.servers.ask(6, "/export", "carol"), (5, 1));
    assert_eq!(
        page.servers.ask(1, "/export", "dave"),
        (0, 1),
        "another client"
    );
}

#[test]
fn clients_with_and_without_an_override_are_shown() {
    let page = Dashboard::open();
    page.look_up("requests", "spammer").unwrap();
    let facts = page.content("#facts");
    assert_eq!(page.content("#found-state"), "would be denied");
    assert!(
        facts.contains("never passes") && facts.contains("overridespammer"),
        "{facts}"
    );
    page.look_up("requests", "partner").unwrap();
    let facts = page.content("#facts");
    assert!(facts.contains("50 of 50"), "{facts}");
    page.look_up("searches", "nobody-yet").unwrap();
    let facts = page.content("#facts");
    assert!(
        facts.contains("in shadow mode") && facts.contains("10 of 10"),
        "{facts}"
    );
}

const IDS: [&str; 18] = [
    "a/b//c",
    "/",
    "//",
    "../..",
    "a/../b",
    "%2e%2e",
    "100%",
    "%",
    "%zz",
    "a?b#c",
    "a:b",
    " ",
    "ä 😀",
    "\u{7}",
    "\u{202e}abc",
    "null",
    "__proto__",
    "' or 1=1",
];

#[test]
fn any_id_is_found_or_refused_with_a_reason() {
    let page = Dashboard::open();
    let long = "x".repeat(4000);
    for id in IDS.into_iter().chain([&*long]) {
        let key = page.look_up("exports", id).expect(id);
        assert_eq!(key, format!("exports:{id}"));
    }
    for id in [".", ".."] {
        let error = page.look_up("exports", id).unwrap_err();
        assert!(error.contains("--path-as-is"), "{error}");
        assert!(!page.shows("#found"));
    }
    let huge = "x".repeat(200_000);
    let error = page.look_up("exports", &huge).unwrap_err();
    assert!(!error.is_empty());
    // An empty field is not sent.
    page.set("id", "");
    page.browser.click("#lookup button");
    let is_missing = "return document.getElementById('id').validity.valueMissing";
    assert_eq!(page.browser.run(is_missing), true);
    assert_eq!(page.look_up("exports", "fine").unwrap(), "exports:fine");
    assert!(!page.shows("#bucket-error"));
}
