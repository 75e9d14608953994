//! How the dashboard looks, in light and in dark, on a desk and on a phone.

use serde_json::{Value, json};

use super::page::Dashboard;
use crate::scrutiny::{FAINT, NAMELESS};

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
        grounds.push(page.browser.find("body").css_value("background-color"));
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
