//! The looks of the page: dimmed parts, in light and in dark, on a desk and on a phone.

use serde_json::{Value, json};

use crate::{
    browser::{FAINT, GROUND, NAMELESS},
    page::Page,
};

const PENALTIES: &str = "?tiers=5,1,30,0,50,5,5,15&gcra=50,5,1";

#[test]
fn tier_below_an_active_one_is_marked_with_and_without_motion() {
    // Tiers that outlast the test, however slow the browser is.
    let page = Page::open("?tiers=1,3000,3000,0,5,3000,3000,0");
    let lowest = ".lane[data-tier='0']";
    page.ask();
    page.browser
        .wait_for(&format!("{lowest}[data-phase=active][data-shadowed=false]"));
    page.ask();
    page.browser
        .wait_for(&format!("{lowest}[data-shadowed=true]"));
    page.browser
        .wait_for(".lane[data-tier='1'][data-phase=active][data-shadowed=false]");
    assert_eq!(page.browser.text(&format!("{lowest} .phase")), "shadowed");
    assert!(page.browser.text("#last").contains("bursts into tier 1"));
    page.browser.wait_until("Number(getComputedStyle(document.querySelector('[data-shadowed=true] .about')).opacity) < 1");

    page.browser.prefer("prefers-reduced-motion", "reduce");
    page.browser.click("#reset");
    page.browser
        .wait_for(&format!("{lowest}[data-shadowed=false]"));
    page.go("?tiers=1,1,1,0");
    page.choose("speed", "20");
    page.ask();
    page.browser.wait_for("body[data-state=idle]");
    assert_eq!(page.totals().granted, 1);
    for limit in ["gcra", "window", "quota", "concurrent"] {
        let left = page.browser.text(&format!("#{limit}-left"));
        assert_eq!(left, "5 of 5", "{limit}");
    }
}

#[test]
fn timeline_moves_while_the_clock_runs_and_stands_still_while_it_does_not() {
    // The lowest tier keeps the clock running until it is paused, however slow the browser is.
    let page = Page::open("?tiers=5,1,3000,0,50,5,5,15&gcra=50,5,1");
    page.browser.screen(1280, 1100, 1);
    page.choose("speed", "5");
    page.ask();
    page.browser
        .run("window.first = asked.toDataURL(); for (let i = 0; i < 9; i += 1) ask.click()");
    page.browser
        .wait_until("parseFloat(clock.textContent) > 3 && asked.toDataURL() !== first");
    page.browser.screenshot("simulator-live");
    page.browser.click("#pause");
    page.browser.wait_for("body[data-state=paused]");
    let clock = page.browser.text("#clock");
    let frames =
        "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";
    page.browser.run(frames);
    assert_eq!(page.browser.text("#clock"), clock);
    // A request goes on with it.
    page.ask();
    page.browser.wait_for("body[data-state=running]");
    page.browser.wait_until("granted.textContent === '11'");
}

#[test]
fn page_is_drawn_in_light_and_in_dark_at_any_width_and_operable_without_a_mouse() {
    let page = Page::open(PENALTIES);
    let mut grounds = Vec::new();
    for (scheme, device, (width, height, ratio)) in [
        ("light", "desk", (1280, 1650, 1)),
        ("dark", "desk", (1280, 1650, 1)),
        ("light", "phone", (360, 1250, 2)),
        ("dark", "phone", (360, 2500, 2)),
    ] {
        page.browser.screen(width, height, ratio);
        page.browser.prefer("prefers-color-scheme", scheme);
        page.play("bursts", "all");
        let across = "return document.documentElement.scrollWidth";
        let across = page.browser.run(across).as_u64().unwrap();
        assert!(across <= width.into(), "{across} on a {device} of {width}");
        assert_eq!(page.browser.run(FAINT), json!([]), "{scheme}, {device}");
        let pixels = "return document.querySelector('.lane canvas').width / document.querySelector('.lane canvas').clientWidth";
        assert_eq!(page.browser.run(pixels), ratio);
        grounds.push(page.browser.run(GROUND));
        page.browser
            .screenshot(&format!("simulator-{device}-{scheme}"));
    }
    assert_ne!(grounds[0], grounds[1], "dark is another colour");
    assert_eq!(page.browser.run(NAMELESS), json!([]));
    page.browser.type_into("body", "\u{e004}");
    let outline = "return getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(page.browser.run(outline), "solid");
    assert_eq!(page.browser.complaints(), [] as [Value; 0]);
}
