//! How the dashboard looks, in light and in dark, on a desk and on a phone, and how it works without a mouse.

use serde_json::{Value, json};

use super::page::{Dashboard, TOKEN};
use crate::browser::{FAINT, GROUND, NAMELESS};

#[test]
fn dashboard_is_drawn_in_light_and_in_dark_at_any_width() {
    let page = Dashboard::open_with(&[("IMITATE_CLIENTS", "1")]);
    page.servers.deny_exports(
        9,
        "an-account-with-an-id-that-is-longer-than-a-phone-is-wide-0123456789",
    );
    page.browser.click("#show-ids");
    page.browser
        .wait_until("document.querySelectorAll('#clients button').length > 1");
    page.look_up("requests", "spammer").unwrap();
    page.browser.click("#reset");
    let mut grounds = Vec::new();
    for (scheme, device, (width, height, ratio)) in [
        ("light", "desk", (1280, 1350, 1)),
        ("dark", "desk", (1280, 1350, 1)),
        ("light", "tablet", (800, 1800, 1)),
        ("light", "phone", (360, 2600, 2)),
        ("dark", "phone", (360, 2600, 2)),
    ] {
        page.browser.screen(width, height, ratio);
        page.browser.prefer("prefers-color-scheme", scheme);
        let across = page
            .browser
            .run("return document.documentElement.scrollWidth");
        let across = across.as_u64().unwrap();
        assert!(across <= width.into(), "{across} on a {device} of {width}");
        assert_eq!(page.browser.run(FAINT), json!([]), "{scheme}, {device}");
        assert_eq!(page.browser.run(NAMELESS), json!([]), "{scheme}, {device}");
        page.browser.wait_until(&format!(
            "document.querySelector('.limit canvas').width
                === document.querySelector('.limit canvas').clientWidth * {ratio}"
        ));
        grounds.push(page.browser.run(GROUND));
        page.browser
            .screenshot(&format!("dashboard-{device}-{scheme}"));
    }
    assert_ne!(grounds[0], grounds[1], "dark is another colour");
    assert_eq!(page.browser.complaints(), [] as [Value; 0]);
}

#[test]
fn gate_is_drawn_in_light_and_in_dark() {
    let page = Dashboard::locked(&[]);
    for scheme in ["light", "dark"] {
        page.browser.prefer("prefers-color-scheme", scheme);
        assert_eq!(page.browser.run(FAINT), json!([]), "{scheme}");
        assert_eq!(page.browser.run(NAMELESS), json!([]), "{scheme}");
        page.browser.screenshot(&format!("dashboard-gate-{scheme}"));
    }
}

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

/// Presses Tab until an element has the focus, which must be visible.
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
