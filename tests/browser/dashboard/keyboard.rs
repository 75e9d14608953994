//! Everything without a mouse.

use super::page::{Dashboard, TOKEN};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// Presses Tab until an element has the focus, which must be seen.
#[track_caller]
fn tab_to(page: &Dashboard, selector: &str) {
    for _ in 0..60 {
        page.browser.type_keys(TAB);
        let focused = format!("return document.activeElement.matches(\"{selector}\")");
        if page.browser.run(&focused) == true {
            let seen = "const one = document.activeElement;
                return [one, one.nextElementSibling ?? one].some((node) => getComputedStyle(node).outlineStyle === 'solid')";
            assert_eq!(page.browser.run(seen), true, "{selector}");
            return;
        }
    }
    panic!("Tab never leads to {selector}");
}

#[test]
fn keys_alone_sign_in_look_up_and_reset() {
    let page = Dashboard::locked(&[]);
    page.servers.deny_exports(2, "alice");
    page.browser.type_keys(&format!("{TOKEN}{ENTER}"));
    page.browser.wait_for("body[data-state=open]");
    page.wait_for_clients(1);
    tab_to(&page, "#show-ids");
    page.browser.type_keys(" ");
    page.browser.wait_for("#clients button");
    tab_to(&page, "#clients button");
    page.browser.type_keys(ENTER);
    page.wait_for_text("#found-key", "exports:alice");
    tab_to(&page, "#reset");
    page.browser.type_keys(ENTER);
    page.browser.wait_for("#cancel:focus");
    page.browser.type_keys("\u{e008}\u{e004}\u{e000}");
    page.browser.wait_for("#confirm:focus");
    page.browser.type_keys(ENTER);
    page.wait_for_text("#done", "Reset exports:alice.");
    page.browser.wait_for("#reset:focus");
    assert_eq!(page.servers.ask(5, "/export", "alice"), (5, 0));

    tab_to(&page, "#id");
    page.browser
        .type_keys(&format!("\u{e009}a\u{e000}bob{ENTER}"));
    page.wait_for_text("#found-key", "exports:bob");
    tab_to(&page, "#leave");
    page.browser.type_keys(ENTER);
    page.browser.wait_for("body[data-state=locked]");
}
