//! The counts of the page equal the decisions of the arithmetic.

use crate::page::{Config, Page, Totals};

struct Preset {
    name: &'static str,
    config: Config,
    /// Whether the tiers grant four requests a second.
    is_generous: bool,
}

const PRESETS: [Preset; 6] = [
    Preset {
        name: "Simple",
        config: Config {
            tiers: &[[5, 1, 1, 0]],
            gcra: [5, 5, 1],
            window: [5, 1],
            quota: [5, 1],
            concurrent: [5, 1],
        },
        is_generous: true,
    },
    Preset {
        name: "Penalties",
        config: Config {
            tiers: &[[5, 1, 1, 0], [50, 5, 5, 15]],
            gcra: [50, 5, 1],
            window: [50, 10],
            quota: [50, 10],
            concurrent: [5, 1],
        },
        is_generous: true,
    },
    Preset {
        name: "Punishment",
        config: Config {
            tiers: &[[5, 1, 1, 0], [1, 15, 15, 0]],
            gcra: [5, 5, 1],
            window: [75, 15],
            quota: [75, 15],
            concurrent: [5, 1],
        },
        is_generous: true,
    },
    Preset {
        name: "Batch",
        config: Config {
            tiers: &[[50, 15, 15, 30]],
            gcra: [50, 50, 45],
            window: [50, 45],
            quota: [50, 45],
            concurrent: [5, 5],
        },
        is_generous: false,
    },
    Preset {
        name: "Hard numbers",
        config: Config {
            tiers: &[[5, 15, 15, 0]],
            gcra: [5, 5, 15],
            window: [5, 15],
            quota: [5, 15],
            concurrent: [5, 15],
        },
        is_generous: false,
    },
    Preset {
        name: "Slow work",
        config: Config {
            tiers: &[[5, 1, 1, 0]],
            gcra: [5, 5, 1],
            window: [5, 1],
            quota: [5, 1],
            concurrent: [5, 5],
        },
        is_generous: true,
    },
];

#[test]
fn patterns_on_presets_are_granted_what_the_arithmetic_grants() {
    let page = Page::open("");
    let links = page
        .browser
        .run("return document.querySelectorAll('.presets a').length");
    assert_eq!(links, PRESETS.len());
    let patterns = ["steady", "busy", "bursts", "nightly"];
    for ((nth, preset), pattern) in PRESETS.iter().enumerate().zip(patterns.iter().cycle()) {
        let name = preset.name;
        let link = format!(".presets a:nth-child({})", nth + 1);
        assert!(page.browser.text(&link).starts_with(name), "{name}");
        page.browser.click(&link);
        page.browser.wait_for(&format!("{link}[aria-current]"));
        page.play(pattern, "all");
        let expected = Totals::of(&preset.config, &page.pattern(pattern));
        assert_eq!(page.totals(), expected, "{name}, {pattern}");
        assert!(expected.granted > 0, "{name}, {pattern}");
        let is_polite = *pattern == "steady" && preset.is_generous;
        assert_eq!(expected.rejected == 0, is_polite, "{name}, {pattern}");
    }
}

#[test]
fn known_plays_have_known_totals_at_any_speed() {
    let page = Page::open("?tiers=5,1,1,0,50,5,5,15&gcra=50,5,1");
    page.play("bursts", "all");
    let burst = page.totals();
    // The upper tier is active up to 5.4 s and from 20.48 s to 25.48 s: for all of a burst, or a part of it.
    let bursts = [12, 6 + 5, 5, 5, 5 + 6, 7 + 5, 5];
    assert_eq!(burst.granted, bursts.iter().sum::<usize>());
    assert_eq!(burst.rejected, 7 * 12 - burst.granted);

    page.go("?tiers=50,15,15,30");
    page.play("nightly", "all");
    let nights = page.totals();
    assert_eq!((nights.granted, nights.rejected), (100, 20));

    page.go("?tiers=5,1,1,0,1,15,15,0");
    page.play("bursts", "all");
    let prison = page.totals();
    // One of them all locks the client out, for fifteen seconds each time.
    assert_eq!(prison.by_tier, [10, 2]);

    page.play("bursts", "20");
    assert_eq!(page.totals(), prison);
}
