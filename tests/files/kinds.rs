//! Limits of other kinds than token buckets in files. `src/limit/notation.rs` has the fields of each.

use std::time::Duration;

use tollgate::{
    Limit, Limits,
    quota::{Per, UtcOffset},
    tiers::Tier,
};

use crate::{JSON, limit_of, overrides, support::Log};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// `src/algorithm/tiers/tier.rs` has the cases.
#[test]
fn short_cooldown_above_the_lowest_is_logged() {
    let lowest = Tier::new(5, secs(10)).active(secs(1));
    let burst = Tier::new(5, secs(10)).active(secs(10));
    for (cooldown, lines) in [(9, 1), (10, 0)] {
        let (log, _guard) = Log::capture();
        let limit = Limit::tiers([lowest, burst.cooldown(secs(cooldown))]).unwrap();
        Limits::builder().limit("a", limit).build().unwrap();
        assert_eq!(log.count("shorter than its window"), lines, "{log:?}");
        assert_eq!(log.count("limit=\"a\" tier=1"), lines, "{log:?}");
    }
}

#[test]
fn override_may_have_another_algorithm_than_the_default() {
    let text = r#"[{"any": {"limit": 5, "window": "15m", "ids": ["x"]}},
        {"any": {"quota": 9, "per": "month", "ids": ["y"]}},
        {"any:z": {"quota": 8, "per": "day", "utc_offset": "+01:00"}}]"#;
    let limits = overrides(JSON, text).unwrap();
    let ahead = UtcOffset::hours(1);
    for (id, expected) in [
        ("x", Limit::window(5, secs(900))),
        ("y", Limit::quota(9, Per::Month)),
        ("z", Limit::quota(8, Per::Day.at_offset(ahead))),
    ] {
        assert_eq!(limit_of(&limits, "any", id), Some(&expected), "{id}");
    }
}

#[cfg(feature = "zones")]
#[test]
fn mistakes_in_time_zones_have_a_remedy() {
    for (fields, mistake) in [
        (
            r#""per": "day", "time_zone": "Europe/Berln""#,
            "time_zone is `Europe/Berln`: did you mean `Europe/Berlin`?",
        ),
        (
            r#""per": "24h", "time_zone": "Europe/Berlin""#,
            "time_zone is for quotas per hour, day, week or month; a period of this length starts with the first request",
        ),
        (
            r#""per": "day", "utc_offset": "+02:00", "time_zone": "Europe/Berlin""#,
            "time_zone stands beside utc_offset: remove one of them",
        ),
        (
            r#""per": "day", "timezone": "Europe/Berlin""#,
            "did you mean `time_zone`?",
        ),
    ] {
        let text = format!("{{\"daily\": {{\"quota\": 5, {fields}}}}}");
        let error = crate::defaults(JSON, &text).unwrap_err().to_string();
        assert!(error.contains(mistake), "{error}");
    }
}
